"""Run pytest in a process of its own and follow it: as a live table, in its own words, or as JSON."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import nullcontext, suppress
from enum import Enum
from typing import IO, Any

Event = dict[str, Any]
_USAGE, _HARNESS, _PYTEST_USAGE = 2, 3, 4


class Mode(Enum):
    """What `attest run` shows."""

    LIVE = "live"
    PLAIN = "plain"
    JSON = "json"


def run_pytest(arguments: Sequence[str], mode: Mode) -> int:
    """Run, show, and return the exit code; 3 when pytest ended without saying how the run went."""
    reading, writing = os.pipe()
    command = [sys.executable, "-m", "pytest", *arguments, f"--attest-events={writing}"]
    if mode is Mode.PLAIN:
        command += ["-q", "--no-header", "-rN"] if "-v" not in arguments else []
    with nullcontext() if mode is Mode.PLAIN else _hidden() as output:
        process = subprocess.Popen(command, pass_fds=[writing], stdout=output, stderr=output)
        os.close(writing)
        closing = None
        with suppress(KeyboardInterrupt), os.fdopen(reading, encoding="utf-8") as stream:
            closing = _follow(_events(stream), mode)
        return _conclude(_wait(process), closing, mode, output)


def _hidden() -> IO[str]:
    """A file for pytest's own words, shown only if the run does not come to its end."""
    return tempfile.TemporaryFile("w+", encoding="utf-8", errors="replace")


def _events(stream: IO[str]) -> Iterator[Event]:
    for line in stream:
        event: Event = json.loads(line)
        yield event


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


def _wait(process: subprocess.Popen[bytes]) -> int:
    while True:
        try:
            return process.wait()
        except KeyboardInterrupt:  # pytest got the same signal and is closing down
            continue


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
