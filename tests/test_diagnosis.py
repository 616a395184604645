"""A failing implementation is told which known defect it behaves like, and gets a file that fails alone."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("torch", reason="the strangers are written in torch")

from attest.boundary import JudgedImplementation
from attest.diagnosis.likeness import Diagnosis, diagnose, same_complaint
from attest.diagnosis.trial import Naming, failing_case, name_stranger, table
from attest.diagnosis.trial import Stranger as Presented
from attest.judging.property import load_properties
from attest.outcomes import Deviation, Violation
from attest.records.failure import Failure, Likeness
from attest.report.wording import looks_like
from strangers import FAULTS, Stranger

HERE = Path(__file__).parent
TRIED = ("mask_after_softmax", "causal_off_by_one", "combine_without_transpose", "halves_concatenated")


def wrong(seen: float, wanted: float, ratio: float) -> Violation:
    return Violation(deviation=Deviation("output", (0, 1), seen, wanted, ratio, "the bound"))


@pytest.mark.parametrize("fault", TRIED)
def test_a_torch_stranger_is_named(fault):
    naming = name_stranger(Presented(Stranger(fault), fault, FAULTS[fault]))

    assert naming is not None
    assert naming.right, f"{fault} was taken for {naming.named}"


def test_a_correct_stranger_fails_nothing():
    assert name_stranger(Presented(Stranger("none at all"), "none", "M1.2")) is None


@pytest.mark.parametrize(
    ("found", "expected"),
    [
        ([Likeness("a", 40, 40)], "a (agrees on 40 of 40 cases)"),
        ([Likeness("a", 4, 4)], "a (agrees on 4 of 4 cases)"),
        ([Likeness("a", 3, 3)], "a (agrees on 3 of 3 cases, too few to be sure)"),
        ([Likeness("a", 1, 1)], "a (agrees on 1 of 1 case, too few to be sure)"),
        (
            [Likeness("a", 30, 40), Likeness("b", 26, 40), Likeness("c", 23, 40)],
            "a (agrees on 30 of 40 cases) or b (agrees on 26 of 40 cases)",
        ),
        ([Likeness("a", 20, 40)], "none of 7 known defects"),
        ([Likeness("a", 2, 40)], "none of 7 known defects"),
        ([], "none of 7 known defects"),
    ],
)
def test_the_sentence_says_how_sure_it_is(found, expected):
    notable = Diagnosis(tuple(found), 7).notable
    assert looks_like(Failure("", "", "", likenesses=notable, compared=7)) == expected


def test_a_failure_that_was_not_compared_looks_like_nothing():
    assert looks_like(Failure("", "", "")) == ""


@pytest.mark.parametrize(
    ("one", "other", "same"),
    [
        (Violation("raised a", raised="NameError"), Violation("raised b", raised="NameError"), True),
        (Violation("raised a", raised="NameError"), Violation("raised a", raised="ValueError"), False),
        (Violation("raised a", raised="NameError"), Violation("raised a"), False),
        (Violation("the same"), Violation("the same"), True),
        (Violation("one"), Violation("other"), False),
        (wrong(1.0, 2.0, 3.0), wrong(1.0001, 2.0, 90.0), True),
        (wrong(1.0, 2.0, 3.0), wrong(1.1, 2.0, 3.0), False),
        (wrong(float("nan"), 2.0, 3.0), wrong(1.0, 2.0, 3.0), False),
    ],
)
def test_complaints_are_compared_as_data(one, other, same):
    assert same_complaint(one, other) is same


class Misspelt:
    """Every call ends in a NameError, as in a plugin with a typing error."""

    name = "misspelt"
    dtypes = ("float64",)

    def encoder(self, config):
        return lambda **inputs: undefined_name  # noqa: F821


def test_another_class_of_exception_is_no_likeness():
    (property, *_) = load_properties()["M4.6"]
    impl = JudgedImplementation(Misspelt())

    found = diagnose(property, impl, failing_case(property, impl), seed=0)

    assert found.found == ()


def test_numbers_are_told_apart():
    near = 0.1 + 2**-55
    assert str(Deviation("x", (1,), 0.1, near, 9.0, "the bound")) == (
        "x[1] is 0.10000000000000001, should be 0.10000000000000003 (9 times the bound)"
    )
    assert str(Deviation("x", (), 0.5, 0.25, 2.0, "the bound")) == (
        "x is 0.5, should be 0.25 (2 times the bound)"
    )


def test_the_table_counts_and_lists_what_was_missed():
    lines = list(table([Naming("a", "M1.2", ("a",), 1.0), Naming("b", "M1.3", ("c",), 1.0)]))

    assert "| all | 2 | 1 | 50% |" in lines
    assert "| b | M1.3 | c |" in lines


@pytest.fixture(scope="module")
def student_run(tmp_path_factory):
    """The report of a student with three faults at once."""
    reports = tmp_path_factory.mktemp("student")
    command = [sys.executable, "-m", "pytest", f"--impl={HERE / 'students' / 'three_faults.py'}"]
    command += ["--criterion", "M1.3,M3.4,M4.9", "-n", "0", "--attest-profile", "quick"]
    command += [f"--attest-reports={reports}"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False, cwd=reports)
    assert done.returncode == 1, done.stdout[-3000:]
    return reports / "three_faults"


def test_three_faults_at_once_are_all_named(student_run):
    report = json.loads((student_run / "report.json").read_text())
    likeness = {
        c["id"]: c["failure"]["looks_like"]
        for m in report["milestones"]
        for c in m["criteria"]
        if c["failure"] is not None
    }

    assert likeness["M1.3"].startswith("mask_after_softmax")
    assert likeness["M3.4"].startswith("halves_concatenated")
    assert likeness["M4.9"].startswith("unbiased_variance")


def test_the_reproduction_fails_by_itself_with_the_same_message(student_run):
    report = json.loads((student_run / "report.json").read_text())
    seen = report["milestones"][0]["criteria"][0]["failure"]["seen"]
    script = student_run / "repro" / "M1_3.py"

    text = script.read_text()
    done = subprocess.run([sys.executable, str(script)], capture_output=True, text=True, check=False)

    assert "attest." not in text.replace("attest_implementations", "")
    assert done.returncode == 1
    assert f"AssertionError: {seen}" in done.stderr
