"""Compare two reports: what broke, what was mended, what is new, gone, or less exact than before."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from attest.records.record import ERROR, FAIL, KNOWN, NOT_CLAIMED, NOT_OFFERED, NOT_RUN, PASS, THIN
from attest.report.failure_text import one_line
from attest.report.reading import read_report, rows_of
from attest.report.rows import CriterionRow, Document

RANK = {PASS: 3, KNOWN: 2, THIN: 1, NOT_RUN: 1, NOT_OFFERED: 1, NOT_CLAIMED: 1, FAIL: 0, ERROR: 0}
NOT_JUDGED = frozenset({NOT_RUN, NOT_OFFERED, NOT_CLAIMED})
NOTABLE_RATIO = 0.25


@dataclass(frozen=True)
class Change:
    """One criterion that differs between two reports; `before` or `after` is empty where it is absent."""

    id: str
    title: str
    level: str
    before: str
    after: str
    note: str = ""

    def __str__(self) -> str:
        arrow = " -> ".join(part for part in (self.before, self.after) if part)
        note = f"; {self.note}" if self.note else ""
        return one_line(f"{self.id} {self.title} ({self.level}): {arrow}{note}")


@dataclass(frozen=True)
class Comparison:
    """What changed from one report to another. `regressions` decide the exit code."""

    names: tuple[str, str]
    regressions: tuple[Change, ...] = ()
    fixes: tuple[Change, ...] = ()
    new: tuple[Change, ...] = ()
    gone: tuple[Change, ...] = ()
    bounds: tuple[Change, ...] = ()
    requirements: tuple[Change, ...] = ()
    other: tuple[Change, ...] = ()
    notes: tuple[str, ...] = ()
    same: int = 0

    @property
    def exit_code(self) -> int:
        """1 when something broke."""
        return 1 if self.regressions else 0

    def groups(self) -> Iterator[tuple[str, tuple[Change, ...]]]:
        """Headings with their changes, worst first."""
        yield "regressions", self.regressions
        yield "fixes", self.fixes
        yield "new", self.new
        yield "gone", self.gone
        yield "closer to the bound", self.bounds
        yield "requirement changed", self.requirements
        yield "other changes", self.other

    def lines(self) -> Iterator[str]:
        """The comparison as text."""
        yield one_line(f"{self.names[0]} -> {self.names[1]}")
        yield from (f"  note: {one_line(note)}" for note in self.notes)
        for heading, changes in self.groups():
            if changes:
                yield f"{heading} ({len(changes)})"
                yield from (f"  {change}" for change in changes)
        yield f"{self.same} criteria unchanged; {len(self.regressions) or 'no'} regression{self._plural}"

    @property
    def _plural(self) -> str:
        return "" if len(self.regressions) == 1 else "s"


def compare_files(before: Path, after: Path) -> Comparison:
    """Compare two report.json files; ReportError when one is none."""
    return compare(read_report(before), read_report(after))


def compare(before: Document, after: Document) -> Comparison:
    """What changed from `before` to `after`, criterion by criterion."""
    old, new = rows_of(before), rows_of(after)
    groups: dict[str, list[Change]] = {}
    same = 0
    for id in [*old, *(id for id in new if id not in old)]:
        group, note = _classify(old.get(id), new.get(id))
        if group == "same":
            same += 1
        else:
            groups.setdefault(group, []).append(_change(old.get(id), new.get(id), note))
    found = {name: tuple(changes) for name, changes in groups.items()}
    return Comparison(_names(before, after), **found, notes=tuple(_notes(before, after)), same=same)


def _classify(old: CriterionRow | None, new: CriterionRow | None) -> tuple[str, str]:
    if old is None:
        return "new", ""
    if new is None:
        return "gone", ""
    if old["text_hash"] != new["text_hash"]:
        return "requirements", "the two runs answer different texts"
    was, now = old["verdict"], new["verdict"]
    if was != now:
        return _verdict_group(was, now), new.get("reason", "")
    if _closer(old["worst_ratio"], new["worst_ratio"]):
        return "bounds", f"worst error over bound {old['worst_ratio']:.2g} -> {new['worst_ratio']:.2g}"
    return "same", ""


def _verdict_group(was: str, now: str) -> str:
    if was in NOT_JUDGED:
        return "other" if now in NOT_JUDGED else "new"
    if RANK[now] < RANK[was]:
        return "regressions"
    if RANK[now] > RANK[was] and now == PASS:
        return "fixes"
    return "other"


def _closer(old: float | None, new: float | None) -> bool:
    return old is not None and new is not None and new > 2 * old and new > NOTABLE_RATIO


def _change(old: CriterionRow | None, new: CriterionRow | None, note: str) -> Change:
    row = new or old
    assert row is not None
    before, after = (r["verdict"] if r else "" for r in (old, new))
    return Change(row["id"], row.get("title", ""), row["level"], before, after, note)


def _names(before: Document, after: Document) -> tuple[str, str]:
    return before["implementation"], after["implementation"]


def _notes(before: Document, after: Document) -> Iterator[str]:
    for what in ("spec_version", "profile", "seed"):
        if before.get(what) != after.get(what):
            yield f"{what.replace('_', ' ')} {before.get(what)} -> {after.get(what)}"
    for name in {**before["environment"], **after["environment"]}:
        was, now = before["environment"].get(name), after["environment"].get(name)
        if was != now:
            yield f"{name} {was or 'absent'} -> {now or 'absent'}"
