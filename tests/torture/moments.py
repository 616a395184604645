"""Signals at awkward moments and to processes in the middle, and readers that go away.

A run of a good and a wrong implementation is disturbed. It is clean when what is left says no more than is
known: nothing lives on, no lock stays, a report is whole, and a run that came to its end has the right
verdicts.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from torture.ledger import Ledger
from torture.plugins import plugin
from torture.processes import processes_below, processes_in, waited
from torture.signals import as_from_a_terminal

ATTEST = Path(sys.executable).with_name("attest")
CRITERIA = ("M1.5a", "M1.4b")
MOST_SECONDS = 300
TABLE = "moments"
GOOD = plugin("good", body="time.sleep(0.2)")
WRONG = plugin("wrong", body="return np.ones((T, S), dtype=bool)")
STOPPED = frozenset({2, 3, 130, 143, -signal.SIGTERM, -signal.SIGINT, -signal.SIGHUP, -signal.SIGKILL})
ENDED = frozenset({1})  # the wrong one is wrong
Act = Callable[[subprocess.Popen[str], Path], None]


@dataclass(frozen=True)
class Moment:
    """What is done to a run, and how it may end."""

    act: Act
    codes: frozenset[int]
    words: Sequence[str] = ()
    reader: str = ""  # what a shell puts behind the run
    mode: str = "--sealed"


def _after(seconds: float, *numbers: signal.Signals, pause: float = 0.0) -> Act:
    """Signals to the front so long after its start, whatever it is doing then."""

    def act(run: subprocess.Popen[str], here: Path) -> None:
        time.sleep(seconds)
        for number in numbers:
            run.send_signal(number)
            time.sleep(pause)

    return act


def _while_judging(*numbers: signal.Signals, pause: float = 0.0) -> Act:
    """Signals to the front while the slow implementation is judged."""

    def act(run: subprocess.Popen[str], here: Path) -> None:
        waited(lambda: len(processes_below(run.pid, "attest.running.isolated")) > 1, 200)
        _after(0.5, *numbers, pause=pause)(run, here)

    return act


def _to(part: str, number: signal.Signals, which: int = -1) -> Act:
    """A signal to a process below the front whose command line holds this, while it is there."""

    def act(run: subprocess.Popen[str], here: Path) -> None:
        waited(lambda: bool(processes_below(run.pid, part)), 200)
        time.sleep(1.5)  # it has begun to work
        for process in processes_below(run.pid, part)[which:]:
            os.kill(process, number)

    return act


def _nothing(run: subprocess.Popen[str], here: Path) -> None:
    """The reader does it."""


WORKER, JUDGE, INSIDE, PYTEST = "execnet", "attest.running.isolated", "sent = marshal", "-m pytest"
MOMENTS: dict[str, Moment] = {
    **{
        f"SIGTERM after {seconds} s": Moment(_after(seconds, signal.SIGTERM), STOPPED | ENDED)
        for seconds in (0.1, 0.5, 1.0, 2.0, 4.0, 8.0)
    },
    "SIGINT after 1 s": Moment(_after(1.0, signal.SIGINT), STOPPED | ENDED),
    "SIGHUP after 1 s": Moment(_after(1.0, signal.SIGHUP), STOPPED | ENDED),
    "SIGINT twice at once": Moment(_while_judging(signal.SIGINT, signal.SIGINT, pause=0.05), STOPPED),
    "SIGINT twice, 3 s apart": Moment(_while_judging(signal.SIGINT, signal.SIGINT, pause=3.0), STOPPED),
    "ten times SIGTERM": Moment(_while_judging(*[signal.SIGTERM] * 10, pause=0.2), STOPPED),
    "SIGHUP, then SIGTERM": Moment(_while_judging(signal.SIGHUP, signal.SIGTERM, pause=0.5), STOPPED),
    "SIGUSR1 to the front": Moment(_while_judging(signal.SIGUSR1), STOPPED | {-signal.SIGUSR1}),
    "SIGTERM to a worker": Moment(_to(WORKER, signal.SIGTERM), STOPPED | ENDED),
    "SIGKILL to a worker": Moment(_to(WORKER, signal.SIGKILL), STOPPED | ENDED),
    "SIGINT to a worker": Moment(_to(WORKER, signal.SIGINT), ENDED),
    "SIGKILL to the judging process": Moment(_to(JUDGE, signal.SIGKILL), ENDED),
    "SIGTERM to the judging process": Moment(_to(JUDGE, signal.SIGTERM), ENDED),
    "SIGALRM to the judging process": Moment(_to(JUDGE, signal.SIGALRM), ENDED),
    "SIGKILL to the sealed process": Moment(_to(INSIDE, signal.SIGKILL), ENDED),
    "SIGKILL to the judging process, open": Moment(_to(JUDGE, signal.SIGKILL), ENDED, mode="--open"),
    "SIGKILL to pytest": Moment(_to(PYTEST, signal.SIGKILL, 0), STOPPED),
    "SIGPIPE to pytest": Moment(_to(PYTEST, signal.SIGPIPE, 0), STOPPED | ENDED),
    "its words into head": Moment(_nothing, STOPPED | ENDED, ("-v",), "| head -n 1"),
    "its table into head": Moment(_nothing, STOPPED | ENDED, (), "| head -n 1"),
    "its JSON into head": Moment(_nothing, STOPPED | ENDED, ("--json",), "| head -c 1"),
    "its words to nobody": Moment(_nothing, STOPPED | ENDED, ("-v",), "| true"),
}


def try_moments(home: Path, ledger: Ledger) -> dict[str, str]:
    """By moment, an empty sentence where nothing was lost and nothing lives on."""
    text = Path(__file__).read_text()

    def act(name: str) -> None:
        here = home / f"moment-{list(MOMENTS).index(name)}"
        here.mkdir()
        ledger.keep(TABLE, name, text, _tried(here, MOMENTS[name]))

    ledger.each(act, [name for name in MOMENTS if ledger.known(TABLE, name, text) is None])
    return {name: ledger.known(TABLE, name, text) for name in MOMENTS}


def _tried(here: Path, moment: Moment) -> str:
    (here / "good.py").write_text(GOOD)
    (here / "wrong.py").write_text(WRONG)
    words = [word for id in CRITERIA for word in ("-c", id)]
    words += ["--impl", "wrong.py", "--impl", "good.py", "--profile", "quick", "-n", "1", moment.mode]
    command = [str(ATTEST), "run", *words, *moment.words, "--reports", "out", "--", "--attest-seconds=20"]
    if moment.reader:
        command = ["bash", "-c", f'set -o pipefail; "$@" {moment.reader}', "run", *command]
    with open(here / "shown", "w") as shown:
        run = subprocess.Popen(
            command, cwd=here, stdin=subprocess.DEVNULL, stdout=shown, stderr=subprocess.STDOUT, text=True,
            start_new_session=True, preexec_fn=as_from_a_terminal,
        )  # fmt: skip
        try:
            moment.act(run, here)
            run.wait(MOST_SECONDS)
        except subprocess.TimeoutExpired:
            os.killpg(run.pid, signal.SIGKILL)
            return f"did not end within {MOST_SECONDS} s"
    return _complaint(here, moment, run.returncode)


def _complaint(here: Path, moment: Moment, code: int) -> str:
    told = (here / "shown").read_text(errors="replace")
    if code not in moment.codes:
        return f"exit code {code}: {' '.join(told.split())[-200:]}"
    if "Traceback" in told or "INTERNALERROR" in told:
        return f"a traceback: {' '.join(told.partition('Traceback')[2].split())[:400]}"
    if not waited(lambda: not processes_in(here), 60):
        return "a process lives on"
    if code not in STOPPED and any(here.glob("out/*/run.lock")):
        return "a lock is left"
    return next((fault for name in ("good", "wrong") if (fault := _fault(here, name, code))), "")


def _fault(here: Path, name: str, code: int) -> str:
    """What is wrong with the report of an implementation; a run that was stopped early may have none."""
    path = here / "out" / name / "report.json"
    if not path.exists():
        return f"no report of {name}" if code in ENDED else ""
    report = json.loads(path.read_text())
    rows = {row["id"]: row for m in report["milestones"] for row in m["criteria"]}
    if sorted({*rows, *report["selection"]["missing"]}) != sorted(CRITERIA):
        return f"the report of {name} does not name what is missing"
    if any(row["internal"] for row in rows.values()):
        return "called a fault of the harness"
    right = {"good": ("pass", "error"), "wrong": ("fail", "error")}[name]
    if "M1.5a" in rows and rows["M1.5a"]["verdict"] not in right:
        return f"{name} is {rows['M1.5a']['verdict']}"
    return ""
