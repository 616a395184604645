"""attest diff and attest merge: outcomes, messages and exit codes."""

from __future__ import annotations

import json
from importlib.resources import files

import jsonschema
import pytest

from attest.report.comparison import compare, compare_files
from attest.report.document import report_document
from attest.report.merge import merge, merge_files
from attest.report.reading import ReportError, read_report
from report_samples import HOSTILE, SPEC, milestone_ids, record, run

SCHEMA = json.loads((files("attest.report") / "schema.json").read_text(encoding="utf-8"))


def document(verdicts=None, *, ids=(), **fields):
    records = [r.but(**fields) for r in run(verdicts or {}, ids=ids)]
    return report_document("mine", records, SPEC)


def ids(changes):
    return [change.id for change in changes]


def test_equal_reports_have_nothing_to_say():
    result = compare(document(), document())
    assert result.exit_code == 0
    assert list(result.lines()) == [
        "mine -> mine",
        f"{len(SPEC.criteria)} criteria unchanged; no regressions",
    ]


@pytest.mark.parametrize("now", ["fail", "error", "thin", "known failure", "not run", "not offered"])
def test_what_passed_and_no_longer_does_is_a_regression(now):
    result = compare(document(), document({"M1.5": now}))
    assert ids(result.regressions) == ["M1.5"]
    assert result.exit_code == 1
    assert f"  M1.5 {SPEC.by_id['M1.5'].title} (must): pass -> {now}; because of M1.5" in list(result.lines())
    assert list(result.lines())[-1].endswith("; 1 regression")


@pytest.mark.parametrize("was", ["fail", "error", "thin", "known failure"])
def test_what_passes_now_is_a_fix(was):
    result = compare(document({"M1.5": was}), document())
    assert ids(result.fixes) == ["M1.5"]
    assert result.exit_code == 0


@pytest.mark.parametrize("now", ["pass", "fail"])
def test_what_was_never_judged_is_new_whatever_it_says(now):
    result = compare(document({"M2.1": "not offered"}), document({"M2.1": now}))
    assert ids(result.new) == ["M2.1"]
    assert result.exit_code == 0


def test_a_known_failure_that_is_no_longer_declared_is_a_regression():
    assert ids(compare(document({"M1.5": "known failure"}), document({"M1.5": "fail"})).regressions) == [
        "M1.5"
    ]


def test_a_failure_that_is_now_declared_is_no_fix():
    result = compare(document({"M1.5": "fail"}), document({"M1.5": "known failure"}))
    assert (ids(result.other), ids(result.fixes), result.exit_code) == (["M1.5"], [], 0)


def test_criteria_in_one_report_only_are_new_or_gone():
    result = compare(document(ids=("M1.1", "M1.2")), document(ids=("M1.2", "M1.3")))
    assert (ids(result.new), ids(result.gone), result.same) == (["M1.3"], ["M1.1"], 1)
    assert result.exit_code == 0


@pytest.mark.parametrize(
    ("old", "new", "shown"),
    [(0.2, 0.45, True), (0.2, 0.39, False), (0.01, 0.2, False), (None, 0.9, False), (0.0, 0.3, True)],
)
def test_a_doubled_error_is_shown_when_it_is_near_the_bound(old, new, shown):
    before, after = (report_document("mine", [record("M1.2", worst_ratio=w)], SPEC) for w in (old, new))
    result = compare(before, after)
    assert bool(result.bounds) is shown
    assert result.exit_code == 0


def test_a_changed_requirement_is_not_compared():
    before = document()
    row = next(r for r in before["milestones"][0]["criteria"] if r["id"] == "M1.5")
    row["text_hash"] = "0" * 12
    result = compare(before, document({"M1.5": "fail"}))
    assert (ids(result.requirements), result.regressions) == (["M1.5"], ())
    assert "requirement changed (1)" in list(result.lines())


def test_other_settings_are_noted():
    before, after = document(), document(profile="quick", seed=4)
    after["environment"]["torch"] = None
    lines = list(compare(before, after).lines())
    assert "  note: profile standard -> quick" in lines
    assert "  note: seed 0 -> 4" in lines
    assert any(line.startswith("  note: torch ") and line.endswith("-> absent") for line in lines)


def test_hostile_text_does_not_reach_the_terminal():
    before, after = document(), document({"M1.5": "fail"})
    after["implementation"] = HOSTILE
    after["milestones"][0]["criteria"][0]["title"] = HOSTILE
    row = next(r for r in after["milestones"][0]["criteria"] if r["id"] == "M1.5")
    row["reason"] = HOSTILE + "\nregressions (0)"
    text = list(compare(before, after).lines())
    assert not any("\x1b" in line for line in text)
    assert "regressions (0)" not in text


