"""attest diff and attest merge: outcomes, messages and exit codes."""

from __future__ import annotations

import json
import random
from collections import Counter
from importlib.resources import files
from pathlib import Path

import jsonschema
import pytest
from click.testing import CliRunner

from attest.cli import cli
from attest.report.comparison import compare, compare_files
from attest.report.document import report_document
from attest.report.merge import merge, merge_files
from attest.report.reading import ReportError, read_report
from attest.report.schema import first_misfit
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
        ('{"format": 1, "milestones": [3]}', "is not as its schema says (report lacks implementation)"),
        ('{"format": 1, "milestones": [{"criteria": [{"id": "M1.1"}]}]}', "is not as its schema says"),
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


def spoiled(change):
    """A report that somebody changed by hand."""
    found = json.loads(json.dumps(document({"M1.2": "fail"}, ids=("M1.1", "M1.2"))))
    change(found)
    return found


MILESTONES = {
    "a path as id": lambda d: d["milestones"][0].update(id="../../../X"),
    "an absolute path": lambda d: d["milestones"][0].update(id="/tmp/X"),
    "a newline after the id": lambda d: d["milestones"][0].update(id="M1\n"),
    "a criterion's path": lambda d: d["milestones"][0]["criteria"][0].update(id="M1/../../x"),
    "a criterion twice": lambda d: d["milestones"][0]["criteria"].append(d["milestones"][0]["criteria"][0]),
    "a verdict of no kind": lambda d: d["milestones"][0]["criteria"][0].update(verdict=["pass"]),
    "a number for a text": lambda d: d["milestones"][0].update(title=7),
    "examples as text": lambda d: d["milestones"][0]["criteria"][0].update(examples="60"),
    "an infinite ratio": lambda d: d["milestones"][0]["criteria"][0].update(worst_ratio=float("inf")),
    "no selection": lambda d: d.pop("selection"),
    "a failure that is a text": lambda d: d["milestones"][0]["criteria"][1].update(failure="yes"),
}


@pytest.mark.parametrize("change", MILESTONES.values(), ids=MILESTONES)
@pytest.mark.parametrize("command", [["merge"], ["merge", "-o", "out/here"], ["diff"]])
def test_a_forged_report_is_refused_and_nothing_is_written(tmp_path, monkeypatch, change, command):
    monkeypatch.chdir(tmp_path)
    Path("forged.json").write_text(json.dumps(spoiled(change)))
    with pytest.raises(ReportError) as caught:
        CliRunner().invoke(cli, [*command, "forged.json", "forged.json"], catch_exceptions=False)
    assert "\n" not in str(caught.value)
    assert [p.name for p in tmp_path.iterdir()] == ["forged.json"]


def test_circles_and_deep_nests_end(tmp_path):
    circle = spoiled(lambda d: d["milestones"][0]["criteria"][0].update(stands_on=["M1.2"]))
    circle["milestones"][0]["criteria"][1]["stands_on"] = ["M1.1"]
    rows = merge([circle])["milestones"][0]["criteria"]
    assert [r["blocked_by"] for r in rows] == [["M1.2"], ["M1.2"]]
    deep = tmp_path / "deep.json"
    deep.write_text("[" * 100_000)
    with pytest.raises(ReportError, match=r"is nested too deeply|is not JSON"):
        read_report(deep)


def test_our_reading_of_the_schema_agrees_with_jsonschema():
    judge = jsonschema.Draft202012Validator(SCHEMA)
    rng = random.Random(0)
    values = [None, True, 0, -1, 1.5, "", "M1", "M1.2", "pass", [], ["M1.2"], {}, {"id": "M1.2"}]
    seen = Counter()
    for _ in range(300):
        found = spoiled(lambda d: None)
        place = found
        while isinstance(place, dict | list) and place:
            key = rng.choice(list(place) if isinstance(place, dict) else range(len(place)))
            if not isinstance(place[key], dict | list) or not place[key] or rng.random() < 0.2:
                place[key] = rng.choice(values)
                break
            place = place[key]
        fits = not first_misfit(found, SCHEMA)
        assert fits == judge.is_valid(found), first_misfit(found, SCHEMA)
        seen[fits] += 1
    assert min(seen.values()) > 20


def test_merge_does_not_write_over_somebodys_page(tmp_path):
    (tmp_path / "index.md").write_text("somebody's")
    path = tmp_path / "a.json"
    path.write_text(json.dumps(document(ids=("M1.1",))))
    result = CliRunner().invoke(cli, ["merge", str(path), "-o", str(tmp_path)])
    assert (result.exit_code, (tmp_path / "index.md").read_text()) == (2, "somebody's")
    assert "has an index.md that no run wrote; choose another directory" in result.output
