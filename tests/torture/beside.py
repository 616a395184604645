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

from torture.plugins import CRITERIA, Plugin, plugin, plugins

ATTEST = Path(sys.executable).with_name("attest")
MODES = ("sealed", "open")
TOGETHER = 8
MOST_SECONDS = 900
MOST_OUTPUT = 1_000_000  # characters: what a plugin says is shortened


def try_plugins(home: Path, mode: str, chosen: str = "") -> dict[str, str]:
    """By name, an empty sentence where the plugin cost only itself."""
    (home / "good.py").write_text(plugin("good"))
    found: dict[str, str] = {}
    for group in _groups([hostile for hostile in plugins() if chosen in ("", hostile.name)]):
        for hostile in group:
            (home / f"{hostile.name}.py").write_text(hostile.text)
        found |= dict.fromkeys((hostile.name for hostile in group), "")
        if len(group) == 1 or _tried(home, group, mode):
            found |= {hostile.name: _tried(home, [hostile], mode) for hostile in group}
        for hostile in group:
            print(f"{mode:<7} {hostile.name:<40} {found[hostile.name] or 'cost only itself'}", flush=True)
    return found


def _groups(found: Sequence[Plugin]) -> Iterator[list[Plugin]]:
    """A few plugins at a time that are judged by the same criteria."""
    for _, same in groupby(found, key=lambda hostile: hostile.criteria):
        rest = list(same)
        while rest:
            yield rest[:TOGETHER]
            rest = rest[TOGETHER:]


def _tried(home: Path, group: Sequence[Plugin], mode: str) -> str:
    words = [word for name in (*(h.name for h in group), "good") for word in ("--impl", f"{name}.py")]
    words += [word for id in group[0].criteria for word in ("-c", id)]
    words += ["--profile", "quick", "--seed", "0", "--reports", f"out-{mode}-{group[0].name}-{len(group)}"]
    try:
        run = subprocess.run(
            [ATTEST, "run", f"--{mode}", "--json", "-n", "1", *words, "--", "--attest-seconds=5"],
            cwd=home,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            errors="replace",
            timeout=MOST_SECONDS,
            check=False,
        )
    except subprocess.TimeoutExpired:
        return f"did not end within {MOST_SECONDS} s"
    return complaint(run, len(group))


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
