"""The closing lines of a run: one screen, no escapes, and a next step for every outcome."""

from __future__ import annotations

import pytest

from attest.records.failure import Likeness, Replay
from attest.report.terminal import summary_lines
from attest.report.writing import write_reports
from report_samples import HOSTILE, SPEC, failure, hostile, milestone_ids, plan_for, record, run, student


def summary(records, *, missing=(), **fields):
    plan = plan_for("mine", **fields)
    return list(summary_lines({"mine": records}, SPEC, plan, missing))


def next_step(lines):
    return next(line for line in lines if line.startswith("  next"))


def everything_broken():
    long = failure("M1.1", likenesses=(Likeness("word " * 60, 1, 9),), replay=Replay("mine.py", "M1.1"))
    records = [record(c.id, "fail", failure=long, reason="word " * 80) for c in SPEC.criteria[::2]]
    return records + [record(c.id, "error", reason="word " * 80) for c in SPEC.criteria[1::2]]


@pytest.mark.parametrize(
    "records", [run({}), student(), everything_broken()], ids=["pass", "student", "broken"]
)
def test_one_implementation_takes_a_row_per_milestone_and_few_lines_more(records):
    lines = summary(records, missing=[f"{c.id}[mine]" for c in SPEC.criteria])
    assert len(lines) <= len(SPEC.milestones) + 14
    assert all(len(line) <= 80 for line in lines), max(lines, key=len)


def test_every_milestone_has_its_verdict_and_count():
    lines = summary(student())
    count = len(milestone_ids("M1"))
    row = next(line for line in lines if line.startswith("  M1 "))
    assert row.split()[-4:] == ["does", "not", "conform", f"{count - 3}/{count}"]
    assert any(line.startswith("  not offered") and "M4, M5" in line for line in lines)


def test_what_is_open_is_listed_by_verdict():
    lines = summary(student())
    assert "  fail           M1.5, M1.9" in lines
    assert "  known failure  M1.14" in lines
    assert "  not run        M2.6" in lines


def test_the_first_to_fix_comes_with_evidence_and_a_command():
    lines = summary(student())
    at = lines.index(next_step(lines))
    assert lines[at] == "  next           M1.5 is the first to fix; see `attest explain M1.5`"
    rest = "\n".join(lines[at:])
    assert "position 0 moved by 0.31" in rest
    assert "likely: causal_off_by_one (explains 2)" in rest
    assert "pytest --impl=mine.py --criterion M1.5 --attest-seed 0" in rest


def test_without_a_likely_cause_the_nearest_defects_are_shown():
    near = failure("M1.5", likenesses=(Likeness("a_b", 3, 9),))
    lines = summary([record("M1.5", "fail", failure=near)])
    assert "                 looks like a_b (agrees on 3 of 9 cases)" in lines


def test_a_cause_found_on_few_cases_is_named_with_a_doubt():
    near = failure("M1.5", likenesses=(Likeness("a_b", 1, 1),))
    far = failure("M1.9", likenesses=(Likeness("a_b", 9, 9),))
    alone = summary([record("M1.5", "fail", failure=near)])
    assert any("likely: a_b (explains 1, on too few cases to be sure)" in line for line in alone)
    both = summary([record("M1.5", "fail", failure=near), record("M1.9", "fail", failure=far)])
    assert any("likely: a_b (explains 2)" in line for line in both)


def test_a_must_without_broken_ground_comes_before_all_others():
    upper = next(c for c in SPEC.criteria if "M1.2" in c.stands_on and c.level == "must")
    should = next(c for c in SPEC.criteria if c.level == "should")
    lines = summary(run({"M1.2": "fail", upper.id: "fail", should.id: "fail"}))
    assert "M1.2 is the first to fix" in next_step(lines)


def test_a_may_that_is_offered_and_wrong_decides():
    found = next(c for c in SPEC.criteria if c.level == "may")
    lines = summary(run({found.id: "fail"}))
    assert f"{found.id} is the first to fix" in next_step(lines)
    assert any("does not conform" in line for line in lines)
    left_out = summary(run({found.id: "not offered"}))
    assert not any("does not conform" in line or "incomplete" in line for line in left_out)


