"""Hostile plugins are judged beside a good one: what each costs, it may cost itself alone.

Several are judged in one run, the good one at the end. Where that is not clean, each has a run of its own.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator, Sequence
from itertools import groupby
from pathlib import Path

from torture.ledger import Ledger
from torture.plugins import CRITERIA, Plugin, plugin, plugins
from torture.processes import processes_in, waited

ATTEST = Path(sys.executable).with_name("attest")
MODES = ("sealed", "open")
TOGETHER = 8
LIMIT = 15  # seconds for a criterion; those that hang wait so long
MOST_SECONDS = 1200
MOST_OUTPUT = 1_000_000  # characters: what a plugin says is shortened


def try_plugins(home: Path, ledger: Ledger, mode: str) -> dict[str, str]:
    """By name, an empty sentence where the plugin cost only itself."""

    def known(hostile: Plugin) -> str | None:
        outcome: str | None = ledger.known(mode, hostile.name, hostile.text)
        return outcome

    def act(group: list[Plugin]) -> None:
        alone = len(group) > 1 and _tried(home, group, mode)
        for hostile in group:
            fault = _tried(home, [hostile], mode) if alone or len(group) == 1 else ""
            ledger.keep(mode, hostile.name, hostile.text, fault)

    ledger.each(act, _groups([hostile for hostile in plugins() if known(hostile) is None]))
    return {hostile.name: known(hostile) or "" for hostile in plugins()}


def _groups(found: Sequence[Plugin]) -> Iterator[list[Plugin]]:
    """A few plugins at a time that are judged by the same criteria."""
    for _, same in groupby(found, key=lambda hostile: hostile.criteria):
        rest = list(same)
        while rest:
            yield rest[:TOGETHER]
            rest = rest[TOGETHER:]


def _tried(home: Path, group: Sequence[Plugin], mode: str) -> str:
    """In a directory of its own: a plugin may change or remove it."""
    here = home / f"{group[0].name}-{len(group)}"
    here.mkdir()
    (here / "good.py").write_text(plugin("good"))
    for hostile in group:
        (here / f"{hostile.name}.py").write_text(hostile.text)
    words = [word for name in (*(h.name for h in group), "good") for word in ("--impl", f"{name}.py")]
    words += [word for id in group[0].criteria for word in ("-c", id)]
    words += ["--profile", "quick", "--seed", "0", "--reports", "out"]
    try:
        run = subprocess.run(
            [ATTEST, "run", f"--{mode}", "--json", "-n", "1", *words, "--", f"--attest-seconds={LIMIT}"],
            cwd=here,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            errors="replace",
            timeout=MOST_SECONDS,
            check=False,
        )
    except subprocess.TimeoutExpired:
        return f"did not end within {MOST_SECONDS} s"
    return complaint(run, len(group)) or lives_on(here)


def lives_on(here: Path) -> str:
    """Whether a process that works in this directory is left."""
    return "" if waited(lambda: not processes_in(here), 20) else "a process lives on"


def complaint(run: subprocess.CompletedProcess[str], hostile: int) -> str:
    """What is wrong with how a run with so many hostile plugins ended."""
    try:
        reports = {d["implementation"]: d for d in json.loads(run.stdout)["reports"]}
        rows = {r["id"]: r for m in reports["good"]["milestones"] for r in m["criteria"]}
    except (ValueError, KeyError, TypeError):
        return f"no reports, exit code {run.returncode}"
    if any(rows[id]["verdict"] != "pass" for id in CRITERIA):
        return "the good implementation does not pass"
    if len(reports) != hostile + 1:
        return f"{len(reports)} reports of {hostile + 1}"
    if any(r["internal"] for d in reports.values() for m in d["milestones"] for r in m["criteria"]):
        return "called a fault of the harness"
    if run.returncode not in (0, 1):
        return f"exit code {run.returncode}"
    if len(run.stdout + run.stderr) > MOST_OUTPUT:
        return "the terminal is flooded"
    return "a terminal escape got through" if "\x1b" in run.stdout + run.stderr else ""
