"""Write the reports of a run: JSON, Markdown and badges always, HTML on request."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from attest.records.plan import Plan
from attest.records.record import Record
from attest.registry import sentence
from attest.report.badges import badge
from attest.report.document import report_document
from attest.report.markdown import index_page, milestone_page
from attest.report.reading import ReportError, read_report
from attest.report.rows import Document
from attest.spec import Spec

MARK, MARK_WITHIN = '<meta name="generator" content="attest">', 4096  # of our HTML pages


class ReportsNotWritten(Exception):
    """Some reports of a run could not be written; the others are. One sentence each."""

    def __init__(self, sentences: Sequence[str]) -> None:
        super().__init__("; ".join(sentences))
        self.sentences = tuple(sentences)


def write_reports(
    by_implementation: Mapping[str, Sequence[Record]],
    spec: Spec,
    directory: Path,
    *,
    html: bool = False,
    plan: Plan | None = None,
) -> list[Document]:
    """One directory per implementation; pages of an earlier run that this one did not judge are removed.

    A report that cannot be written costs itself only: ReportsNotWritten is raised after the others are there.
    """
    documents: list[Document] = []
    failed: list[str] = []
    for label, records in by_implementation.items():
        try:
            document = report_document(label, records, spec, plan)
            write_document(document, directory / label)
            documents.append(document)
        except Exception as error:
            failed.append(f"the report of {label} cannot be written ({sentence(error)})")
    if html and documents:
        from attest.report.html import write_html

        try:
            write_html(documents, directory)
        except Exception as error:
            failed.append(f"the HTML page cannot be written ({sentence(error)})")
    if failed:
        raise ReportsNotWritten(failed)
    return documents


def write_document(document: Document, home: Path) -> None:
    """report.json, index.md, a page and a badge per milestone; each file is replaced whole."""
    earlier = _earlier(home)
    _note_studies(document, home)
    write_text(home / "report.json", as_json(document))
    pages = {f"{m['id']}.md": milestone_page(document, m) for m in document["milestones"]}
    for name, page in pages.items():
        write_text(home / name, page)
    write_text(home / "index.md", index_page(document))
    badges = {f"{m['id']}.json": badge(m) for m in document["milestones"]}
    for name, content in badges.items():
        write_text(home / "badges" / name, as_json(content))
    # Pages of milestones that this run did not judge would be read as its own.
    for path in _written(earlier, home) - _written(document, home):
        path.unlink(missing_ok=True)
    _remove_page(home / "report.html")


def as_json(value: Any) -> str:
    """Strict JSON that diffs line by line."""
    return json.dumps(value, indent=1, allow_nan=False, ensure_ascii=False) + "\n"


def write_text(path: Path, text: str) -> None:
    """Write through a temporary file beside the target, which is whole or as it was."""
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_name(f".{path.name}.{os.getpid()}")
    temporary.unlink(missing_ok=True)  # left by a process of this number that was killed
    try:
        with temporary.open("x", encoding="utf-8", errors="backslashreplace") as file:
            file.write(text)
        temporary.replace(path)
    finally:
        temporary.unlink(missing_ok=True)


def _note_studies(document: Document, home: Path) -> None:
    """Show each study that was made of this implementation beside the criterion that the study names."""
    rows = {r["id"]: r for m in document["milestones"] for r in m["criteria"]}
    for path in sorted(home.glob("study_*.json")):
        with suppress(OSError, ValueError, KeyError, TypeError, AttributeError):  # edited by hand
            study = json.loads(path.read_text(encoding="utf-8"))
            row = rows[study["criterion"]]
            data = {**row["data"], "curves": {**row["data"].get("curves", {}), **study.get("curves", {})}}
            data["heatmaps"] = [*row["data"].get("heatmaps", []), *study.get("heatmaps", [])]
            drawn = [name for name in study.get("pictures", []) if _is_picture(home / name)]
            data["pictures"] = [*row["data"].get("pictures", []), *drawn]
            row["data"] = {name: value for name, value in data.items() if value}


def _is_picture(path: Path) -> bool:
    """Whether it is an SVG beside the report; a study of somebody else can name no other file."""
    return path.name.startswith("study_") and path.suffix == ".svg" and path.is_file()


def _earlier(home: Path) -> Document | None:
    """The report that stands here, None where there is none that can be read."""
    with suppress(ReportError):
        return read_report(home / "report.json")
    return None


def _written(document: Document | None, home: Path) -> set[Path]:
    """The files that belong to a report: pages, badges, and what fails by itself. Nothing else is ours."""
    if document is None:
        return set()
    found = {home / f"{m['id']}.md" for m in document["milestones"]}
    found |= {home / "badges" / f"{m['id']}.json" for m in document["milestones"]}
    for row in (r for m in document["milestones"] for r in m["criteria"]):
        if row["failure"] and row["failure"].get("reproduction") == _reproduction(row["id"]):
            script = home / _reproduction(row["id"])
            found |= {script, script.with_suffix(".npz")}
    return found


def _reproduction(id: str) -> str:
    return f"repro/{id.replace('.', '_')}.py"


def _remove_page(path: Path) -> None:
    """A page of an earlier run would be read as part of this report. Only ours has the mark."""
    with suppress(OSError), path.open(encoding="utf-8", errors="replace") as file:
        if MARK in file.read(MARK_WITHIN):
            path.unlink()
