"""A badge per milestone in the endpoint format of shields.io."""

from __future__ import annotations

from typing import Any

from attest.records.record import NOT_CLAIMED, NOT_OFFERED
from attest.records.verdicts import CONFORMS, CONFORMS_WITH_KNOWN, DOES_NOT_CONFORM, INCOMPLETE
from attest.report.rows import MilestoneRow
from attest.report.wording import verdict_text

COLOURS = {
    CONFORMS: "brightgreen",
    CONFORMS_WITH_KNOWN: "green",
    INCOMPLETE: "yellow",
    DOES_NOT_CONFORM: "red",
    NOT_OFFERED: "lightgrey",
    NOT_CLAIMED: "lightgrey",
}


def badge(milestone: MilestoneRow) -> dict[str, Any]:
    """Label, message and colour of one milestone of a report."""
    return {
        "schemaVersion": 1,
        "label": f"{milestone['id']} {milestone['title'].lower()}",
        "message": verdict_text(milestone),
        "color": COLOURS[milestone["verdict"]],
    }
