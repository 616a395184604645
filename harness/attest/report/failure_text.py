"""A failure as a person reads it: required, seen, case, looks like, replay."""

from __future__ import annotations

import re
import textwrap
from collections.abc import Iterator, Mapping
from typing import Any

from attest.records.record import KNOWN, NOT_OFFERED, NOT_RUN, PASS
from attest.registry import printable

MARGIN = 13
QUIET = frozenset({PASS, NOT_OFFERED, NOT_RUN})


def failure_lines(row: Mapping[str, Any], *, width: int = 110) -> Iterator[str]:
    """The block shown for a criterion of a report that did not pass."""
    heading = f"{row['id']} {row['title']}"
    yield f"{heading:<{max(width - 16, 0)}} {row['verdict'].upper():>15}".rstrip()
    for name, text in failure_parts(row):
        yield from _part(name, text, width)


def failure_parts(row: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
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
    if row["blocked_by"]:
        yield "stands on", f"{', '.join(row['blocked_by'])}, which failed"
    if row["verdict"] == KNOWN:
        yield "known", one_line(row["reason"])
    yield "replay", one_line(failure["replay"])
    if failure.get("reproduction"):
        yield "by itself", f"python {one_line(failure['reproduction'])} (beside this report)"


def _seen(failure: Mapping[str, Any]) -> str:
    text = one_line(failure["seen"])
    if failure.get("ratio") is None or "times the bound" in text:
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
