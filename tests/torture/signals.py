"""A signal to `attest run` while a criterion hangs: all must end, and the report names what is missing."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

from torture.plugins import plugin

ATTEST = Path(sys.executable).with_name("attest")
SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT, signal.SIGKILL)
WORKERS = ("0", "1", "2")


def try_signals(home: Path) -> dict[str, str]:
    """By signal and number of workers, an empty sentence where all ended as it should."""
    (home / "slow.py").write_text(plugin("slow", body="time.sleep(600)"))
    found = {}
    for number in SIGNALS:
        for workers in WORKERS:
            name = f"{number.name} -n {workers}"
            found[name] = _tried(home, number, workers)
            print(f"{name}: {found[name] or 'all ended'}", flush=True)
    return found


def _tried(home: Path, number: signal.Signals, workers: str) -> str:
    out = home / f"signal-{number.name}-{workers}"
    words = ["run", "--impl", "slow.py", "-c", "M1.5a", "-c", "M1.4b", "--profile", "quick", "-n", workers]
    front = subprocess.Popen(
        [ATTEST, *words, "--reports", str(out)], cwd=home, stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL, start_new_session=True,
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.default_int_handler),
    )  # fmt: skip
    records = out / "slow" / "records.jsonl"
    waited(lambda: records.exists() and records.read_text().count("\n") > 1, 90)
    front.send_signal(number)
    front.wait(90)
    if not waited(lambda: not processes_in(home), 60):
        return "processes live on"
    report = json.loads((out / "slow" / "report.json").read_text())
    return "" if report["selection"]["missing"] == ["M1.5a"] else "the report does not name what is missing"


def waited(condition: Callable[[], bool], seconds: float) -> bool:
    """Whether it came true in time."""
    deadline = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > deadline:
            return False
        time.sleep(0.2)
    return True


def processes_in(directory: Path) -> list[str]:
    """Processes whose working directory this is. Needs /proc."""
    found = []
    for entry in Path("/proc").glob("[0-9]*"):
        try:
            ended = (entry / "stat").read_text().rpartition(")")[2].split()[0] == "Z"
            if os.readlink(entry / "cwd") == str(directory) and not ended:
                found.append(entry.name)
        except OSError:
            continue
    return found
