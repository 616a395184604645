"""One self-contained HTML page per run: no network, works from disk, everything from outside escaped."""

from __future__ import annotations

import base64
import hashlib
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup

from attest.order import milestone_order
from attest.records.record import ERROR, FAIL, KNOWN, NOT_CLAIMED, NOT_OFFERED, NOT_RUN, PASS, THIN
from attest.records.verdicts import CONFORMS, CONFORMS_WITH_KNOWN, DOES_NOT_CONFORM, INCOMPLETE
from attest.report.causes import likely_causes, unexplained
from attest.report.document import MET, MET_WITH_KNOWN, NOT_MET
from attest.report.failure_text import failure_parts, one_line
from attest.report.kill_matrix import kill_matrices, read_selftest
from attest.report.pictures import bound_bar, pictures
from attest.report.reading import rows_of
from attest.report.rows import Document, MilestoneRow
from attest.report.terminal import first_to_fix
from attest.report.wording import claimed_text
from attest.report.writing import write_text

TEMPLATES = Path(__file__).parent / "templates"
SYMBOLS = {PASS: "✓", FAIL: "✕", ERROR: "!", THIN: "≈", KNOWN: "◆", NOT_OFFERED: "-", NOT_RUN: "○"}
SYMBOLS |= {NOT_CLAIMED: "·", CONFORMS: "✓", CONFORMS_WITH_KNOWN: "◆", DOES_NOT_CONFORM: "✕", INCOMPLETE: "≈"}
SYMBOLS |= {MET: "✓", MET_WITH_KNOWN: "◆", NOT_MET: "✕"}
TONES = {PASS: "good", CONFORMS: "good", MET: "good", FAIL: "bad", ERROR: "bad", DOES_NOT_CONFORM: "bad"}
TONES |= {NOT_MET: "bad", THIN: "open", INCOMPLETE: "open", KNOWN: "known", CONFORMS_WITH_KNOWN: "known"}
TONES |= {MET_WITH_KNOWN: "known", NOT_OFFERED: "none", NOT_CLAIMED: "none", NOT_RUN: "none"}
MEANINGS = {
    PASS: "every example met the requirement",
    FAIL: "an example did not; the smallest one found is shown",
    ERROR: "it crashed, hung, ran out of memory, or the plugin is broken",
    THIN: "fewer examples ran than the criterion asks for",
    KNOWN: "declared by the implementation, and shown by its witness",
    NOT_OFFERED: "the implementation does not have the operation",
    NOT_CLAIMED: "the implementation does not say that it can do this, so it is not asked",
    NOT_RUN: "this run lacks something the criterion needs",
}


def write_html(documents: Sequence[Document], directory: Path) -> list[Path]:
    """A page per implementation, and one over all of them when there are several; the paths written."""
    selftest = read_selftest(directory)
    pages = {directory / d["implementation"] / "report.html": [d] for d in documents}
    if len(documents) > 1:
        pages[directory / "report.html"] = list(documents)
    for path, shown in pages.items():
        write_text(path, html_page(shown, selftest))
    return list(pages)


def html_page(documents: Sequence[Document], selftest: Mapping[str, Any] | None = None) -> str:
    """The page of these reports, the kill matrix included where the harness was tried."""
    script, style = ((TEMPLATES / name).read_text(encoding="utf-8") for name in ("report.js", "report.css"))
    milestones = _milestones(documents)
    rows = [r for d in documents for r in rows_of(d).values()]
    return (
        environment()
        .get_template("report.html.j2")
        .render(
            documents=documents,
            names=[d["implementation"] for d in documents],
            milestones=milestones,
            sentence=_sentence(documents[0]),
            starts=[_start(d) for d in documents],
            counts={v: n for v in SYMBOLS if (n := Counter(r["verdict"] for r in rows)[v])},
            total=sum(len(m["criteria"]) for m in milestones),
            kills=list(kill_matrices(selftest)) if selftest else [],
            meanings=MEANINGS,
            script=Markup(script),
            style=Markup(style),
            policy=content_policy(script, style),
        )
    )


