"""A run in parts on several machines, merged, equals the run in one piece."""

import json

import pytest
from click.testing import CliRunner

from attest.cli import cli
from attest.records.plan import Plan, Target
from attest.registry import UsageError
from attest.report.merge import merge, merge_files
from attest.report.reading import ReportError
from attest.running.many_seeds import seeds_of
from report_samples import SPEC, record
from test_plugin import CAUSAL, IDS, LENGTHS, masks, run  # noqa: F401  the fixture

pytest_plugins = ["pytester"]
PARTS = 3


def settled(document: dict) -> dict:
    """A report without what differs between any two runs."""
    for row in (r for m in document["milestones"] for r in m["criteria"]):
        row.pop("seconds")
    return document


def test_a_run_in_three_shards_equals_the_whole(run, pytester):  # noqa: F811
    body = "def length_mask(self, lengths, size): return np.ones((len(lengths), 1, size), bool)"
    pytester.makepyfile(good=masks("good", body))
    asked = ["--impl=good.py", *(f"--criterion={c}" for c in (CAUSAL, LENGTHS, IDS)), "-n0"]
    run(*asked)
    whole = json.loads((pytester.path / "out" / "good" / "report.json").read_text())
    paths = []
    for number in range(1, PARTS + 1):
        run(*asked, f"--attest-shard={number}/{PARTS}", f"--attest-reports=part{number}")
        paths.append(pytester.path / f"part{number}" / "good" / "report.json")
    assert settled(merge_files(paths)) == settled(whole)
    assert {m["verdict"] for m in whole["milestones"]} == {"does not conform"}
    with pytest.raises(ReportError, match="shard 2/3 of seed 0 is missing; name every shard once"):
        merge_files([paths[0], paths[2]])
    with pytest.raises(ReportError, match="shard 1/3 of seed 0 is there twice"):
        merge_files([*paths, paths[0]])
    with pytest.raises(ReportError, match="shards of different runs do not go together"):
        merge_files([*paths, pytester.path / "out" / "good" / "report.json"])


def test_every_criterion_is_in_one_shard_and_stays_there_when_others_come():
    target = Target("mine", "mine.py", "mine")
    few, all_ids = tuple(SPEC.by_id)[::2], tuple(SPEC.by_id)
    parts = [Plan((target,), all_ids, shard=(k, 4)).chosen("mine") for k in (1, 2, 3, 4)]
    assert sorted(id for part in parts for id in part) == sorted(all_ids)
    assert all(parts), "a hash that leaves a shard empty divides nothing"
    for k, part in enumerate(parts, 1):
        assert set(Plan((target,), few, shard=(k, 4)).chosen("mine")) == set(part) & set(few)


def report(seed: int, verdict: str = "pass", **fields):
    from attest.report.document import report_document

    return report_document("mine", [record("M1.5", verdict, seed=seed, **fields)], SPEC)


def only_row(document):
    return document["milestones"][0]["criteria"][0]


def test_results_of_several_seeds_are_added_up():
    merged = merge([report(0, worst_ratio=0.2, worst_case="a"), report(1, worst_ratio=0.7, worst_case="b")])
    row = only_row(merged)
    assert (row["verdict"], row["examples"], row["floor"]) == ("pass", 120, 80)
    assert (row["worst_ratio"], row["worst_case"]) == (0.7, "b")
    assert row["regimes"]["init"] == 24
    assert merged["seed"] is None


def test_a_failure_of_one_seed_is_a_failure_and_the_smallest_case_is_kept():
    documents = [report(0), report(1, "fail"), report(2, "fail")]
    only_row(documents[1])["failure"]["case"] = "case=B=12 T=40"
    only_row(documents[2])["failure"]["case"] = "case=B=1 T=2"
    row = only_row(merge(documents))
    assert (row["verdict"], row["seed"], row["failure"]["case"]) == ("fail", 2, "case=B=1 T=2")
    assert row["examples"] == 180


@pytest.mark.parametrize("text", ["", "3", "3..", "7..3", "a..b", "0..99999999", "-1..2", "0...2"])
def test_seeds_that_are_no_range(text):
    with pytest.raises(UsageError, match=r"is no range; write for example 0\.\.9"):
        seeds_of(text)
    assert seeds_of("3..5") == range(3, 6)


@pytest.mark.parametrize("text", ["3", "0/3", "4/3", "1/0", "a/b", "1/2/3", "99999/99999"])
def test_shards_that_are_none(text, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    assert pytest.main(["--impl=numpy_scratch", f"--attest-shard={text}"]) == 2
    assert "is no part of a run; write 1/3, 2/3 or 3/3" in capsys.readouterr().err


@pytest.mark.slow
def test_seeds_are_run_one_by_one_and_merged(pytester):
    pytester.makepyfile(good=masks())
    words = ["run", "--impl", "good.py", "-c", CAUSAL, "--profile", "quick", "-n", "0", "--seeds", "0..1"]
    result = CliRunner().invoke(cli, [*words, "--reports", "out"])
    assert result.exit_code == 0
    row = only_row(json.loads((pytester.path / "out" / "good" / "report.json").read_text()))
    assert row["examples"] == 2 * 16