def test_what_does_not_decide_is_next_when_the_rest_passes_and_is_said_to_be_no_must():
    level = "should"
    found = next(c for c in SPEC.criteria if c.level == level)
    lines = summary(run({found.id: "fail"}))
    at = lines.index(next_step(lines))
    said = " ".join(line[17:] for line in lines[at : at + 2])
    assert f"no must is among the failures; the first is {found.id}, a {level}; see" in said
    assert "first to fix" not in "\n".join(lines)
    assert f"  fail           {found.id} ({level})" in lines


@pytest.mark.parametrize(
    ("records", "fields", "expected"),
    [
        (run({}), {}, "nothing: every milestone asked for conforms"),
        (
            [],
            {"ids": ("M1.5",), "asked": True, "shard": (1, 3)},
            "nothing was judged: no criterion that was asked for is in this shard",
        ),
        (
            run({}, ids=("M1.5",)),
            {"ids": ("M1.5",), "asked": True},
            "judge the rest of M1 with --milestone M1",
        ),
        (run({"M2.6": "not run"}), {}, "M2.6 is not run: because of M2.6"),
        (run({"M2.6": "thin"}), {}, "M2.6 is thin: because of M2.6"),
        (run({"M2.6": "not offered"}), {}, "offer what M2.6 needs: because of M2.6"),
        (
            run(dict.fromkeys(milestone_ids("M6"), "not offered")),
            {},
            "all that is offered conforms; not offered: M6 (`attest explain M6`)",
        ),
        (
            run(dict.fromkeys(SPEC.by_id, "not offered")),
            {},
            "nothing is offered yet; start with M1, see `attest explain M1`",
        ),
        (
            run(dict.fromkeys(milestone_ids("M1"), "not offered"), ids=milestone_ids("M1")),
            {"ids": milestone_ids("M1"), "asked": True},
            "offer what M1.1 needs",
        ),
        ([record("M1.2", "error", reason="KeyError", internal=True)], {}, "a fault of the harness"),
    ],
)
def test_every_outcome_has_a_next_step(records, fields, expected):
    lines = summary(records, **fields)
    at = lines.index(next_step(lines))
    assert expected in " ".join(line[17:] for line in lines[at:])


def test_missing_records_are_said():
    assert "1 record is missing, so this run proves nothing: M1.5[mine]" in "\n".join(
        summary(run({}), missing=["M1.5[mine]"])
    )


def test_the_report_is_named_once_it_is_there(tmp_path):
    assert not any(line.startswith("  report") for line in summary(run({}), reports=str(tmp_path)))
    write_reports({"mine": run({})}, SPEC, tmp_path)
    lines = summary(run({}), reports=str(tmp_path))
    assert lines[-1] == f"  report         {tmp_path}/mine/index.md"


def test_several_implementations_share_one_table():
    names = ("eager", "compiled", "numpy_scratch", "torch_nn")
    runs = {
        "eager": run({}, implementation="eager"),
        "compiled": run({"M1.5": "fail"}, implementation="compiled"),
        "numpy_scratch": run(
            dict.fromkeys(milestone_ids("M6"), "not offered"), implementation="numpy_scratch"
        ),
        "torch_nn": run({"M2.6": "known failure", "M3.3": "thin"}, implementation="torch_nn"),
    }
    lines = list(summary_lines(runs, SPEC, plan_for(*names), []))
    rows = {line.split()[0]: line.split()[1:] for line in lines[1:5]}
    assert lines[0].split()[:3] == ["M1", "M2", "M3"]
    assert rows["compiled"][:3] == ["fails", "1", "conforms"]
    assert rows["torch_nn"][:3] == ["conforms", "known", "open"]
    assert rows["numpy_scratch"][5] == "-"
    assert any(line.startswith("  compiled ") and "M1.5 is the first to fix" in line for line in lines)
    assert len(lines) <= 22
    assert all(len(line) <= 80 for line in lines)


def test_nothing_hostile_reaches_the_terminal():
    bad = record("M1.5", "fail", reason=HOSTILE, implementation="mine")
    bad = bad.but(failure=failure("M1.5", **hostile(HOSTILE + "\n  next  all is well")))
    lines = summary([bad], ids=("M1.5",))
    assert not any("\x1b" in line or "\n" in line for line in lines)
    assert sum(line.startswith("  next") for line in lines) == 1


def test_an_error_that_stops_several_criteria_is_told_once():
    reason = "not wired"
    records = [record(c, "error", reason=reason) for c in ("M1.2", "M1.3", "M1.4")]
    lines = summary(records)
    assert "                 the same error stops 2 more criteria" in lines
    assert sum(reason in line for line in lines) == 1