def _start(document: Document) -> dict[str, Any]:
    """Where to begin: the first criterion to fix, and what the failures have in common."""
    rows = list(rows_of(document).values())
    return {
        "name": document["implementation"],
        "row": first_to_fix(rows),
        "causes": likely_causes(rows),
        "rest": unexplained(rows),
    }


def _milestones(documents: Sequence[Document]) -> list[dict[str, Any]]:
    """Milestones in order, each criterion with one result per implementation."""
    found: dict[str, dict[str, Any]] = {}
    for document in documents:
        for m in document["milestones"]:
            empty: dict[str, Any] = {"verdicts": {}, "told": {}, "answers": {}, "criteria": {}}
            entry = found.setdefault(m["id"], {**m, **empty})
            name = document["implementation"]
            entry["verdicts"][name], entry["told"][name] = (m["verdict"], _passed(m)), claimed_text(m)
            for a in m["acceptance"]:
                entry["answers"].setdefault(a["id"], {})[name] = a["verdict"]
            for row in m["criteria"]:
                entry["criteria"].setdefault(row["id"], {**row, "results": {}})["results"][name] = row
    return [found[id] for id in sorted(found, key=milestone_order)]


def _sentence(document: Document) -> str:
    """The run in one sentence."""
    if len(document["milestones"]) == 1:
        (only,) = document["milestones"]
        return f"{only['id']} {_does(only['verdict'], 1)}."
    found = Counter(m["verdict"] for m in document["milestones"])
    order = (DOES_NOT_CONFORM, INCOMPLETE, CONFORMS_WITH_KNOWN, CONFORMS, NOT_OFFERED, NOT_CLAIMED)
    parts = [f"{found[verdict]} {_does(verdict, found[verdict])}" for verdict in order if found[verdict]]
    return f"Of {sum(found.values())} milestones {', '.join(parts)}." if parts else "Nothing was judged."


def _does(verdict: str, n: int) -> str:
    if verdict in (INCOMPLETE, NOT_OFFERED, NOT_CLAIMED):
        return f"{'is' if n == 1 else 'are'} {verdict}"
    return verdict if n == 1 else verdict.replace("conforms", "conform").replace("does", "do")


def _passed(milestone: MilestoneRow) -> str:
    rows = milestone["criteria"]
    if milestone["verdict"] in (NOT_OFFERED, NOT_CLAIMED):
        return ""
    passed = sum(r["verdict"] == PASS for r in rows)
    asked = sum(r["verdict"] != NOT_CLAIMED for r in rows) + len(milestone["not_selected"])
    return f"{passed} of {asked} pass"


def content_policy(script: str, style: str) -> str:
    """A content policy by hash: a script or style that is not ours does not run, even if it got in."""
    hashes = (base64.b64encode(hashlib.sha256(text.encode()).digest()).decode() for text in (script, style))
    allowed = "script-src 'sha256-{}'; style-src 'sha256-{}'".format(*hashes)
    return f"default-src 'none'; {allowed}; img-src data:; base-uri 'none'; form-action 'none'"


@cache
def environment() -> Environment:
    """Where the templates are and what they may call; everything that is printed is escaped."""
    environment = Environment(
        loader=FileSystemLoader(TEMPLATES),
        autoescape=True,
        undefined=StrictUndefined,
        finalize=_visible,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    filters: dict[str, Any] = {
        "symbol": SYMBOLS.__getitem__,
        "tone": TONES.__getitem__,
        "slug": lambda verdict: verdict.replace(" ", "-"),
        "followable": lambda url: bool(re.fullmatch(r"https?://[^\s<>\"'`]+", str(url))),
        "parts": lambda row: list(failure_parts(row)),
        "pictures": pictures,
        "bar": bound_bar,
    }
    environment.filters.update(filters)
    return environment


def _visible(value: Any) -> Any:
    """Control characters of whatever is printed are made visible; markup of ours passes."""
    return one_line(value) if isinstance(value, str) and not isinstance(value, Markup) else value
