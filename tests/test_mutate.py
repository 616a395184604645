"""`attest mutate`: which faults are made, that each is the one described, and what the report counts."""

import ast
import json
from dataclasses import replace
from functools import partial
from pathlib import Path

import pytest

from attest.boundary import JudgedImplementation
from attest.evidence import collecting
from attest.judging.property import run_property
from attest.reference.implementation import ReferenceImplementation
from attest.registry import UsageError
from attest.trials.judgement import Refusal, unshrunk
from attest.trials.mutants import (
    CAUGHT,
    EXPLAINED,
    OPEN,
    SURVIVED,
    UNREACHED,
    WEAKLY,
    Experience,
    Outcome,
    Results,
    mutants,
)
from attest.trials.mutation_report import count, document, lines, open_survivors
from attest.trials.mutations import Mutation, changes, mutated, package_mutations, sample
from attest.trials.reach import MARK, Reach, marked
from attest.trials.sources import Package, package_of
from attest.trials.survivors import contradicted, read_annotations

TINY = '''
import numpy as np

SPARE = None


def visible(T, S):
    """What may be seen."""
    return np.tri(T, S, S - T, dtype=bool)


def unused(x):
    return x + 1


class Tiny:
    name = "tiny"
    dtypes = ("float64",)

    def causal_mask(self, T, S):
        if min(T, S) < 0:
            raise ValueError(f"T={T}, S={S} are not both lengths; give 0 or more")
        return visible(T, S)


def attest_implementations():
    return [Tiny()]
'''


@pytest.fixture
def attest(attest):
    """`attest mutate` of M1, in a directory that holds tiny.py."""
    Path("tiny.py").write_text(TINY)
    return partial(attest, "mutate", "--impl", "tiny.py", "-m", "M1")


def made(source: str) -> list[tuple[str, str, str]]:
    return [(c.kind, *c.texts()) for c in changes(ast.parse(source))]


@pytest.mark.parametrize(
    ("source", "fault"),
    [
        ("y = a + b", ("operator", "y = a + b", "y = a - b")),
        ("y = a + b", ("operand dropped", "y = a + b", "y = b")),
        ("y = a - b", ("arguments swapped", "y = a - b", "y = b - a")),
        ("y += a", ("operator", "y += a", "y -= a")),
        ("y = a <= b", ("comparison", "y = a <= b", "y = a < b")),
        ("y = a is None", ("comparison", "y = a is None", "y = a is not None")),
        ("y = a and b", ("and / or", "y = a and b", "y = a or b")),
        ("y = not a", ("not removed", "y = not a", "y = a")),
        ("y = ~a", ("not removed", "y = ~a", "y = a")),
        ("y = 3", ("constant", "y = 3", "y = 4")),
        ("y = 1e-5", ("constant", "y = 1e-05", "y = 2e-05")),
        ("y = x[1]", ("index", "x[1]", "x[0]")),
        ("y = x[:n]", ("off by one", "x[:n]", "x[:n - 1]")),
        ("y = x[a:b]", ("index", "x[a:b]", "x[:b]")),
        ("y = x.sum(-1)", ("axis", "x.sum(-1)", "x.sum(-2)")),
        ("y = x.sum(dim=1)", ("axis", "dim=1", "dim=0")),
        ("y = x.sum(dim=1)", ("argument dropped", "y = x.sum(dim=1)", "y = x.sum()")),
        ("y = f(a, b)", ("arguments swapped", "y = f(a, b)", "y = f(b, a)")),
        ("y = f(a, b)", ("call removed", "y = f(a, b)", "y = a")),
        ("y = x.exp()", ("call removed", "y = x.exp()", "y = x")),
        ("import np\ny = np.exp(x)", ("call removed", "y = np.exp(x)", "y = x")),
        ("y = a if c else b", ("branch", "y = a if c else b", "y = b if c else a")),
        ("if c:\n    f()", ("branch", "if c:", "if not c:")),
        ("if c:\n    f()", ("statement dropped", "f()", "pass")),
        ("for i in range(n):\n    pass", ("off by one", "for i in range(n):", "for i in range(n - 1):")),
        ("def f(x, eps=1e-5):\n    x = x + eps", ("statement dropped", "x = x + eps", "pass")),
    ],
)
def test_each_kind_of_fault_is_made(source, fault):
    assert fault in made(source)


