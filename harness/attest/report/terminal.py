"""The closing lines of a run: verdicts that fit one screen of 80 x 24, and what to do next."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from attest.records.plan import Plan
from attest.records.record import ERROR, FAIL, KNOWN, NOT_CLAIMED, NOT_OFFERED, NOT_RUN, PASS, THIN, Record
from attest.records.verdicts import (
    CONFORMS,
    CONFORMS_WITH_KNOWN,
    DOES_NOT_CONFORM,
    INCOMPLETE,
    NOT_ASKED,
    decides,
)
from attest.report.causes import Cause, likely_causes
from attest.report.document import report_document
from attest.report.failure_text import one_line
from attest.report.rows import CriterionRow, Document, MilestoneRow
from attest.report.wording import verdict_text
from attest.spec import Spec

WIDTH = 80
MOST_LINES = 8  # of milestones
_SHORT = {CONFORMS: "conforms", CONFORMS_WITH_KNOWN: "known", INCOMPLETE: "open"}
_SHORT |= {NOT_OFFERED: "-", NOT_CLAIMED: "-"}
_LEGEND = "known: conforms with known failures; open: incomplete; -: not offered"


def summary_lines(
    by_implementation: Mapping[str, Sequence[Record]], spec: Spec, plan: Plan, missing: Sequence[str]
) -> Iterator[str]:
    """Verdicts by milestone, what is open, and the next step; several implementations share one table."""
    documents = [report_document(label, records, spec, plan) for label, records in by_implementation.items()]
    if len(documents) == 1:
        yield from _one(documents[0], plan)
    else:
        yield from _several(documents, plan)
    if missing:
        count = "1 record is" if len(missing) == 1 else f"{len(missing)} records are"
        text = f"{count} missing, so this run proves nothing: {', '.join(missing)}"
        yield from _wrapped("", text, lines=2, margin=2)


def _one(document: Document, plan: Plan) -> Iterator[str]:
    yield one_line(document["implementation"])
    left_out = _left_out(document)
    for m in (m for m in document["milestones"] if m["id"] not in left_out):
        passed = sum(r["verdict"] == PASS for r in m["criteria"])
        total = sum(r["verdict"] != NOT_CLAIMED for r in m["criteria"]) + len(m["not_selected"])
        yield f"  {m['id']:<3} {_title_and_verdict(m)} {f'{passed}/{total}':>5}"
    rows = _rows(document)
    if left_out:
        yield from _wrapped(NOT_OFFERED, ", ".join(left_out), lines=2)
    for verdict in (FAIL, ERROR, THIN, KNOWN, NOT_RUN):
        found = [_named(r) for r in rows if r["verdict"] == verdict]
        if found:
            crowded = len(document["milestones"]) - len(left_out) > MOST_LINES
            yield from _wrapped(verdict, ", ".join(found), lines=1 if crowded else 2)
    restricted = [f"{_named(r)} {r['reason']}" for r in rows if r["verdict"] == PASS and r["reason"]]
    if restricted:
        yield from _wrapped("restricted", ", ".join(restricted), lines=2)
    if document.get("claims"):
        yield from _wrapped("declares", document["claims"], lines=2)
    yield from _next_step(document, plan)
    yield from _reports(plan, document["implementation"])


def _left_out(document: Document) -> list[str]:
    """The milestones of which nothing is offered, where a line for each would not fit on a screen."""
    if len(document["milestones"]) <= MOST_LINES:
        return []
    return [m["id"] for m in document["milestones"] if m["verdict"] == NOT_OFFERED]


def _title_and_verdict(milestone: MilestoneRow) -> str:
    """In 67 columns; what the verdict is for takes room from the title, which keeps 20 of them."""
    verdict = textwrap.shorten(verdict_text(milestone), 46, placeholder=" ...)")
    room = 66 - max(28, len(verdict))
    title = textwrap.shorten(one_line(milestone["title"]), room, placeholder=" ...")
    return f"{title:<{room}} {verdict:<{66 - room}}"


def _several(documents: Sequence[Document], plan: Plan) -> Iterator[str]:
    ids = list(dict.fromkeys(m["id"] for d in documents for m in d["milestones"]))
    names = [one_line(d["implementation"]) for d in documents]
    width = max([14, *map(len, names)])
    fitting = max(1, (WIDTH - width - 3) // 9)  # a cell has 8 characters and a space
    for first in range(0, len(ids), fitting):
        yield from _block(documents, names, ids[first : first + fitting], width)
    yield f"  {_LEGEND}"
    for name, document in zip(names, documents):
        yield from _wrapped(name, _advice(document, plan)[0], lines=2, margin=width + 3)
    yield from _reports(plan, *(d["implementation"] for d in documents))


def _block(
    documents: Sequence[Document], names: Sequence[str], ids: Sequence[str], width: int
) -> Iterator[str]:
    """The milestones that fit side by side: a line of ids, then a line for each implementation."""
    yield (f"  {'':<{width}} " + " ".join(f"{id:<8}" for id in ids)).rstrip()
    for name, document in zip(names, documents):
        cells = {m["id"]: _cell(m) for m in document["milestones"]}
        yield (f"  {name:<{width}} " + " ".join(f"{cells.get(id, ''):<8}" for id in ids)).rstrip()


def _cell(milestone: MilestoneRow) -> str:
    broken = sum(r["verdict"] in (FAIL, ERROR) and _decides(r) for r in milestone["criteria"])
    return f"fails {broken}" if milestone["verdict"] == DOES_NOT_CONFORM else _SHORT[milestone["verdict"]]


def _next_step(document: Document, plan: Plan) -> Iterator[str]:
    first, *rest = _advice(document, plan)
    yield from _wrapped("next", first, lines=2)
    for line in rest:
        yield from _wrapped("", line, lines=2)


def _advice(document: Document, plan: Plan) -> list[str]:
    """What to do next: the first sentence by itself says it."""
    rows = _rows(document)
    internal = next((r for r in rows if r["internal"]), None)
    if internal:
        return [f"{internal['id']}: {internal['reason']}; a fault of the harness, please report it"]
    first = first_to_fix(rows)
    if first:
        return _advice_on(first, likely_causes(rows), _same_error(first, rows))
    for verdict in (THIN, NOT_RUN):
        found = [r for r in rows if r["verdict"] == verdict and r["level"] == "must"]
        if found:
            return [f"{found[0]['id']} is {verdict}: {found[0]['reason']}"]
    return [_advice_on_the_rest(document, plan)]


def first_to_fix(rows: Sequence[CriterionRow]) -> CriterionRow | None:
    """The first failure that decides and stands on nothing broken; then any that decides; then any other."""
    failing = [r for r in rows if r["verdict"] in (FAIL, ERROR)]
    order = sorted(failing, key=lambda r: (not _decides(r), bool(r["blocked_by"])))
    return order[0] if order else None


def _decides(row: CriterionRow) -> bool:
    return decides(row["level"], row["verdict"])


def _same_error(first: CriterionRow, rows: Sequence[CriterionRow]) -> int:
    """How many others end with its error: parameters that are not wired stop every criterion that loads."""
    return sum(r["verdict"] == ERROR == first["verdict"] and r["reason"] == first["reason"] for r in rows) - 1


def _advice_on(row: CriterionRow, causes: Sequence[Cause], others: int) -> list[str]:
    lines = [f"{_urgency(row)}; see `attest explain {row['id']}`"]
    failure = row["failure"]
    lines.append(f"{row['title']}: {failure['seen'] if failure else row['reason']}")
    if others > 0:
        lines.append(f"the same error stops {others} more criteri{'on' if others == 1 else 'a'}")
    if causes:
        lines.append(
            f"likely: {'; '.join(f'{c.defect} (explains {len(c.criteria)}{c.doubt})' for c in causes)}"
        )
    elif failure and failure["looks_like"]:
        lines.append(f"looks like {failure['looks_like']}")
    if failure:
        lines.append(failure["replay"])
    return lines


def _urgency(row: CriterionRow) -> str:
    """Which failure to fix first, and whether it decides."""
    if _decides(row):
        return f"{row['id']} is the first to fix"
    return f"no must is among the failures; the first is {row['id']}, a {row['level']}"


def _advice_on_the_rest(document: Document, plan: Plan) -> str:
    if missing := document["selection"]["missing"]:
        return f"judge what has no verdict yet, from {missing[0]} on: the run was stopped or told to skip it"
    if not _rows(document):
        return "nothing was judged: no criterion that was asked for is in this shard; merge all shards"
    for m in document["milestones"]:
        lacking = [r for r in m["criteria"] if r["verdict"] == NOT_OFFERED and r["level"] == "must"]
        if lacking and (m["verdict"] != NOT_OFFERED or plan.asked):
            id, reason = lacking[0]["id"], lacking[0]["reason"]
            return f"offer what {id} needs" + (f": {reason}" if reason else f"; see `attest explain {id}`")
    partial = next((m for m in document["milestones"] if m["not_selected"]), None)
    if partial:
        return f"what was selected passes; judge the rest of {partial['id']} with --milestone {partial['id']}"
    later = [m["id"] for m in document["milestones"] if m["verdict"] in NOT_ASKED]
    if later and len(later) == len(document["milestones"]):
        return f"nothing is offered yet; start with {later[0]}, see `attest explain {later[0]}`"
    if later:
        return f"all that is offered conforms; not offered: {', '.join(later)} (`attest explain {later[0]}`)"
    return "nothing: every milestone asked for conforms"


def _rows(document: Document) -> list[CriterionRow]:
    return [r for m in document["milestones"] for r in m["criteria"]]


def _named(row: CriterionRow) -> str:
    return row["id"] if row["level"] == "must" else f"{row['id']} ({row['level']})"


def _wrapped(name: str, text: str, *, lines: int, margin: int = 17) -> Iterator[str]:
    """At most this many lines; a command is never broken, so that it can be copied."""
    text = one_line(text)
    parts = [text] if text.startswith("pytest ") else textwrap.wrap(text, WIDTH - margin)
    if len(parts) > lines:
        parts = textwrap.wrap(text, WIDTH - margin, max_lines=lines, placeholder=" ...")
    for i, part in enumerate(parts):
        yield f"  {name if i == 0 else '':<{margin - 2}}{part}"


def _reports(plan: Plan, *labels: str) -> Iterator[str]:
    home = Path(plan.reports) / labels[0] if len(labels) == 1 else Path(plan.reports)
    pages = [home / "report.html", home / "index.md"] if len(labels) == 1 else [home / "report.html"]
    page = next((p for p in pages if p.is_file()), None)
    if page is None and len(labels) > 1:
        page = home
    if page is not None:
        yield f"  {'report':<15}{_shown(page)}"


def _shown(path: Path) -> str:
    try:
        return str(path.relative_to(Path.cwd()))
    except ValueError:
        return str(path)
