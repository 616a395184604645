"""Faults that were written blind, and correct ways to write the same: `attest trial tests/blind_faults.py`.

blind_faults.toml has them as edits of eager's source, with the criteria that ought to see each.
"""

import tomllib
from pathlib import Path

from field_faults import changed

FILE = Path(__file__).with_suffix(".toml")


def attest_implementations():
    return [made(**one) for one in tomllib.loads(FILE.read_text(encoding="utf-8"))["implementation"]]


def made(name, seen_in, criteria, edits, fault="None.", correct=False):
    """A copy of eager with its edits."""
    milestones = {criterion.partition(".")[0] for criterion in criteria}
    implementation = changed(name, fault, seen_in, *edits, correct=correct, milestones=tuple(milestones))
    implementation.criteria = tuple(criteria)
    return implementation