@pytest.mark.parametrize("content", [b"def (\n", b"\xff", b"x = \x00"])
def test_a_source_that_is_no_python_is_refused_in_one_sentence(tmp_path, content):
    (tmp_path / "broken.py").write_bytes(content)
    with pytest.raises(UsageError, match=r"broken\.py cannot be read as Python \(.*\); correct it"):
        package_mutations([tmp_path / "broken.py"], tmp_path)


@pytest.mark.parametrize(
    "source",
    [
        '"""A docstring of 3 words."""',
        "import a.b",
        "def f(x: T[3]) -> T[4]:\n    raise ValueError(x + 1)",
        "assert a < b",
        'y = f"{a + 1}"',
        "if TYPE_CHECKING:\n    y = 1",
    ],
)
def test_what_cannot_be_a_fault_is_left_alone(source):
    assert made(source) == []


def test_a_mutation_is_found_again_and_is_the_only_change(tmp_path):
    path = tmp_path / "tiny.py"
    path.write_text(TINY)
    every = package_mutations([path], tmp_path)
    assert len({m.id for m in every}) == len(every) > 12
    for mutation in every:
        tree = mutated(TINY, mutation.index)
        compile(tree, "tiny.py", "exec")
        pairs = list(zip(ast.unparse(tree).splitlines(), ast.unparse(ast.parse(TINY)).splitlines()))
        assert any(a != b for a, b in pairs), mutation
    texts = [str(m) for m in every]
    assert "tiny.py:9 np.tri(T, S, S - T, dtype=bool) -> np.tri(T, S, S + T, dtype=bool)" in texts


def test_an_id_survives_a_move_and_a_larger_sample_begins_with_the_smaller(tmp_path):
    for name, text in (("a.py", TINY), ("b.py", "\n\n\n" + TINY)):
        (tmp_path / name).write_text(text)
    here, there = ([*package_mutations([tmp_path / n], tmp_path)] for n in ("a.py", "b.py"))
    assert [m.id for m in here] == [m.id for m in there]
    assert here[0].line + 3 == there[0].line
    assert sample(here, 5, seed=1) == sample(here, 9, seed=1)[:5]
    assert sample(here, 9, seed=1) != sample(here, 9, seed=2)


def test_marks_tell_which_statements_ran():
    source = "def f(x):\n    if x:\n        return 1\n    return 2\n"
    seen = set()
    names = {MARK: seen.add}
    exec(compile(marked(ast.parse(source), "a.py"), "a.py", "exec"), names)
    assert names["f"](0) == 2
    assert seen == {("a.py", 1), ("a.py", 2), ("a.py", 4)}


def test_a_mutant_meets_only_the_criteria_that_execute_it_musts_and_quick_ones_first():
    package = Package("tiny.py", Path(), ())
    reach = [
        Reach("M1.14a", "quick", "pass", "", 0.1, (("a.py", 3),)),
        Reach("M1.3", "quick", "pass", "", 9.0, (("a.py", 3),)),
        Reach("M1.2", "quick", "pass", "", 2.0, (("a.py", 3), ("a.py", 4))),
        Reach("M1.4", "quick", "fail", "", 1.0, (("a.py", 3),)),
    ]
    inside = Mutation("a.py", 0, 3, "f", "constant", "1", "2")
    elsewhere = Mutation("a.py", 1, 5, "f", "constant", "1", "2")
    top = Mutation("a.py", 2, 1, "", "constant", "1", "2")
    planned = mutants(package, [inside, elsewhere, top], reach, 0, profile="quick")
    assert [s.criterion for s in planned[0].steps] == ["M1.2", "M1.3", "M1.14a"]
    assert planned[1].steps == ()
    assert {s.criterion for s in planned[2].steps} == {"M1.2", "M1.3", "M1.14a"}


