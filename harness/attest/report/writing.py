"""Write the reports of a run: JSON, Markdown and badges always, HTML on request."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from attest.records.plan import Plan
from attest.records.record import ERROR, FAIL, KNOWN, Record
from attest.report.badges import badge
from attest.report.document import Document, report_document
from attest.report.markdown import index_page, milestone_page
from attest.spec import Spec


def write_reports(
    by_implementation: Mapping[str, Sequence[Record]],
    spec: Spec,
    directory: Path,
    *,
    html: bool = False,
    plan: Plan | None = None,
) -> list[Document]:
    """One directory per implementation; pages of an earlier run that this one did not judge are removed."""
    documents = [report_document(label, records, spec, plan) for label, records in by_implementation.items()]
    for document in documents:
        write_document(document, directory / document["implementation"])
    if html:
        from attest.report.html import write_html

        write_html(documents, directory)
    return documents


def write_document(document: Document, home: Path) -> None:
    """report.json, index.md, a page and a badge per milestone; each file is replaced whole."""
    _note_reproductions(document, home)
    _note_studies(document, home)
    write_text(home / "report.json", as_json(document))
    pages = {f"{m['id']}.md": milestone_page(document, m) for m in document["milestones"]}
    for name, page in pages.items():
        write_text(home / name, page)
    write_text(home / "index.md", index_page(document))
    badges = {f"{m['id']}.json": badge(m) for m in document["milestones"]}
    for name, content in badges.items():
        write_text(home / "badges" / name, as_json(content))
    _remove_stale(document, home, {*pages, "index.md"}, set(badges))


def as_json(value: Any) -> str:
    """Strict JSON that diffs line by line."""
    return json.dumps(value, indent=1, allow_nan=False, ensure_ascii=False) + "\n"


def write_text(path: Path, text: str) -> None:
    """Write through a temporary file beside the target."""
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_name(f".{path.name}.{os.getpid()}")
    temporary.write_text(text, encoding="utf-8", errors="backslashreplace")
    temporary.replace(path)


def _note_reproductions(document: Document, home: Path) -> None:
    """Name the file that fails by itself, where the run left one."""
    for row in (r for m in document["milestones"] for r in m["criteria"] if r["failure"]):
        name = f"repro/{row['id'].replace('.', '_')}.py"
        if (home / name).is_file():
            row["failure"]["reproduction"] = name


def _note_studies(document: Document, home: Path) -> None:
    """Show each study that was made of this implementation beside the criterion that the study names."""
    rows = {r["id"]: r for m in document["milestones"] for r in m["criteria"]}
    for path in sorted(home.glob("study_*.json")):
        with suppress(OSError, ValueError, KeyError, TypeError, AttributeError):  # somebody edited it
            study = json.loads(path.read_text(encoding="utf-8"))
            row, curves = rows[study["criterion"]], study["curves"]
            row["data"] = {**row["data"], "curves": {**row["data"].get("curves", {}), **curves}}


def _remove_stale(document: Document, home: Path, pages: set[str], badges: set[str]) -> None:
    """A page of an earlier run beside this report.json would be read as part of it."""
    rows = [r for m in document["milestones"] for r in m["criteria"]]
    broken = {r["id"].replace(".", "_") for r in rows if r["verdict"] in (FAIL, ERROR, KNOWN)}
    old = [p for p in home.glob("[A-Z]*.md") if p.name not in pages]
    old += [p for p in (home / "badges").glob("[A-Z]*.json") if p.name not in badges]
    old += [p for p in (home / "repro").glob("[A-Z]*.*") if p.stem not in broken]
    for path in [*old, home / "report.html"]:
        path.unlink(missing_ok=True)
