"""A failure as a person reads it: required, seen, case, looks like, measured, replay."""

from __future__ import annotations

import re
import textwrap
from collections.abc import Iterator

from attest.records.record import KNOWN
from attest.registry import printable
from attest.report.rows import CriterionRow, FailureRow

MARGIN = 13
WIDTH = 110


def failure_text(row: CriterionRow) -> str:
    """The lines of a failure; the caller prints the heading."""
    parts = [*failure_parts(row), ("explain", f"attest explain {row['id']}")]
    return "\n".join(line for name, text in parts for line in _part(name, text, WIDTH))


def failure_lines(row: CriterionRow, *, width: int = WIDTH) -> Iterator[str]:
    """The block shown for a criterion of a report that did not pass."""
    heading = f"{row['id']} {row['title']}"
    yield f"{heading:<{max(width - 16, 0)}} {row['verdict'].upper():>15}".rstrip()
    for name, text in failure_parts(row):
        yield from _part(name, text, width)


def failure_parts(row: CriterionRow) -> Iterator[tuple[str, str]]:
    """Name and text of each line that has something to say."""
    failure = row.get("failure")
    if not failure:
        yield "reason", one_line(row["reason"])
        if row["blocked_by"]:
            yield "stands on", f"{', '.join(row['blocked_by'])}, which failed"
        return
    yield "required", one_line(failure["required"])
    yield "seen", _seen(failure)
    if failure["case"]:
        yield "case", one_line(failure["case"])
    if failure["looks_like"]:
        yield "looks like", one_line(failure["looks_like"])
    for sentence in failure.get("measured", ()):
        yield "measured", one_line(sentence)
    if row["blocked_by"]:
        yield "stands on", f"{', '.join(row['blocked_by'])}, which failed"
    if row["verdict"] == KNOWN:
        yield "known", one_line(row["reason"])
    yield "replay", one_line(failure["replay"])
    if failure.get("reproduction"):
        yield "by itself", f"python {one_line(failure['reproduction'])} (beside this report)"
    elif failure.get("no_reproduction"):
        yield "by itself", f"no script: {one_line(failure['no_reproduction'])}"


def _seen(failure: FailureRow) -> str:
    text = one_line(failure["seen"])
    if failure["ratio"] is None or failure.get("limit"):  # with a limit, the sentence says the ratio
        return text
    return f"{text} (error {failure['ratio']:.4g} times the bound)"


def one_line(text: str) -> str:
    """Control characters made visible, white space folded: safe on a terminal and in a table."""
    return printable(re.sub(r"\s+", " ", text).strip())


def _part(name: str, text: str, width: int) -> Iterator[str]:
    if name in ("replay", "case"):  # to be copied: never broken over lines
        yield f"  {name:<{MARGIN - 2}}{text}"
        return
    lines = textwrap.wrap(text, max(width - MARGIN, 20)) or [""]
    yield f"  {name:<{MARGIN - 2}}{lines[0]}"
    for line in lines[1:]:
        yield " " * MARGIN + line