def test_all_criteria_are_asked_for_few_examples_before_one_is_asked_for_all():
    reach = [
        Reach("M1.3", "quick", "pass", "", 9.0, (("a.py", 3),)),
        Reach("M1.2", "quick", "pass", "", 2.0, (("a.py", 3),)),
        Reach("M1.9", "quick", "pass", "", 2.0, (("a.py", 3),)),
    ]
    fault = Mutation("a.py", 0, 3, "f", "constant", "1", "2")
    package = Package("tiny.py", Path(), ())
    [whole] = mutants(package, [fault], reach, 0, profile="standard", examples=(4, 0))
    [first] = mutants(package, [fault], reach, 0, profile="standard", examples=(4, 16))
    assert (whole.whole, first.whole) == (True, False)
    asked = [(s.criterion, s.profile, s.examples) for s in Experience().ordered(whole).steps]
    assert [examples for _, _, examples in asked] == [4, 4, 4, 0, 0, 0]
    assert {profile for _, profile, _ in asked} == {"standard"}

    refusal = Refusal("M1.3", "must", "standard", "fail", "off")
    other = Mutation("a.py", 1, 4, "f", "constant", "3", "4")
    taught = Experience([Outcome(other, CAUGHT, refusal)])
    assert [s.criterion for s in taught.ordered(first).steps] == ["M1.3", "M1.2", "M1.9"] * 2


def test_the_first_examples_are_those_of_the_whole_search():
    def met(most: int) -> list[str]:
        found: list[str] = []
        [property, *_] = unshrunk("M1.5", most)
        noting = replace(property, check=lambda impl, **drawn: found.append(str(drawn)))
        impl = JudgedImplementation(ReferenceImplementation())
        with collecting():
            run_property(noting, impl, profile="quick", seed=0)
        return found

    few, every = met(3), met(0)
    assert few == every[:3]
    assert len(every) > 3


def test_what_the_first_examples_let_live_stays_open():
    fault = Mutation("a.py", 0, 3, "f", "constant", "1", "2")
    lived = Outcome(fault, OPEN)
    assert "1 of those that live met the first examples of each criterion only" in "\n".join(
        lines([lived], {}, 1)
    )
    assert count([lived], {}).caught == 0


def test_a_mutant_that_is_explained_can_be_left_unjudged(attest, tmp_path):
    Path("known.toml").write_text(LISTED.format(function="visible"))
    asked = ("--profile", "quick", "--annotations", "known.toml", "--trusting", "--at-least", "30")
    code, out, err = attest(*asked)
    assert code == 0, out + err
    assert "1 of those that live were not judged: an annotation says what they are" in out
    rows = [json.loads(r) for r in Path("reports/mutation/tiny.jsonl").read_text().splitlines()[1:]]
    assert [r["verdict"] for r in rows if r["after"].startswith("np.tri(T, S, S + T")] == [EXPLAINED]
    code, out, _ = attest("--profile", "quick", "--resume", "--annotations", "known.toml", "--at-least", "30")
    assert code == 1  # asked without trust it is judged, and caught
    assert "caught, though annotated as limit" in out


def test_the_sources_of_a_registered_implementation_are_all_its_files():
    package = package_of("eager")
    assert package.root.name == "eager"
    assert package.root / "__init__.py" in package.files
    assert len(package_mutations(package.files, package.root)) > 1000


