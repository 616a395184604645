"""Each hostile plugin is judged beside a good one: it may cost itself what it likes, and the other nothing."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

from torture.plugins import CRITERIA, Plugin, plugin, plugins

ATTEST = Path(sys.executable).with_name("attest")
MODES = ("sealed", "open")
MOST_SECONDS = 300
MOST_OUTPUT = 1_000_000  # characters: what a plugin says is shortened


def try_plugins(home: Path, mode: str, chosen: str = "") -> dict[str, str]:
    """By name, an empty sentence where the plugin cost only itself."""
    (home / "good.py").write_text(plugin("good"))
    found = {}
    for hostile in plugins():
        if chosen and hostile.name != chosen:
            continue
        (home / f"{hostile.name}.py").write_text(hostile.text, errors="surrogatepass")
        found[hostile.name] = _tried(home, hostile, mode)
        print(f"{mode:<7} {hostile.name:<40} {found[hostile.name] or 'cost only itself'}", flush=True)
    return found


def _tried(home: Path, hostile: Plugin, mode: str) -> str:
    words = ["run", f"--{mode}", "--impl", f"{hostile.name}.py", "--impl", "good.py", "--json", "-n", "1"]
    words += [word for id in hostile.criteria for word in ("-c", id)]
    words += ["--profile", "quick", "--seed", "0", "--reports", f"out-{mode}-{hostile.name}"]
    try:
        run = subprocess.run(
            [ATTEST, *words, "--", "--attest-seconds=5"],
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
    return complaint(run)


def complaint(run: subprocess.CompletedProcess[str]) -> str:
    """What is wrong with how a run with a hostile plugin ended."""
    try:
        reports = {d["implementation"]: d for d in json.loads(run.stdout)["reports"]}
        rows = {r["id"]: r for m in reports["good"]["milestones"] for r in m["criteria"]}
    except (ValueError, KeyError, TypeError):
        return f"no reports, exit code {run.returncode}"
    if any(rows[id]["verdict"] != "pass" for id in CRITERIA):
        return "the good implementation does not pass"
    if any(r["internal"] for d in reports.values() for m in d["milestones"] for r in m["criteria"]):
        return "called a fault of the harness"
    if run.returncode not in (0, 1):
        return f"exit code {run.returncode}"
    if len(run.stdout + run.stderr) > MOST_OUTPUT:
        return "the terminal is flooded"
    return "a terminal escape got through" if "\x1b" in run.stdout + run.stderr else ""
