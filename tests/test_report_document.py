"""What report.json holds: the shape others build on, exactly the run, nothing of the machine."""

from __future__ import annotations

import json
import platform
from importlib.resources import files
from pathlib import Path

import jsonschema
import pytest

from attest.records.failure import Likeness, Replay, Reproduction
from attest.records.record import Record
from attest.report.document import first_sentence, report_document
from attest.report.wording import replay_command
from attest.report.writing import ReportsNotWritten, write_reports, write_text
from report_samples import SPEC, failure, milestone_ids, plan_for, record, run, student

SCHEMA, RECORDS, SELFTEST = (
    json.loads((files("attest.report") / name).read_text(encoding="utf-8"))
    for name in ("schema.json", "records.schema.json", "selftest.schema.json")
)


def valid(document: dict) -> dict:
    """The document as it comes back from disk, after validation."""
    read = json.loads(json.dumps(document, allow_nan=False))
    jsonschema.Draft202012Validator(SCHEMA).validate(read)
    return read


def milestone(document: dict, id: str) -> dict:
    return next(m for m in document["milestones"] if m["id"] == id)


@pytest.mark.parametrize("schema", [SCHEMA, RECORDS, SELFTEST], ids=["report", "records", "selftest"])
def test_the_schema_is_a_schema(schema):
    jsonschema.Draft202012Validator.check_schema(schema)


def test_the_kept_selftest_fits_its_schema():
    kept = json.loads((Path(__file__).parents[1] / "reports" / "kept" / "selftest.json").read_text())
    jsonschema.Draft202012Validator(SELFTEST).validate(kept)
    kept["defects"][0]["verdict"] = "dead"
    with pytest.raises(jsonschema.ValidationError, match="'dead' is not one of"):
        jsonschema.Draft202012Validator(SELFTEST).validate(kept)


@pytest.mark.parametrize(
    "records", [run({}), student(), run({}, ids=("M1.2",))], ids=["pass", "student", "one"]
)
def test_documents_are_valid(records):
    valid(report_document("mine", records, SPEC))


def test_the_schema_refuses_what_others_could_not_read():
    document = report_document("mine", run({}), SPEC)
    document["milestones"][0]["criteria"][0]["verdict"] = "passed"
    with pytest.raises(jsonschema.ValidationError, match="'passed' is not one of"):
        valid(document)
    document = report_document("mine", run({}), SPEC) | {"host": "here"}
    with pytest.raises(jsonschema.ValidationError, match="'host' was unexpected"):
        valid(document)


def test_names_others_build_on():
    document = valid(report_document("mine", student(), SPEC))
    first = document["milestones"][0]
    assert (first["id"], first["verdict"]) == ("M1", "does not conform")
    row = first["criteria"][0]
    assert {"id", "level", "verdict", "examples", "worst_ratio", "seconds"} <= set(row)
    assert row["id"] == "M1.1"
    assert row["examples"] == 60


def test_milestones_left_out_of_a_run_are_left_out_of_its_report():
    document = valid(report_document("mine", run({}, ids=milestone_ids("M2")), SPEC))
    assert [m["id"] for m in document["milestones"]] == ["M2"]
    assert milestone(document, "M2")["verdict"] == "conforms"
    assert document["selection"]["complete"] is False


def test_a_milestone_judged_in_part_is_incomplete_and_a_failure_still_counts():
    part = valid(report_document("mine", run({}, ids=("M1.2", "M1.5")), SPEC))
    assert milestone(part, "M1")["verdict"] == "incomplete"
    assert "M1.1" in milestone(part, "M1")["not_selected"]
    broken = report_document("mine", run({"M1.5": "fail"}, ids=("M1.2", "M1.5")), SPEC)
    assert milestone(broken, "M1")["verdict"] == "does not conform"


def test_a_selected_criterion_without_a_record_is_missing_and_its_milestone_incomplete():
    records = [r for r in run({}, ids=milestone_ids("M1")) if r.criterion != "M1.5"]
    document = valid(report_document("mine", records, SPEC, plan_for("mine", ids=milestone_ids("M1"))))
    assert document["selection"]["missing"] == ["M1.5"]
    assert milestone(document, "M1")["verdict"] == "incomplete"
    assert milestone(document, "M1")["not_selected"] == []


