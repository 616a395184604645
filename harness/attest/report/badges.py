"""A badge per milestone in the endpoint format of shields.io."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from attest.records.record import NOT_OFFERED
from attest.records.verdicts import CONFORMS, CONFORMS_WITH_KNOWN, DOES_NOT_CONFORM, INCOMPLETE

COLOURS = {
    CONFORMS: "brightgreen",
    CONFORMS_WITH_KNOWN: "green",
    INCOMPLETE: "yellow",
    DOES_NOT_CONFORM: "red",
    NOT_OFFERED: "lightgrey",
}


def badge(milestone: Mapping[str, Any]) -> dict[str, Any]:
    """Label, message and colour of one milestone of a report."""
    return {
        "schemaVersion": 1,
        "label": f"{milestone['id']} {milestone['title'].lower()}",
        "message": milestone["verdict"],
        "color": COLOURS[milestone["verdict"]],
    }
