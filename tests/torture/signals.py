"""A signal to `attest run` while a criterion hangs: all must end, and the report names what is missing."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from pathlib import Path

from torture.ledger import Ledger
from torture.plugins import plugin
from torture.processes import processes_in, waited

ATTEST = Path(sys.executable).with_name("attest")
SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT, signal.SIGKILL)
WORKERS = ("0", "1", "2")
MODES = ("sealed", "open")
TABLE = "signals"


def try_signals(home: Path, ledger: Ledger) -> dict[str, str]:
    """By signal and number of workers, an empty sentence where all ended as it should."""
    text = plugin("slow", body="time.sleep(600)")
    attacks = {f"{n.name} -n {w} {m}": (n, w, m) for n in SIGNALS for w in WORKERS for m in MODES}

    def act(name: str) -> None:
        here = home / name.replace(" ", "")
        here.mkdir()
        (here / "slow.py").write_text(text)
        ledger.keep(TABLE, name, text, _tried(here, *attacks[name]))

    ledger.each(act, [name for name in attacks if ledger.known(TABLE, name, text) is None])
    return {name: ledger.known(TABLE, name, text) for name in attacks}


def _tried(home: Path, number: signal.Signals, workers: str, mode: str) -> str:
    out = home / "out"
    words = [
        "run",
        "--impl",
        "slow.py",
        "-c",
        "M1.5a",
        "-c",
        "M1.4b",
        "--profile",
        "quick",
        "-n",
        workers,
        f"--{mode}",
    ]
    front = subprocess.Popen(
        [ATTEST, *words, "--reports", str(out)], cwd=home, stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL, start_new_session=True,
        preexec_fn=as_from_a_terminal,
    )  # fmt: skip
    records = out / "slow" / "records.jsonl"
    waited(lambda: records.exists() and records.read_text().count("\n") > 1, 200)
    front.send_signal(number)
    front.wait(120)
    if not waited(lambda: not processes_in(home), 60):
        return "processes live on"
    report = json.loads((out / "slow" / "report.json").read_text())
    return "" if report["selection"]["missing"] == ["M1.5a"] else "the report does not name what is missing"


def as_from_a_terminal() -> None:
    """What a shell starts in the background ignores some signals."""
    for number in SIGNALS[:-1]:
        signal.signal(number, signal.SIG_DFL)
    signal.signal(signal.SIGINT, signal.default_int_handler)
