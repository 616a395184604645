"""Read a report.json that was passed on the command line."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any, cast

from attest.registry import printable
from attest.report.document import FORMAT
from attest.report.rows import CriterionRow, Document
from attest.report.schema import first_misfit, report_schema

MOST_BYTES = 2**28  # of a report; one of 40 implementations and every picture has 12 million


class ReportError(ValueError):
    """A file that is not a report, or reports that do not go together; the message is one sentence."""


def read_report(path: Path) -> Document:
    """The document in this file; ReportError when there is none. What it says is checked, not believed."""
    shown = printable(str(path))
    try:
        if path.stat().st_size > MOST_BYTES:
            raise ReportError(
                f"report={shown} has over {MOST_BYTES} bytes; name a report.json that a run wrote"
            )
        document = json.loads(path.read_text(encoding="utf-8"), parse_constant=_refused, parse_float=_finite)
        _check(document, shown)
    except OSError as error:
        raise ReportError(f"report={shown} cannot be read ({error.strerror}); name a report.json") from None
    except RecursionError:
        raise ReportError(
            f"report={shown} is nested too deeply; name a report.json that a run wrote"
        ) from None
    except ReportError:
        raise
    except ValueError:
        raise ReportError(f"report={shown} is not JSON; name a report.json that a run wrote") from None
    found: Document = document
    return found


def rows_of(document: Document) -> dict[str, CriterionRow]:
    """Every criterion of a report by its id."""
    return {row["id"]: row for milestone in document["milestones"] for row in milestone["criteria"]}


def _refused(word: str) -> float:
    """Refuse NaN and infinity, which JSON does not have and no report of ours holds."""
    raise ValueError(word)


def _finite(text: str) -> float:
    number = float(text)
    return number if math.isfinite(number) else _refused(text)


def _check(document: Any, shown: str) -> None:
    if not isinstance(document, dict) or "milestones" not in document or "format" not in document:
        raise ReportError(f"report={shown} is not a conformance report; name a report.json that a run wrote")
    if document["format"] != FORMAT:
        found = printable(str(document["format"]))[:40]
        raise ReportError(f"report={shown} has format {found}, this version reads {FORMAT}; write it again")
    misfit = first_misfit(document, report_schema()) or _repeated(cast(Document, document))
    if misfit:
        raise ReportError(f"report={shown} is not as its schema says ({printable(misfit)}); write it again")


def _repeated(document: Document) -> str:
    """A second row of one id would hide the first."""
    ids = [m["id"] for m in document["milestones"]]
    ids += [row["id"] for m in document["milestones"] for row in m["criteria"]]
    twice = next((id for id in ids if ids.count(id) > 1), "")
    return f"{twice} is there twice" if twice else ""