def test_a_whole_run_catches_reports_and_resumes(attest, tmp_path):
    code, out, err = attest("--profile", "quick", "--at-least", "30", "-n", "2")
    assert code == 0, out + err
    assert "not reached" in out  # nothing calls `unused`
    kept = (tmp_path / "reports/mutation/tiny.jsonl").read_text().splitlines()
    rows = [json.loads(line) for line in kept[1:]]
    assert {r["verdict"] for r in rows if "S - T" in r["before"]} == {CAUGHT}
    assert {r["verdict"] for r in rows if r["function"] == "unused"} == {UNREACHED}
    report = json.loads((tmp_path / "reports/mutation/tiny.json").read_text())
    assert report["judged"] == report["asked"] == len(rows)
    assert report["caught"] == sum(r["verdict"] in (CAUGHT, WEAKLY) for r in rows) > 5

    (tmp_path / "reports/mutation/tiny.jsonl").write_text("\n".join(kept[:4]) + '\n{"cut off')
    code, again, _ = attest("--profile", "quick", "--at-least", "30", "--resume")
    assert code == 0
    assert again.splitlines()[-2:] == out.splitlines()[-2:]
    assert len((tmp_path / "reports/mutation/tiny.jsonl").read_text().splitlines()) == len(kept)
    assert attest("--profile", "quick", "--at-least", "100", "--resume")[0] == 1

    (tmp_path / "tiny.py").write_text(TINY + "\n")
    code, _, err = attest("--profile", "quick", "--resume")
    assert (code, err.count("\n")) == (2, 1)
    assert "tiny.jsonl is of another implementation; run without --resume and --again to start anew" in err


LISTED = """
[[survivor]]
function = "{function}"
before = "np.tri(T, S, S - T, dtype=bool)"
after = "np.tri(T, S, S + T, dtype=bool)"
is = "limit"
reason = "To see that it is caught."
"""


def test_listed_mutants_are_judged_alone_and_leave_a_whole_run_as_it_was(attest, tmp_path):
    whole = tmp_path / "reports/mutation/tiny.jsonl"
    whole.parent.mkdir(parents=True)
    whole.write_text("of a whole run")
    Path("known.toml").write_text(LISTED.format(function="visible"))
    code, out, err = attest("--profile", "quick", "--listed", "--annotations", "known.toml")
    assert code == 1, out + err  # it is said to live
    assert "caught, though annotated as limit; remove the annotation of visible: np.tri(T, S, S - T" in out
    assert "judged 1 of 1 mutants" in out
    assert whole.read_text() == "of a whole run"
    kept = json.loads((tmp_path / "reports/mutation/tiny.named.json").read_text())
    assert (kept["judged"], kept["caught"]) == (1, 1)

    Path("known.toml").write_text(LISTED.format(function="gone"))
    code, _, err = attest("--listed", "--annotations", "known.toml")
    assert (code, err.count("\n")) == (2, 1)
    assert "is of no mutant of tiny.py; remove it" in err


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (["--listed"], "--listed needs a list of mutants; give it by --annotations"),
        (["--only", "00000000"], "only='00000000' is not a mutant of tiny.py; see --list"),
        (["--file", "beam"], "has nothing to mutate in these files; widen --file"),
        (["-m", "M99"], "milestone='M99' is unknown"),
        (["--resume"], "tiny.jsonl does not exist; run without --resume and --again first"),
        (["--annotations", "none.toml"], "'none.toml' does not exist"),
    ],
)
def test_a_wrong_request_gets_one_sentence(attest, words, sentence):
    code, out, err = attest(*words)
    assert (code, out) == (2, "")
    assert sentence in err
    assert err.count("\n") == 1


def test_list_prints_a_line_for_each_and_judges_none(attest, tmp_path):
    code, out, _ = attest("--list", "--count", "4")
    assert code == 0
    assert len(out.splitlines()) == 4
    assert all(" -> " in line and "tiny.py:" in line for line in out.splitlines())
    assert not (tmp_path / "reports").exists()


ANNOTATED = """
[[survivor]]
function = "f"
before = "a + 1"
after = "a + 2"
is = "equivalent"
reason = "Nothing reads it."
"""


