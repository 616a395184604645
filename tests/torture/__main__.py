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
Attacks = dict[str, dict[str, str]]
Fuzzed = dict[str, Counter[str]]


def main() -> int:
    """Exit code 1 when an attack did more than it may."""
    option = _options()
    with tempfile.TemporaryDirectory(prefix="torture-") as made:
        attacks, fuzzed = _tried(option, Path(made).resolve())
    print(table(attacks, fuzzed))
    if option.write:
        before, _, rest = PAGE.read_text(encoding="utf-8").partition(BEGIN)
        after = rest.partition(END)[2]
        PAGE.write_text(f"{before}{BEGIN}\n{table(attacks, fuzzed)}\n{END}{after}", encoding="utf-8")
    bad = any(sentence for found in attacks.values() for sentence in found.values())
    return int(bad or any(set(seen) - {"accepted", "refused"} for seen in fuzzed.values()))


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m torture", description=__doc__)
    parser.add_argument("--only", choices=PARTS)
    parser.add_argument("--plugin", default="", help="only this hostile plugin")
    parser.add_argument("--scale", type=float, default=1.0, help="how many inputs of a fuzz, 1 is all")
    parser.add_argument("--write", action="store_true", help="put the tables into docs/robustness.md")
    return parser.parse_args()


def _tried(option: argparse.Namespace, home: Path) -> tuple[Attacks, Fuzzed]:
    parts = (option.only,) if option.only else PARTS
    attacks: Attacks = {}
    for mode in MODES if "plugins" in parts else ():
        attacks[f"hostile plugins beside a good one, {mode}"] = try_plugins(home, mode, option.plugin)
    if "signals" in parts:
        attacks["signals to `attest run`"] = try_signals(home)
    if "lines" in parts:
        attacks["wrong command lines"] = try_lines(home)
    warnings.simplefilter("error")
    parsers = enumerate(PARSERS) if "fuzz" in parts else ()
    return attacks, {p.name: p.fuzz(home / f"fuzz-{i}", option.scale) for i, p in parsers}


def table(attacks: Attacks, fuzzed: Fuzzed) -> str:
    """What was tried and what happened, as docs/robustness.md shows it."""
    lines = ["| attacks | tried | clean | what was not |", "|---|---:|---:|---|"]
    for name, found in attacks.items():
        bad = "; ".join(f"{k}: {v}" for k, v in found.items() if v)
        lines.append(f"| {name} | {len(found)} | {sum(not v for v in found.values())} | {bad or '-'} |")
    heading = "| parser | inputs | accepted | refused in one line | anything else |"
    lines += ["", heading, "|---|---:|---:|---:|---|"]
    for name, seen in fuzzed.items():
        other = "; ".join(f"{k}: {n}" for k, n in sorted(seen.items()) if k not in ("accepted", "refused"))
        total = sum(seen.values())
        lines.append(f"| {name} | {total} | {seen['accepted']} | {seen['refused']} | {other or '-'} |")
    return "\n".join(lines)


if __name__ == "__main__":
    sys.exit(main())
