"""Write the reports of a run: JSON and Markdown always, HTML on request."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from pathlib import Path

from attest.report.document import report_document
from attest.report.markdown import index_page, milestone_page
from attest.running.records import Record
from attest.spec import Spec


def write_reports(
    by_implementation: Mapping[str, Sequence[Record]], spec: Spec, directory: Path, *, html: bool = False
) -> None:
    """One directory per implementation. Files are replaced whole, never half written."""
    for label, records in by_implementation.items():
        home = directory / label
        document = report_document(label, records, spec)
        write_text(home / "report.json", json.dumps(document, indent=1, allow_nan=False) + "\n")
        for milestone in document["milestones"]:
            write_text(home / f"{milestone['id']}.md", milestone_page(document, milestone))
        write_text(home / "index.md", index_page(document))


def write_text(path: Path, text: str) -> None:
    """Write through a temporary file beside the target."""
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_name(f".{path.name}.{os.getpid()}")
    temporary.write_text(text, encoding="utf-8")
    temporary.replace(path)