@pytest.mark.parametrize(
    ("verdict", "expected"),
    [
        ("pass", "met"),
        ("fail", "not met"),
        ("error", "not met"),
        ("thin", "incomplete"),
        ("not run", "incomplete"),
        ("not offered", "not offered"),
        ("known failure", "met with known failures"),
    ],
)
def test_acceptance_criteria_take_their_verdict_from_the_musts_that_answer_them(verdict, expected):
    answers = [c.id for c in SPEC.milestone("M1").criteria if "AC1" in c.acceptance and c.level == "must"]
    document = report_document("mine", run(dict.fromkeys(answers, verdict)), SPEC)
    by_id = {a["id"]: a for a in milestone(document, "M1")["acceptance"]}
    assert by_id["AC1"]["verdict"] == expected
    assert by_id["AC1"]["criteria"] == answers
    assert by_id["AC2"]["verdict"] == "met"


def test_an_acceptance_criterion_nobody_judged_is_not_met():
    document = report_document("mine", run({}, ids=("M1.1",)), SPEC)
    by_id = {a["id"]: a["verdict"] for a in milestone(document, "M1")["acceptance"]}
    assert by_id["AC7"] == "incomplete"


def test_replay_repeats_the_run_that_failed():
    bare = record("M1.5", "fail").but(failure=failure("M1.5"), seed=3, profile="quick")
    document = report_document("mine", [bare], SPEC, plan_for("mine", ids=("M1.5",)))
    replay = milestone(document, "M1")["criteria"][0]["failure"]["replay"]
    assert replay == "pytest --impl=mine.py --criterion M1.5 --attest-seed 3 --attest-profile quick"


def test_a_replay_the_runner_gave_is_kept():
    replay = Replay("x.py", "M1.5", "p: case=a[B=1]", 3, "quick", "float32", "cuda:0")
    given = record("M1.5", "fail").but(failure=failure("M1.5", replay=replay))
    document = report_document("mine", [given], SPEC)
    assert milestone(document, "M1")["criteria"][0]["failure"]["replay"] == (
        "pytest --impl=x.py --criterion M1.5 --attest-seed 3 --attest-profile quick --attest-dtype float32 "
        "--attest-device cuda:0 --attest-case 'p: case=a[B=1]'"
    )


def test_a_replay_says_once_what_the_request_says_already():
    replay = Replay("x.py,dtype=float32,device=cuda", "M1.5", dtype="float32", device="cuda")
    assert replay_command(replay) == (
        "pytest --impl=x.py,dtype=float32,device=cuda --criterion M1.5 --attest-seed 0"
    )


def test_a_failure_keeps_its_data_beside_the_prose():
    near = (Likeness("a", 3, 3), Likeness("b", 9, 9, "exceptions"))
    given = failure("M1.5", likenesses=near, compared=40, reproduction=Reproduction(reason="it trains"))
    document = valid(report_document("mine", [record("M1.5", "fail", failure=given)], SPEC))
    row = milestone(document, "M1")["criteria"][0]["failure"]
    assert [likeness["confidence"] for likeness in row["likenesses"]] == ["low", "low"]
    assert row["looks_like"] == (
        "a (agrees on 3 of 3 cases, too few to be sure) "
        "or b (agrees on 9 of 9 cases, by the class of an exception only)"
    )
    assert (row["compared"], row["no_reproduction"]) == (40, "it trains")


def test_a_record_comes_back_as_it_went_and_fits_its_schema():
    replay = Replay("x.py", "M1.5", "p: case=a[B=1]")
    whole = failure("M1.5", replay=replay, reproduction=Reproduction(file="repro/M1_5.py"))
    schema = jsonschema.Draft202012Validator(RECORDS)
    for given in [*student(), record("M1.5", "fail", failure=whole)]:
        line = given.to_json()
        assert Record.from_json(line) == given
        schema.validate(json.loads(line))


def test_the_first_line_of_records_says_what_was_asked():
    jsonschema.Draft202012Validator(RECORDS).validate({"settings": {"seed": 0}})


def test_the_schema_of_records_refuses_prose():
    line = json.loads(record("M1.5", "fail").to_json())
    line["failure"]["looks_like"] = "causal_off_by_one"
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.Draft202012Validator(RECORDS).validate(line)


def test_nothing_of_the_machine_is_kept():
    here = f"{Path.cwd()}/mine.py: cannot be imported, see {Path.home()}/x"
    document = report_document("mine", [record("M1.5", "error", reason=here)], SPEC)
    text = json.dumps(document)
    assert platform.node() not in text or len(platform.node()) < 4
    assert str(Path.cwd()) not in text
    assert milestone(document, "M1")["criteria"][0]["reason"] == "mine.py: cannot be imported, see ~/x"
    assert set(document["environment"]) == {"python", "numpy", "torch", "hypothesis", "system", "machine"}


def test_a_mixed_run_has_no_one_seed():
    records = [record("M1.2"), record("M1.5", seed=4)]
    assert valid(report_document("mine", records, SPEC))["seed"] is None