def outcome(after: str, verdict: str, before: str = "a + 1") -> Outcome:
    refusal = Refusal("M1.2", "must", "quick", "fail", "off") if verdict in (CAUGHT, WEAKLY) else None
    return Outcome(Mutation("a.py", 0, 3, "f", "constant", before, after), verdict, refusal, 2, "quick", 1.0)


def test_annotated_survivors_leave_the_rate_of_faults(tmp_path):
    path = tmp_path / "known.toml"
    path.write_text(ANNOTATED)
    known = read_annotations(path)
    outcomes = [
        outcome("a + 2", SURVIVED),
        outcome("a", SURVIVED),
        outcome("b", CAUGHT),
        outcome("c", WEAKLY),
    ]
    found = count(outcomes, known)
    assert (found.all, found.caught, found.by_a_must, found.equivalent) == (4, 2, 1, 1)
    assert (found.rate, found.rate_of_faults) == (0.5, pytest.approx(2 / 3))
    assert open_survivors(outcomes, known) == [outcomes[1]]
    assert document(outcomes, known, 4)["survivors"][0]["reason"] == "Nothing reads it."
    text = "\n".join(lines(outcomes, known, 9))
    assert "a.py:3 a + 1 -> a + 2 (2 criteria at quick) [equivalent: Nothing reads it.]" in text
    assert "judged 4 of 9 mutants" in text
    assert "without 1 equivalent ones 66.7%" in text


def test_an_annotation_of_a_mutant_that_is_caught_is_told(tmp_path):
    path = tmp_path / "known.toml"
    path.write_text(ANNOTATED)
    known = read_annotations(path)
    assert [a.after for a in contradicted([outcome("a + 2", CAUGHT)], known)] == ["a + 2"]
    assert "remove the annotation of f: a + 1 -> a + 2" in "\n".join(
        lines([outcome("a + 2", CAUGHT)], known, 1)
    )


@pytest.mark.parametrize(
    ("old", "new", "sentence"),
    [
        ('is = "equivalent"', 'is = "fine"', "is='fine' is unknown; use equivalent or limit"),
        ('reason = "Nothing reads it."', "", "reason is missing; add it as a string"),
        ('reason = "Nothing reads it."', 'reason = " "', "reason is empty; say why"),
        ('function = "f"', 'function = "f"\nline = 3', "line is not a key of a survivor; remove it"),
        ("[[survivor]]", "[[survivor", "not valid TOML"),
        ("[[survivor]]", "[[explained]]", "'explained' is unknown; write [[survivor]]"),
        ("[[survivor]]", "[survivor]", "survivor is no list of tables; write [[survivor]]"),
        (
            'function = "f"',
            'function = "f"\nnth = "2"',
            "nth='2' is not a whole number; write for example nth",
        ),
    ],
)
def test_annotations_that_cannot_be_used_get_one_sentence(tmp_path, old, new, sentence):
    path = tmp_path / "known.toml"
    path.write_text(ANNOTATED.replace(old, new))
    with pytest.raises(UsageError, match=r"known\.toml") as refused:
        read_annotations(path)
    assert sentence in str(refused.value)


def test_an_outcome_reads_back(tmp_path):
    for one in (outcome("a", SURVIVED), outcome("b", CAUGHT)):
        assert Outcome.from_json(one.to_json()) == one
    results = Results(tmp_path / "r.jsonl", Package("x", tmp_path, ()), 0, "quick")
    results.begin()
    results.add(outcome("b", CAUGHT))
    read = Results(tmp_path / "r.jsonl", Package("x", tmp_path, ()), 0, "quick")
    read.resume()
    assert list(read.outcomes.values()) == [outcome("b", CAUGHT)]


def test_the_kept_annotations_are_of_mutants_that_exist():
    known = read_annotations(Path(__file__).parent / "survivors" / "eager.toml")
    package = package_of("eager")
    keys = {(m.function, m.before, m.after, m.nth) for m in package_mutations(package.files, package.root)}
    assert [a for a in known if a not in keys] == []
