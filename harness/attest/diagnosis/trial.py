"""How often the diagnosis names the right defect, measured on strangers whose defect is known.

    python -m attest.diagnosis.trial [M1 ...] [tests/strangers.py] [every=6]

Every known defect is presented under another name to the criterion that kills it first, and so is every
re-implementation that a file with FAULTS (defect to criterion) and Stranger(defect) holds. A stranger counts
as named when its defect is among the best matches. `every=6` presents every sixth known defect. With all
milestones the table of docs/diagnosis.md is written.
"""

from __future__ import annotations

import runpy
import sys
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from attest.boundary import JudgedImplementation
from attest.diagnosis.likeness import diagnose
from attest.evidence import collecting
from attest.judging.catalogue import Defect, defects
from attest.judging.property import Property, load_properties, run_property
from attest.order import milestone_order
from attest.outcomes import NotOffered, NotRun, Violation
from attest.records.failure import Likeness


@dataclass(frozen=True)
class Stranger:
    """A faulty implementation whose fault the trial knows and the diagnosis is not told."""

    implementation: Any
    truth: str
    criterion: str


@dataclass(frozen=True)
class Naming:
    """What the diagnosis said of one stranger."""

    truth: str
    criterion: str
    named: tuple[str, ...]
    share: float

    @property
    def right(self) -> bool:
        """Whether the true defect is among the best."""
        return self.truth in self.named


def strangers(chosen: Iterable[Defect]) -> Iterator[Stranger]:
    """Each defect presented as unknown code to the first criterion that names it."""
    for defect in chosen:
        implementation = defect.build()
        implementation.name = "stranger"
        yield Stranger(implementation, defect.name, defect.killers[0])


def torch_strangers(path: Path, milestones: list[str]) -> Iterator[Stranger]:
    """Re-implementations from a file of their own."""
    module = runpy.run_path(str(path))
    for truth, criterion in module["FAULTS"].items():
        if not milestones or criterion.partition(".")[0] in milestones:
            yield Stranger(module["Stranger"](truth), truth, criterion)


def name_stranger(stranger: Stranger) -> Naming | None:
    """Let the criterion fail and ask which defect it looks like; None where nothing failed."""
    for property in load_properties()[stranger.criterion]:
        impl = JudgedImplementation(stranger.implementation)
        case = failing_case(replace(property, shrinks=False), impl)
        if case is None:
            continue
        best = _best(diagnose(property, impl, case, seed=0).found)
        return Naming(
            stranger.truth, stranger.criterion, tuple(b.defect for b in best), best[0].share if best else 0.0
        )
    return None


def _best(found: tuple[Likeness, ...]) -> list[Likeness]:
    return [likeness for likeness in found if likeness.share == found[0].share]


def failing_case(property: Property, impl: JudgedImplementation) -> str | None:
    """The case on which the property fails, None where it does not."""
    with collecting():
        try:
            run_property(property, impl, profile="quick", seed=0)
        except Violation as violation:
            return violation.case
        except (NotOffered, NotRun):
            return None
    return None


def table(namings: Iterable[Naming]) -> Iterator[str]:
    """Markdown: per milestone how many were named, then those that were not."""
    namings = list(namings)
    total, right = Counter[str](), Counter[str]()
    for naming in namings:
        milestone = naming.criterion.partition(".")[0]
        total[milestone] += 1
        right[milestone] += naming.right
    yield "| milestone | strangers | named | share |"
    yield "|---|---|---|---|"
    for milestone in sorted(total, key=milestone_order):
        share = right[milestone] / total[milestone]
        yield f"| {milestone} | {total[milestone]} | {right[milestone]} | {share:.0%} |"
    everything = sum(right.values()) / max(1, sum(total.values()))
    yield f"| all | {sum(total.values())} | {sum(right.values())} | {everything:.0%} |"
    missed = [n for n in namings if not n.right]
    if missed:
        yield ""
        yield "| not named | criterion | taken for |"
        yield "|---|---|---|"
        for n in missed:
            yield f"| {n.truth} | {n.criterion} | {', '.join(n.named[:2]) or 'none'} |"


PAGE = Path("docs/diagnosis.md")
BEGIN, END = "<!-- table of strangers -->", "<!-- end of the table -->"


def with_table(page: str, command: str, lines: Sequence[str]) -> str:
    """The page with this table in place of the one between its marks."""
    before, _, rest = page.partition(BEGIN)
    after = rest.partition(END)[2]
    return "\n".join([f"{before}{BEGIN}", f"`{command}`:", "", *lines, "", f"{END}{after}"])


def main(arguments: list[str]) -> int:
    """Print progress and the table; write the page when every milestone was asked for."""
    stride = next((int(a.removeprefix("every=")) for a in arguments if a.startswith("every=")), 1)
    milestones = [a for a in arguments if not a.endswith(".py") and "=" not in a]
    chosen = [d for d in defects().values() if not milestones or d.milestone in milestones][::stride]
    files = [Path(a) for a in arguments if a.endswith(".py")]
    presented = [*(s for f in files for s in torch_strangers(f, milestones)), *strangers(chosen)]
    namings = []
    for stranger in presented:
        naming = name_stranger(stranger)
        if naming is None:
            print(f"{stranger.truth}: {stranger.criterion} did not fail", file=sys.stderr)
            continue
        namings.append(naming)
        print(f"{'named' if naming.right else 'missed':<7}{naming.truth} ({', '.join(naming.named[:3])})")
    lines = list(table(namings))
    print("\n".join(lines))
    if not milestones:
        command = " ".join(("python -m attest.diagnosis.trial", *arguments))
        PAGE.write_text(with_table(PAGE.read_text(encoding="utf-8"), command, lines), encoding="utf-8")
    return 0 if namings and sum(n.right for n in namings) >= 0.9 * len(namings) else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
