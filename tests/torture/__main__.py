"""Run the attacks that were asked for, all by default, and write down what happened."""

from __future__ import annotations

import argparse
import sys
import tempfile
import warnings
from collections import Counter
from pathlib import Path

from torture.beside import MODES, try_plugins
from torture.command_lines import try_lines
from torture.parsers import PARSERS
from torture.signals import try_signals

PAGE = Path(__file__).parents[2] / "docs" / "robustness.md"
BEGIN, END = "<!-- table -->", "<!-- end of table -->"
PARTS = ("plugins", "signals", "lines", "fuzz")
ATTACKS = (
    *(f"hostile plugins beside a good one, {mode}" for mode in MODES),
    "signals to `attest run`",
    "wrong command lines",
)
HEADINGS = (
    ("| attacks | tried | clean | what was not |", "|---|---:|---:|---|"),
    ("| parser | inputs | accepted | refused in one line | anything else |", "|---|---:|---:|---:|---|"),
)
Attacks = dict[str, dict[str, str]]
Fuzzed = dict[str, Counter[str]]


def main() -> int:
    """Exit code 1 when an attack did more than it may."""
    option = _options()
    with tempfile.TemporaryDirectory(prefix="torture-") as made:
        attacks, fuzzed = _tried(option, Path(made).resolve())
    found = rows(attacks, fuzzed)
    print("\n".join(found.values()))
    if option.write:
        page = PAGE.read_text(encoding="utf-8")
        PAGE.write_text(with_tables(page, found), encoding="utf-8")
    return int(not all(line.endswith("| - |") for line in found.values()))


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m torture", description=__doc__)
    parser.add_argument("--only", choices=PARTS)
    parser.add_argument("--plugin", default="", help="only this hostile plugin")
    parser.add_argument("--mode", default="", choices=MODES, help="hostile plugins in this mode only")
    parser.add_argument("--scale", type=float, default=1.0, help="how many inputs of a fuzz, 1 is all")
    parser.add_argument("--write", action="store_true", help="put the tables into docs/robustness.md")
    return parser.parse_args()


def _tried(option: argparse.Namespace, home: Path) -> tuple[Attacks, Fuzzed]:
    parts = (option.only,) if option.only else PARTS
    attacks: Attacks = {}
    for name, mode in zip(ATTACKS, MODES) if "plugins" in parts else ():
        if option.mode in ("", mode):
            attacks[name] = try_plugins(home, mode, option.plugin)
    if "signals" in parts:
        attacks[ATTACKS[-2]] = try_signals(home)
    if "lines" in parts:
        attacks[ATTACKS[-1]] = try_lines(home)
    warnings.simplefilter("error")
    parsers = enumerate(PARSERS) if "fuzz" in parts else ()
    return attacks, {p.name: p.fuzz(home / f"fuzz-{i}", option.scale) for i, p in parsers}


def rows(attacks: Attacks, fuzzed: Fuzzed) -> dict[str, str]:
    """Lines of the tables by the name of what was tried; each ends with what went wrong."""
    found = {}
    for name, seen in attacks.items():
        bad = "; ".join(f"{k}: {v}" for k, v in seen.items() if v)
        found[name] = f"| {name} | {len(seen)} | {sum(not v for v in seen.values())} | {bad or '-'} |"
    for name, counts in fuzzed.items():
        total, accepted, refused = counts.total(), counts["accepted"], counts["refused"]
        bad = "; ".join(f"{k}: {n}" for k, n in sorted(counts.items()) if k not in ("accepted", "refused"))
        found[name] = f"| {name} | {total} | {accepted} | {refused} | {bad or '-'} |"
    return found


def with_tables(page: str, found: dict[str, str]) -> str:
    """The page with new tables between its marks. What was not tried this time keeps its line."""
    before, _, rest = page.partition(BEGIN)
    old, _, after = rest.partition(END)
    lines = {name: line for line in old.splitlines() if (name := line[2:].partition(" |")[0])} | found
    attacks = [lines[name] for name in ATTACKS if name in lines]
    parsers = [lines[parser.name] for parser in PARSERS if parser.name in lines]
    tables = [*HEADINGS[0], *attacks, "", *HEADINGS[1], *parsers]
    return "\n".join([before + BEGIN, *tables, END + after])


if __name__ == "__main__":
    sys.exit(main())
