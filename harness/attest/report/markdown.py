"""Markdown pages of a report: an index and one page per milestone, for a reader who has not seen the code."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Sequence

from attest.records.record import ERROR, FAIL, KNOWN, NOT_CLAIMED, NOT_OFFERED, NOT_RUN, PASS, THIN
from attest.report.causes import likely_causes, unexplained
from attest.report.failure_text import failure_lines, one_line
from attest.report.rows import CriterionRow, Document, MilestoneRow
from attest.report.wording import verdict_text


def index_page(document: Document) -> str:
    """The verdict of every milestone, what was selected, and where it ran."""
    return "\n".join(_index(document)) + "\n"


def milestone_page(document: Document, milestone: MilestoneRow) -> str:
    """Acceptance criteria first, then every criterion, then what went wrong in full."""
    return "\n".join(_milestone(document, milestone)) + "\n"


def escaped(text: str) -> str:
    """Text that Markdown shows as it is, in a paragraph or a table cell."""
    text = one_line(text).replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
    return re.sub(r"([\\`*_\[\]|#~!])", r"\\\1", text)


def linked(url: str) -> str:
    """A link where the address is one a browser may follow; plain text otherwise."""
    plain = one_line(url)
    if re.fullmatch(r"https?://[^\s<>()\[\]\"'`]+", plain):
        return f"<{plain}>"
    return escaped(plain)


def counts(milestone: MilestoneRow) -> str:
    """How many criteria passed, and the rest by verdict."""
    found = Counter(r["verdict"] for r in milestone["criteria"])
    rest = [f"{n} {verdict}" for verdict, n in found.items() if verdict != PASS]
    if milestone["not_selected"]:
        rest.append(f"{len(milestone['not_selected'])} not selected")
    return ", ".join([f"{found[PASS]} pass", *rest])


def _index(document: Document) -> Iterator[str]:
    yield f"# Conformance of {escaped(document['implementation'])}\n"
    yield "| milestone | verdict | criteria |"
    yield "|---|---|---|"
    for m in document["milestones"]:
        yield f"| [{m['id']} {escaped(m['title'])}]({m['id']}.md) | **{verdict_text(m)}** | {counts(m)} |"
    yield ""
    yield _selected(document)
    missing = document["selection"]["missing"]
    if missing:
        yield f"\n**{len(missing)} records are missing, so this run proves nothing**: {', '.join(missing)}."
    yield from _causes(document)
    yield from _attention(document)
    yield "\n## Environment\n"
    yield _settings(document)
    yield ""
    for name, value in document["environment"].items():
        yield f"- {name} {escaped(value) if value else 'not installed'}"


def _selected(document: Document) -> str:
    chosen = document["selection"]
    if chosen["complete"]:
        return f"All {len(chosen['criteria'])} criteria of the spec were selected."
    parts = []
    for m in document["milestones"]:
        if not m["not_selected"]:
            parts.append(f"{m['id']} (all of it)")
        else:
            parts += [r["id"] for r in m["criteria"]]
    return f"Selected for this run: {', '.join(parts) or 'nothing'}. Nothing else was judged."


def _causes(document: Document) -> Iterator[str]:
    rows = [r for m in document["milestones"] for r in m["criteria"]]
    causes = likely_causes(rows)
    if not causes:
        return
    yield "\n## Likely causes\n"
    yield "What fails behaves exactly like these known defects:\n"
    for cause in causes:
        explained = f"{', '.join(cause.criteria)}{cause.doubt}"
        yield f"- `{cause.defect}` explains {explained} (`attest explain {cause.defect}`)"
    rest = unexplained(rows)
    if rest:
        yield f"- like no known defect: {', '.join(rest)}"


def _attention(document: Document) -> Iterator[str]:
    rows = [r for m in document["milestones"] for r in m["criteria"] if r["verdict"] in (FAIL, ERROR, KNOWN)]
    if rows:
        yield "\n## What does not pass\n"
    for r in rows:
        page = f"{r['id'].partition('.')[0]}.md"
        link = f" {linked(r['link'])}" if r["link"] else ""
        yield f"- [{r['id']}]({page}) {escaped(r['title'])} ({r['level']}): {_verdict(r)}{link}"


def _milestone(document: Document, milestone: MilestoneRow) -> Iterator[str]:
    yield f"# {milestone['id']} {escaped(milestone['title'])}: {verdict_text(milestone)}\n"
    name = escaped(document["implementation"])
    yield f"Implementation {name}. {_settings(document)} [All milestones](index.md)\n"
    if milestone["acceptance"]:
        yield "## Acceptance criteria\n"
        yield "| | required | verdict | shown by |"
        yield "|---|---|---|---|"
    for a in milestone["acceptance"]:
        yield f"| {a['id']} | {escaped(a['text'])} | **{a['verdict']}** | {', '.join(a['criteria'])} |"
    yield f"\n{escaped(milestone['summary'])}\n"
    yield from _table(milestone["criteria"])
    if milestone["not_selected"]:
        yield f"\nNot selected for this run: {', '.join(milestone['not_selected'])}."
    yield from _studies(milestone["criteria"])
    yield from _failures(milestone["criteria"])
    yield from _reasons(milestone["criteria"])
    yield from _widened(milestone["criteria"])


def _settings(document: Document) -> str:
    profile = document["profile"] or "mixed"
    seed = "mixed" if document["seed"] is None else document["seed"]
    policy = document.get("policy", "")
    narrowed = f" The implementation asked for narrowed cases: {escaped(policy)}." if policy else ""
    claims = document.get("claims", "")
    claimed = f" The implementation declares {escaped(claims)}." if claims else ""
    packages = document.get("packages", "")
    judged = f" What is judged is of {escaped(packages)}." if packages else ""
    day = f" Judged on {document['day']}." if "day" in document else ""
    return f"Spec {document['spec_version']}, profile {profile}, seed {seed}.{narrowed}{claimed}{judged}{day}"


def _table(rows: Sequence[CriterionRow]) -> Iterator[str]:
    yield "## Criteria\n"
    yield "| criterion | level | verdict | examples | worst error / bound |"
    yield "|---|---|---|---:|---:|"
    for r in rows:
        worst = "" if r["worst_ratio"] is None else f"{r['worst_ratio']:.2g}"
        cells = [f"{r['id']} {escaped(r['title'])}", r["level"], _verdict(r), str(r["examples"] or ""), worst]
        yield f"| {' | '.join(cells)} |"


def _verdict(row: CriterionRow) -> str:
    verdict = row["verdict"] if row["verdict"] == PASS else f"**{row['verdict']}**"
    if not row["blocked_by"] or row["verdict"] in (NOT_OFFERED, NOT_CLAIMED, NOT_RUN):
        return verdict
    below = ", ".join(row["blocked_by"])
    return (
        f"{verdict}, on a broken base ({below})"
        if row["verdict"] == PASS
        else f"{verdict}, stands on {below}"
    )


def _studies(rows: Sequence[CriterionRow]) -> Iterator[str]:
    """Pictures that a study left beside the report."""
    found = [(r, name) for r in rows for name in r["data"].get("pictures", [])]
    if found:
        yield "\n## Studies\n"
    for row, name in found:
        title = escaped(name.removesuffix(".svg").replace("_", " "))
        yield f"![{title}, at {row['id']} {escaped(row['title'])}]({name})\n"


def _failures(rows: Sequence[CriterionRow]) -> Iterator[str]:
    for heading, verdicts in (("Failures", (FAIL, ERROR)), ("Known failures", (KNOWN,))):
        found = [r for r in rows if r["verdict"] in verdicts]
        if found:
            yield f"\n## {heading}"
        for row in found:
            yield from _failure(row)


def _failure(row: CriterionRow) -> Iterator[str]:
    yield f"\n### {row['id']} {escaped(row['title'])}\n"
    lines = list(failure_lines(row))
    fence = "`" * max(3, *(len(run) + 1 for run in re.findall("`+", "\n".join(lines))), 0)
    yield f"{fence}text"
    yield from lines
    yield f"{fence}\n"
    if row["link"]:
        yield f"Reported at {linked(row['link'])}\n"
    yield f"**The requirement in full.** {escaped(row['statement'])}\n"
    yield f"**Why it matters.** {escaped(row['why'])}\n"
    yield f"**Where to look.** {escaped(row['hint'])}"


def _reasons(rows: Sequence[CriterionRow]) -> Iterator[str]:
    found = [r for r in rows if r["verdict"] in (THIN, NOT_RUN, NOT_OFFERED, NOT_CLAIMED)]
    if found:
        yield "\n## Not judged in full\n"
    for r in found:
        yield f"- {r['id']} {escaped(r['title'])}: {r['verdict']}, {escaped(r['reason'])}"


def _widened(rows: Sequence[CriterionRow]) -> Iterator[str]:
    wide = [r for r in rows if r["widened"] != 1.0]
    if wide:
        yield "\n## Bounds the implementation asked to widen\n"
    for r in wide:
        yield f"- {r['id']}: {r['widened']:g} times the derived bound"
