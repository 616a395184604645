"""The spec is complete and agrees with the properties; a malformed one is refused with file and key."""

import re

import pytest

from attest.judging.property import load_properties
from attest.spec import SpecError, load_spec, read_spec

MILESTONE = """
[milestone]
id = "M9"
title = "A milestone"
summary = "For the tests."
operations = ["attention"]
[milestone.acceptance]
AC1 = "It holds"
"""
CRITERION = """
[[criterion]]
id = "M9.1"
title = "It holds"
level = "must"
acceptance = ["AC1"]
statement = "It holds."
why = "Because."
sources = ["M9-AC1"]
needs = ["attention"]
stands_on = []
hint = "Look."
"""


def read(tmp_path, *texts):
    files = []
    for i, text in enumerate(texts):
        files.append(tmp_path / f"m{i}.toml")
        files[-1].write_text(text)
    return read_spec(files)


def test_the_small_spec_is_read(tmp_path):
    spec = read(tmp_path, MILESTONE + CRITERION)
    assert [c.id for c in spec.criteria] == ["M9.1"]
    assert spec.milestone("M9").title == "A milestone"
    assert spec.by_id["M9.1"].milestone == "M9"


@pytest.mark.parametrize(
    ("before", "after", "sentence"),
    [
        ('level = "must"', 'level = "shall"', "level='shall' is unknown; use one of must, should, may"),
        ('hint = "Look."', "", "m0.toml: criterion M9.1: hint is missing; add it"),
        ('hint = "Look."', 'hint = "Look."\nhnt = "x"', "hnt is not a key of a criterion; remove it"),
        ('acceptance = ["AC1"]', 'acceptance = ["AC7"]', "acceptance='AC7' is not in milestone.acceptance"),
        ('needs = ["attention"]', 'needs = ["atention"]', "needs='atention' is neither an operation nor"),
        ("stands_on = []", 'stands_on = ["M9.7"]', "stands_on='M9.7' is unknown; name an existing criterion"),
        ("stands_on = []", 'stands_on = ["M9.1"]', "stands_on forms a cycle (M9.1 -> M9.1)"),
        ('id = "M9.1"', 'id = "M1.1"', "id='M1.1' does not belong to M9; start it with M9."),
        ('id = "M9"\n', "", "m0.toml: milestone.id is missing; add it"),
        (
            'operations = ["attention"]',
            'operations = ["atn"]',
            "'atn', which the contract lacks",
        ),
        (MILESTONE, "", "m0.toml: [milestone] is missing"),
        ("[[criterion]]", "[[criterion]", "m0.toml: not valid TOML"),
    ],
)
def test_a_malformed_spec_is_refused(tmp_path, before, after, sentence):
    text = MILESTONE + CRITERION
    assert before in text
    with pytest.raises(SpecError) as caught:
        read(tmp_path, text.replace(before, after, 1))
    assert sentence in str(caught.value)


def test_duplicates_are_refused(tmp_path):
    with pytest.raises(SpecError, match=r"'M9\.1' appears twice; ids are never reused"):
        read(tmp_path, MILESTONE + CRITERION + CRITERION)
    with pytest.raises(SpecError, match=r"milestone\.id='M9' is taken; choose another id"):
        read(tmp_path, MILESTONE + CRITERION, MILESTONE + CRITERION.replace("M9.1", "M9.2"))


def test_a_longer_cycle_is_named(tmp_path):
    second = CRITERION.replace("M9.1", "M9.2").replace("stands_on = []", 'stands_on = ["M9.1"]')
    first = CRITERION.replace("stands_on = []", 'stands_on = ["M9.2"]')
    with pytest.raises(SpecError, match=r"cycle \(M9.1 -> M9.2 -> M9.1\)"):
        read(tmp_path, MILESTONE + first + second)


def test_every_criterion_has_a_property_and_every_property_a_criterion():
    properties = load_properties()
    assert [c.id for c in load_spec().criteria if not properties.get(c.id)] == []
    assert [id for id in properties if id not in load_spec().by_id] == []


def test_every_acceptance_criterion_is_answered_by_a_must():
    open_ = [
        f"{m.id}-{key}"
        for m in load_spec().milestones
        for key in m.acceptance
        if not any(key in c.acceptance and c.level == "must" for c in m.criteria)
    ]
    assert open_ == []


def test_the_six_milestones_carry_43_acceptance_criteria():
    counted = {m.id: len(m.acceptance) for m in load_spec().milestones if re.fullmatch(r"M\d", m.id)}
    assert list(counted) == ["M1", "M2", "M3", "M4", "M5", "M6"]
    assert sum(counted.values()) == 43


def test_the_version_follows_the_requirements_only(tmp_path):
    one = read(tmp_path, MILESTONE + CRITERION)
    other = read(tmp_path, MILESTONE + CRITERION.replace('hint = "Look."', 'hint = "Look harder."'))
    stricter = read(tmp_path, MILESTONE + CRITERION.replace("It holds.", "It always holds."))
    assert one.version == other.version != stricter.version
