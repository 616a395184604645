"""Run the attacks that were asked for, all by default, and write down what happened."""

from __future__ import annotations

import argparse
import sys
import tempfile
from collections import Counter
from collections.abc import Callable
from pathlib import Path

from torture.beside import MODES, try_plugins
from torture.cheats import try_cheats
from torture.command_lines import try_lines
from torture.ledger import Ledger
from torture.mishaps import try_mishaps
from torture.moments import try_moments
from torture.parsers import PARSERS, try_parsers
from torture.signals import try_signals

ROOT = Path(__file__).parents[2]
PAGE, KEPT = ROOT / "docs" / "robustness.md", ROOT / "reports" / "torture.jsonl"
BEGIN, END = "<!-- table -->", "<!-- end of table -->"
Faults = dict[str, str]
Attacks = dict[str, Faults]
Fuzzed = dict[str, Counter[str]]
# The parts, in order, and the rows of the first table that each writes.
PARTS: dict[str, dict[str, Callable[[Path, Ledger], Faults]]] = {
    "signals": {"signals to `attest run`": try_signals},
    "moments": {"signals at awkward moments and readers that go away": try_moments},
    "mishaps": {"mishaps of a machine or a person": try_mishaps},
    "lines": {"wrong command lines": try_lines},
    "cheats": {"cheats under seal": try_cheats},
    "sealed": {f"hostile plugins beside a good one, {MODES[0]}": lambda h, k: try_plugins(h, k, MODES[0])},
    "open": {f"hostile plugins beside a good one, {MODES[1]}": lambda h, k: try_plugins(h, k, MODES[1])},
    "fuzz": {},
}
ATTACKS = [row for part in PARTS.values() for row in part]
HEADINGS = (
    ("| attacks | tried | clean | what was not |", "|---|---:|---:|---|"),
    ("| parser | inputs | accepted | refused in one line | anything else |", "|---|---:|---:|---:|---|"),
)


def main() -> int:
    """Exit code 1 when an attack did more than it may."""
    option = _options()
    ledger = Ledger(
        option.keep, resume=option.resume or option.mended, mended=option.mended, workers=option.workers
    )
    with tempfile.TemporaryDirectory(prefix="torture-", ignore_cleanup_errors=True) as made:
        home = Path(made).resolve()
        attacks: Attacks = {}
        for part in option.only or PARTS:
            (home / part).mkdir()
            attacks |= {row: attempt(home / part, ledger) for row, attempt in PARTS[part].items()}
        fuzzed = try_parsers(home, ledger) if not option.only or "fuzz" in option.only else {}
    found = rows(attacks, fuzzed)
    print("\n".join(found.values()))
    if option.write:
        page = PAGE.read_text(encoding="utf-8")
        PAGE.write_text(with_tables(page, found), encoding="utf-8")
    return int(not all(line.endswith("| - |") for line in found.values()))


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m torture", description=__doc__)
    parser.add_argument("--only", choices=PARTS, action="append", help="this part; repeats")
    parser.add_argument("--resume", action="store_true", help="leave out what was tried on this harness")
    parser.add_argument("--mended", action="store_true", help="--resume, but on any harness what was clean")
    parser.add_argument("--keep", type=Path, default=KEPT, metavar="FILE", help="where outcomes are kept")
    parser.add_argument("-n", type=int, default=4, dest="workers", metavar="N", help="attacks at once")
    parser.add_argument("--write", action="store_true", help="put the tables into docs/robustness.md")
    return parser.parse_args()


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
