"""The order of milestones and criteria, by their ids alone: that is all a merge of reports can see."""

from __future__ import annotations

import re


def milestone_order(id: str) -> tuple[bool, int, str]:
    """Sorts M2 before M10. A milestone without a number, such as MC, comes after those with one."""
    number = re.fullmatch(r"M([0-9]+)", id)
    return (False, int(number[1]), "") if number else (True, 0, id)


def criterion_order(id: str) -> tuple[tuple[bool, int, str], int, str]:
    """Sorts M1.4 before M1.4a, M1.4a before M1.10, and M2.1 before M10.1."""
    milestone, _, place = id.partition(".")
    digits = re.match("[0-9]*", place)
    return milestone_order(milestone), int(digits[0]) if digits and digits[0] else 0, place