def test_disjoint_reports_merge_into_the_whole():
    first, second = milestone_ids("M1"), tuple(c.id for c in SPEC.criteria if c.milestone != "M1")
    merged = merge([document(ids=second), document(ids=first)])
    jsonschema.Draft202012Validator(SCHEMA).validate(merged)
    assert merged["milestones"] == document()["milestones"]
    assert merged["selection"]["complete"] is True


def test_halves_of_a_milestone_make_it_complete():
    all_of_it = milestone_ids("M1")
    halves = [document(ids=all_of_it[:7]), document(ids=all_of_it[7:])]
    assert [h["milestones"][0]["verdict"] for h in halves] == ["incomplete", "incomplete"]
    merged = merge(halves)["milestones"][0]
    assert (merged["verdict"], merged["not_selected"]) == ("conforms", [])
    assert [r["id"] for r in merged["criteria"]] == list(all_of_it)
    assert {a["verdict"] for a in merged["acceptance"]} == {"met"}


def test_merging_marks_what_stands_on_a_failure_of_the_other_report():
    upper = next(c for c in SPEC.criteria if "M1.2" in c.stands_on)
    merged = merge([document({"M1.2": "fail"}, ids=("M1.2",)), document(ids=(upper.id,))])
    rows = {r["id"]: r for m in merged["milestones"] for r in m["criteria"]}
    assert rows[upper.id]["blocked_by"] == ["M1.2"]


def test_agreeing_results_keep_the_larger_evidence():
    small = report_document("mine", [record("M1.2", examples=10)], SPEC)
    large = report_document("mine", [record("M1.2", examples=600)], SPEC)
    assert merge([large, small])["milestones"][0]["criteria"][0]["examples"] == 600


def test_merging_names_every_version_seen():
    first, second = document(ids=("M1.1",)), document(ids=("M1.2",), seed=2)
    first["environment"]["torch"], second["environment"]["torch"] = "2.6.0", None
    merged = merge([first, second])
    assert merged["environment"]["torch"] == "2.6.0 and absent"
    assert merged["seed"] is None


def test_results_that_disagree_are_refused():
    with pytest.raises(
        ReportError, match=r"^M1\.5 is pass and fail in two of the reports; run it again, or leave"
    ):
        merge([document(), document({"M1.5": "fail"})])


def test_unequal_spec_versions_are_refused():
    other = document() | {"spec_version": "0" * 12}
    message = f"^spec versions {SPEC.version} and 000000000000 differ; merge only reports that share one$"
    with pytest.raises(ReportError, match=message):
        merge([document(), other])


def test_two_implementations_are_refused():
    other = document() | {"implementation": "other"}
    with pytest.raises(ReportError, match=r"^implementations mine and other differ; merge only"):
        merge([document(), other])


def test_nothing_to_merge_is_refused():
    with pytest.raises(ReportError, match=r"name at least one report\.json"):
        merge([])


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (None, "cannot be read (No such file or directory); name a report.json"),
        ("{", "is not JSON; name a report.json that a run wrote"),
        ("\udcff", "is not JSON"),
        ("[1]", "is not a conformance report"),
        ('{"defects": []}', "is not a conformance report"),
        ('{"format": 9, "milestones": []}', "has format 9, this version reads 1; write it again"),
        ('{"format": 1, "milestones": [3]}', "lacks parts of a report"),
        ('{"format": 1, "milestones": [{"criteria": [{"id": "M1.1"}]}]}', "lacks parts of a report"),
    ],
)
def test_a_file_that_is_no_report_is_refused_in_one_sentence(tmp_path, text, message):
    path = tmp_path / "report.json"
    if text is not None:
        path.write_bytes(text.encode(errors="surrogateescape"))
    with pytest.raises(ReportError) as caught:
        read_report(path)
    assert message in str(caught.value)
    assert "\n" not in str(caught.value)


def test_files_are_compared_and_merged(tmp_path):
    paths = [tmp_path / "a.json", tmp_path / "b.json"]
    for path, part in zip(paths, (document(ids=("M1.1",)), document({"M1.2": "fail"}, ids=("M1.1", "M1.2")))):
        path.write_text(json.dumps(part))
    assert ids(compare_files(*paths).new) == ["M1.2"]
    assert [r["id"] for r in merge_files(paths)["milestones"][0]["criteria"]] == ["M1.1", "M1.2"]
