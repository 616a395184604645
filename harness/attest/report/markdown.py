"""Markdown pages of a report: an index and one page per milestone."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any


def index_page(document: Mapping[str, Any]) -> str:
    """The verdict of every milestone."""
    return "\n".join(_index(document)) + "\n"


def milestone_page(document: Mapping[str, Any], milestone: Mapping[str, Any]) -> str:
    """Acceptance criteria first, then every criterion, then the failures in full."""
    return "\n".join(_milestone(document, milestone)) + "\n"


def _index(document: Mapping[str, Any]) -> Iterator[str]:
    yield f"# Conformance of {document['implementation']}\n"
    yield "| milestone | verdict |"
    yield "|---|---|"
    for m in document["milestones"]:
        yield f"| [{m['id']} {m['title']}]({m['id']}.md) | {m['verdict']} |"


def _milestone(document: Mapping[str, Any], milestone: Mapping[str, Any]) -> Iterator[str]:
    yield f"# {milestone['id']} {milestone['title']}: {milestone['verdict']}\n"
    for a in milestone["acceptance"]:
        yield f"- **{a['id']}** {a['text']} ({', '.join(a['verdicts'])})"
    yield ""
    for c in milestone["criteria"]:
        yield f"- {c['id']} {c['title']}: {c['verdict']} {c['reason']}"
