"""Run pytest in a process of its own and follow it: as a live table, in its own words, or as JSON."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, nullcontext
from enum import Enum
from types import FrameType
from typing import IO, Any

from attest.running.stopping import SIGNALS, keep_awake

Event = dict[str, Any]
CLOSING_SECONDS = 30.0  # for pytest to write its reports and end
OF_PYTEST = ("PYTEST_ADDOPTS", "PYTEST_PLUGINS")  # settings for the tests of a project
_USAGE, _HARNESS, _PYTEST_USAGE = 2, 3, 4


class Mode(Enum):
    """What `attest run` shows."""

    LIVE = "live"
    PLAIN = "plain"
    JSON = "json"


def run_pytest(arguments: Sequence[str], mode: Mode) -> int:
    """Run, show, and return the exit code; 3 when pytest ended without saying how the run went."""
    reading, writing = os.pipe()
    command = [*_bare_pytest(), *arguments, f"--attest-events={writing}"]
    if mode is Mode.PLAIN:
        command += ["-q", "--no-header", "-rN"] if "-v" not in arguments else []
    relay = Relay() if mode is Mode.PLAIN and not sys.stdout.isatty() else None
    with nullcontext() if mode is Mode.PLAIN else _hidden() as output:
        process = subprocess.Popen(
            command, pass_fds=[writing], stdout=relay.writing if relay else output, stderr=output,
            env={name: value for name, value in os.environ.items() if name not in OF_PYTEST},
        )  # fmt: skip
        os.close(writing)
        if relay:
            relay.begin()
        keep_awake(lambda: [process])
        with _passing_signals_to(process), os.fdopen(reading, encoding="utf-8", errors="replace") as stream:
            closing = _follow(_events(stream), mode)
            code = _wait(process, closing)  # before the pipe is closed, which tells pytest to stop
        if relay and (lost := relay.lost()):
            print(
                f"ERROR: standard output cannot be written ({lost}); look into the reports", file=sys.stderr
            )
            return _HARNESS
        return _conclude(code, closing, mode, output)


class Relay:
    """Takes what pytest writes to standard output, so that a full disk there does not end the run."""

    def __init__(self) -> None:
        self._reading, self.writing = os.pipe()
        self._lost = ""
        self._thread = threading.Thread(target=self._pass_on, daemon=True)

    def begin(self) -> None:
        """pytest has started and holds its end."""
        os.close(self.writing)
        self._thread.start()

    def lost(self) -> str:
        """Why something could not be written, once all was read; empty where nothing was lost."""
        self._thread.join(CLOSING_SECONDS)  # what an implementation started may hold the pipe open
        return self._lost

    def _pass_on(self) -> None:
        while part := os.read(self._reading, 2**16):
            try:
                while part and not self._lost:
                    part = part[os.write(1, part) :]
            except OSError as error:
                self._lost = str(error.strerror)


def _bare_pytest() -> list[str]:
    """pytest without anything of the working directory: a conftest.py, settings, or a module called pytest.

    A project's own settings need not fit, and an implementation that writes files may have written these.
    `pytest --impl` reads them.
    """
    nothing = ["--noconftest", f"--config-file={os.devnull}", f"--rootdir={os.getcwd()}"]
    return [sys.executable, "-P", "-m", "pytest", *nothing]


@contextmanager
def _passing_signals_to(process: subprocess.Popen[bytes]) -> Iterator[None]:
    """Ask pytest to close down where this process is asked to; it leaves a report of what it has judged."""
    asked: list[threading.Timer] = []

    def stop(number: int, frame: FrameType | None) -> None:
        process.send_signal(signal.SIGTERM)
        if not asked:  # one that does not close down is ended
            asked.append(threading.Timer(CLOSING_SECONDS, process.kill))
            asked[0].daemon = True
            asked[0].start()

    before = {number: signal.signal(number, stop) for number in SIGNALS}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
        for timer in asked:
            timer.cancel()


def _hidden() -> IO[str]:
    """A file for pytest's own words, shown only if the run does not come to its end."""
    return tempfile.TemporaryFile("w+", encoding="utf-8", errors="replace")


def _events(stream: IO[str]) -> Iterator[Event]:
    """Up to the closing one: what an implementation started may hold the pipe open for ever."""
    for line in stream:
        event: Event = json.loads(line)
        yield event
        if "exit" in event:
            return


def _follow(events: Iterator[Event], mode: Mode) -> Event | None:
    """Consume the events; the closing one if it came."""
    if mode is Mode.LIVE:
        from attest.report.live import watch

        return watch(events)
    closing = None
    for event in events:
        if "exit" in event:
            closing = event
    return closing


def _wait(process: subprocess.Popen[bytes], closing: Event | None) -> int:
    """The exit code; that of the closing event where pytest then does not end, 3 where a signal ended it."""
    if closing is None:
        return process.wait()
    try:
        code = process.wait(CLOSING_SECONDS)
        return code if code >= 0 else _HARNESS
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
        return int(closing["exit"])


def _conclude(code: int, closing: Event | None, mode: Mode, output: IO[str] | None) -> int:
    if closing is None:
        code = _USAGE if code in (_USAGE, _PYTEST_USAGE) else _HARNESS
        if output is not None:
            output.seek(0)
            sys.stderr.write(output.read())
        if code == _HARNESS:
            print("the run ended before its records were complete, so it proves nothing", file=sys.stderr)
        return code
    if mode is Mode.JSON:
        print(json.dumps({"exit": code, "reports": closing["reports"]}, indent=1))
    elif mode is Mode.LIVE:
        from attest.report.live import print_summary

        print_summary(closing["summary"])
    return code
