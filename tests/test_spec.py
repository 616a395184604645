"""The spec is complete and agrees with the properties; a malformed one is refused with file and key."""

import random

import pytest

from attest.contract import OPERATIONS, Form
from attest.contract.features import FEATURES
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
        (CRITERION, "", "m0.toml: it has no criterion; begin each one with [[criterion]]"),
        ("[[criterion]]", "[criterion]", "m0.toml: criterion is not a list of tables; begin each criterion"),
        (
            'id = "M9"\n',
            "id = 9\n",
            "m0.toml: milestone.id='9' is of the wrong type; make it a text in quotes",
        ),
        (
            'id = "M9"\n',
            'id = "m 9"\n',
            "milestone.id='m 9' is not an id; use a capital, then letters and digits",
        ),
        ('id = "M9.1"', 'id = "M9.x"', "id='M9.x' is not an id; use a number and small letters, as in M9.4a"),
        (
            'needs = ["attention"]',
            'needs = "attention"',
            "needs='attention' is of the wrong type; make it a list",
        ),
        (
            'sources = ["M9-AC1"]',
            "sources = [1]",
            "sources='[1]' is of the wrong type; make it a list of texts",
        ),
        ('AC1 = "It holds"', "AC1 = 1979-05-27", "is of the wrong type; make it a table of texts"),
        ('why = "Because."', 'why = " "', "m0.toml: criterion M9.1: why is empty; write it"),
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


def test_the_first_six_milestones_carry_43_acceptance_criteria():
    counted = [len(m.acceptance) for m in load_spec().milestones[:6]]
    assert [m.id for m in load_spec().milestones[:6]] == [f"M{i}" for i in range(1, 7)]
    assert sum(counted) == 43


def test_the_version_follows_the_requirements_only(tmp_path):
    one = read(tmp_path, MILESTONE + CRITERION)
    other = read(tmp_path, MILESTONE + CRITERION.replace('hint = "Look."', 'hint = "Look harder."'))
    stricter = read(tmp_path, MILESTONE + CRITERION.replace("It holds.", "It always holds."))
    assert one.version == other.version != stricter.version


def test_a_file_that_is_not_utf_8_or_not_there_is_refused(tmp_path):
    path = tmp_path / "m0.toml"
    with pytest.raises(SpecError, match=r"^m0\.toml: cannot be read \(No such file or directory\); check"):
        read_spec([path])
    path.write_bytes((MILESTONE + CRITERION).encode() + b"# caf\xe9")
    with pytest.raises(SpecError, match=r"^m0\.toml: byte \d+ is not UTF-8; save the file as UTF-8$"):
        read_spec([path])


VALUES = (
    "0",
    "-1.5",
    "true",
    '""',
    '"x"',
    "[]",
    "[1]",
    '["x"]',
    "[[]]",
    "{}",
    "{a = 1}",
    "1979-05-27",
    "nan",
)
PIECES = (
    b"\xff",
    b"\x00",
    b'"',
    b"[",
    b"]",
    b"=",
    b"\n",
    b"[[criterion]]\n",
    b"[" * 3000,
    b"9" * 5000,
    b"\x1b[2J",
)


def mutated(text: str, rng: random.Random) -> bytes:
    """The text with a value of another type, or with lines or bytes lost, doubled, moved or put in."""
    lines = text.splitlines(keepends=True)
    places = [i for i, line in enumerate(lines) if " = " in line]
    for _ in range(rng.choice((1, 1, 1, 2, 4))):
        i, change = rng.choice(places), rng.randrange(4)
        if change == 0:
            lines[i] = f"{lines[i].partition(' = ')[0]} = {rng.choice(VALUES)}\n"
        elif change == 1:
            lines[i] = rng.choice(("", lines[i] * 2, lines[rng.choice(places)]))
        elif change == 2:
            lines[i] = lines[i].replace(" = ", rng.choice(("=", ".x = ", " = [", "_ = ")), 1)
        else:
            j = rng.randrange(len(lines))
            lines[i], lines[j] = lines[j], lines[i]
    data = "".join(lines).encode()
    if rng.random() < 0.4:
        at = rng.randrange(len(data))
        data = data[:at] + rng.choice(PIECES) + data[at + rng.randrange(3) :]
    return data


def test_three_thousand_damaged_files_are_read_or_refused_in_one_sentence(tmp_path):
    text = MILESTONE + CRITERION + CRITERION.replace("M9.1", "M9.2").replace("[]", '["M9.1"]')
    path, rng, refused = tmp_path / "m9.toml", random.Random(0), []
    for _ in range(3000):
        path.write_bytes(mutated(text, rng))
        try:
            assert read_spec([path]).criteria
        except SpecError as error:
            refused.append(str(error))
    assert len(refused) > 2000
    assert [s for s in refused if not s.startswith("m9.toml: ") or "; " not in s or not s.isprintable()] == []
    assert len({s.split("; ")[-1] for s in refused}) > 10, "many rules were tried"


def test_what_is_asked_of_a_part_says_in_which_models_it_is():
    """A port that has a model and not its parts is judged by the model: no criterion may leave that out."""
    spec = load_spec()
    models = {name for name, record in OPERATIONS.items() if record.form is Form.MODEL}
    of_today = {c.milestone for c in spec.criteria if c.seen_in}
    asked = [c for c in spec.criteria if c.milestone in of_today and is_about_a_part(c)]
    assert len(asked) > 30
    assert {c.id: set(c.seen_in) for c in asked} == {c.id: models for c in asked}
    assert {c.id for c in spec.criteria if c.seen_in} == {c.id for c in asked}


def is_about_a_part(criterion):
    """It needs no whole model, and nothing that an implementation claims by an operation of its own."""
    whole = {Form.MODEL, Form.TRAINER, Form.OPTIMIZER, Form.GENERATOR}
    needs = [OPERATIONS[name] for name in criterion.needs if name in OPERATIONS]
    features = [FEATURES[name] for name in criterion.features]
    own = any(feature.operation and not feature.option for feature in features)
    return not own and not any(record.form in whole for record in needs)