def test_required_is_one_sentence():
    assert first_sentence("A key has weight zero. More follows.") == "A key has weight zero"
    assert first_sentence("Only one; with a clause.") == "Only one"


def test_a_later_partial_run_leaves_no_page_of_the_earlier_one(tmp_path):
    home = tmp_path / "mine"
    (home / "repro").mkdir(parents=True)
    (home / "repro" / "M1_5.py").write_text("assert False")
    made = failure("M1.5", reproduction=Reproduction(file="repro/M1_5.py"))
    failing = [r.but(failure=made) if r.criterion == "M1.5" else r for r in student()]
    write_reports({"mine": failing}, SPEC, tmp_path)
    (home / "report.html").write_text('<html><meta name="generator" content="attest">old')
    assert (home / "M3.md").exists()
    write_reports({"mine": run({}, ids=milestone_ids("M1"))}, SPEC, tmp_path)
    assert sorted(p.name for p in home.glob("M*.md")) == ["M1.md"]
    assert sorted(p.name for p in (home / "badges").iterdir()) == ["M1.json"]
    assert not list((home / "repro").iterdir())
    assert not (home / "report.html").exists()
    assert (
        "Selected for this run: M1 (all of it). Nothing else was judged." in (home / "index.md").read_text()
    )
    assert [m["id"] for m in valid(json.loads((home / "report.json").read_text()))["milestones"]] == ["M1"]


def _script(id: str) -> str:
    return f"repro/{id.replace('.', '_')}.py"


def test_reproductions_of_what_still_fails_stay(tmp_path):
    repro = tmp_path / "mine" / "repro"
    repro.mkdir(parents=True)
    for name in ("M1_5.py", "M1_5.npz", "M1_9.py", "M1_9.npz"):
        (repro / name).write_text("assert False")
    made = {
        id: record(id, "fail", failure=failure(id, reproduction=Reproduction(file=_script(id))))
        for id in ("M1.5", "M1.9")
    }
    write_reports({"mine": list(made.values())}, SPEC, tmp_path)
    (document,) = write_reports({"mine": [made["M1.5"], record("M1.9")]}, SPEC, tmp_path)
    assert sorted(p.name for p in repro.iterdir()) == ["M1_5.npz", "M1_5.py"]
    row = next(r for r in milestone(valid(document), "M1")["criteria"] if r["id"] == "M1.5")
    assert row["failure"]["reproduction"] == "repro/M1_5.py"
    assert (
        "  by itself  python repro/M1_5.py (beside this report)" in (tmp_path / "mine" / "M1.md").read_text()
    )


def test_what_no_report_lists_is_never_deleted(tmp_path):
    home = tmp_path / "mine"
    write_reports({"mine": run({"M1.5": "fail"})}, SPEC, tmp_path)
    others = ("MAINTAINERS.md", "MODEL_CARD.md", "report.html", "badges/Mine.json", "repro/Makefile.in")
    others += ("repro/M1_9.py", "M99.md")
    (home / "repro").mkdir()
    for name in others:
        (home / name).write_text("somebody's")
    write_reports({"mine": run({}, ids=("M1.1",))}, SPEC, tmp_path)
    assert {name: (home / name).read_text() for name in others} == dict.fromkeys(others, "somebody's")
    assert not (home / "M2.md").exists()


def test_one_report_that_cannot_be_written_costs_only_itself(tmp_path):
    (tmp_path / "first").write_text("a file where the directory should be")
    runs = {label: run({}, implementation=label, ids=("M1.1",)) for label in ("first", "second")}
    with pytest.raises(ReportsNotWritten, match=r"the report of first cannot be written \(FileExistsError"):
        write_reports(runs, SPEC, tmp_path)
    assert (tmp_path / "second" / "report.json").is_file()


def test_a_file_that_cannot_be_replaced_leaves_no_temporary_one(tmp_path):
    (tmp_path / "page.md" / "in the way").mkdir(parents=True)
    with pytest.raises(OSError, match="directory"):
        write_text(tmp_path / "page.md", "text")
    assert [p.name for p in tmp_path.iterdir()] == ["page.md"]


def test_badges_follow_the_verdicts(tmp_path):
    write_reports({"mine": student()}, SPEC, tmp_path)
    read = {p.stem: json.loads(p.read_text()) for p in (tmp_path / "mine" / "badges").iterdir()}
    assert read["M1"] == {
        "schemaVersion": 1,
        "label": "M1 scaled dot-product attention",
        "message": "does not conform",
        "color": "red",
    }
    assert (read["M4"]["message"], read["M4"]["color"]) == ("not offered", "lightgrey")
