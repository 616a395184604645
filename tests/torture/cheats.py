"""The implementations of `tests/cheats` by the command: each is wrong, no sealed run may say otherwise."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path

from attest.spec import load_spec
from torture.ledger import Ledger

ATTEST = Path(sys.executable).with_name("attest")
FILES = Path(__file__).parents[1] / "cheats"
HELPERS = ("heart", "knows_the_answers_of_a_seed")  # the second needs a run to learn from, and so a test
CRITERIA = [c.id for c in load_spec().criteria if c.milestone == "M1" and set(c.needs) == {"attention"}]
FORMULA = "M1.2"
MOST_SECONDS = 1200
TABLE = "cheats"


def try_cheats(home: Path, ledger: Ledger) -> dict[str, str]:
    """By name, an empty sentence where the cheat does not conform."""
    texts = {path.stem: path.read_text() for path in sorted(FILES.glob("*.py"))}
    names = [name for name in texts if name not in HELPERS]

    def act(name: str) -> None:
        ledger.keep(TABLE, name, texts[name], _tried(home / name, name))

    ledger.each(act, [name for name in names if ledger.known(TABLE, name, texts[name]) is None])
    return {name: ledger.known(TABLE, name, texts[name]) for name in names}


def _tried(here: Path, name: str) -> str:
    """By the formula, at which most fail; those that do not by all that is asked of attention."""
    shutil.copytree(FILES, here)
    return _judged(here, name, [FORMULA]) and _judged(here, name, CRITERIA)


def _judged(here: Path, name: str, criteria: list[str]) -> str:
    words = ["--sealed", "--profile", "quick", "--json", "-n", "1"]
    words += [word for id in criteria for word in ("-c", id)]
    run = subprocess.run(
        [ATTEST, "run", "--impl", f"{name}.py", *words],
        cwd=here, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=MOST_SECONDS, check=False,
    )  # fmt: skip
    if run.returncode != 1:
        return f"exit code {run.returncode}"
    (report,) = json.loads(run.stdout)["reports"]
    rows = [row for milestone in report["milestones"] for row in milestone["criteria"]]
    if any(row["internal"] for row in rows):
        return "called a fault of the harness"
    return "" if any(row["verdict"] in ("fail", "error") for row in rows) else "nothing fails"
