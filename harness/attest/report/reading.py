"""Read a report.json that somebody passed on the command line."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from attest.registry import printable
from attest.report.document import FORMAT, Document

_TOP = {
    "implementation": str,
    "spec_version": str,
    "environment": dict,
    "selection": dict,
    "milestones": list,
}
_ROW = ("id", "level", "verdict", "text_hash", "worst_ratio", "stands_on", "blocked_by", "examples")


class ReportError(ValueError):
    """A file that is no report, or reports that do not go together; the message is one sentence."""


def read_report(path: Path) -> Document:
    """The document in this file; ReportError when there is none."""
    shown = printable(str(path))
    try:
        document = json.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise ReportError(f"report={shown} cannot be read ({error.strerror}); name a report.json") from None
    except ValueError:
        raise ReportError(f"report={shown} is not JSON; name a report.json that a run wrote") from None
    _check(document, shown)
    return dict(document)


def rows_of(document: Document) -> dict[str, dict[str, Any]]:
    """Every criterion of a report by its id."""
    return {row["id"]: row for milestone in document["milestones"] for row in milestone["criteria"]}


def _check(document: Any, shown: str) -> None:
    if not isinstance(document, dict) or "milestones" not in document or "format" not in document:
        raise ReportError(f"report={shown} is not a conformance report; name a report.json that a run wrote")
    if document["format"] != FORMAT:
        found = printable(str(document["format"]))
        raise ReportError(f"report={shown} has format {found}, this version reads {FORMAT}; write it again")
    try:
        whole = all(isinstance(document.get(key), kind) for key, kind in _TOP.items())
        whole = whole and all(key in row for row in rows_of(document).values() for key in _ROW)
    except (AttributeError, TypeError, KeyError):
        whole = False
    if not whole:
        raise ReportError(
            f"report={shown} lacks parts of a report; compare it with the schema, or write it again"
        )
