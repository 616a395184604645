"""The trial of the harness: the catalogue hangs together, a few defects die, and those alive are told."""

from __future__ import annotations

import inspect

import pytest

from attest import selftest
from attest.judging.catalogue import Defect, Variant, defects, killed_by, variants
from attest.judging.property import costly_criteria, load_properties
from attest.reference.parts.attention import Attention
from attest.selftest import MUST_BE_EMPTY, Outcome, Trial, passed, run_trial, summarise, trials
from attest.spec import load_spec

MILESTONES = [m.id for m in load_spec().milestones]
FIRST = MILESTONES[:2]  # attention
TODAY = ("M7", "M8")  # positions, variants of attention
QUICKLY_DEAD = {
    "no_scale": "M1.10",
    "mask_after_softmax": "M1.3",
    "causal_off_by_one": "M1.5",
    "silent_broadcast": "M1.14b",
    "loop_over_positions": "M1.7",
    "split_without_transpose": "M2.9",
    "mask_broadcast_over_heads": "M2.8",
    "zeros_instead_of_the_bias": "M2.13a",
}


def test_every_killer_is_a_criterion():
    known = set(load_spec().by_id)
    wrong = {d.name: sorted(set(d.killers) - known) for d in defects().values() if set(d.killers) - known}
    assert not wrong


def test_every_defect_says_its_sin_in_a_sentence():
    for entry in (*defects().values(), *variants().values()):
        said = entry.sin if isinstance(entry, Defect) else entry.what
        assert said, f"{entry.name} has no docstring"
        assert said.endswith("."), f"{entry.name}: {said!r} is no sentence"
        assert inspect.getdoc(entry.piece) == said, f"{entry.name} borrows the docstring of its parent"


def test_no_name_is_used_twice():
    assert not defects().keys() & variants().keys()
    sins = [d.sin for d in defects().values() if d.milestone in FIRST]
    assert len(set(sins)) >= len(sins) - 4, (
        "the sins of the first milestones are told apart by their sentence"
    )


@pytest.mark.parametrize("milestone", MILESTONES)
def test_every_criterion_has_a_property_and_a_defect_that_names_it(milestone):
    properties = load_properties()
    for criterion in load_spec().criteria:
        if criterion.milestone == milestone:
            assert properties.get(criterion.id), f"no property verifies {criterion.id}"
            assert killed_by(criterion.id), f"no defect names {criterion.id}"


def test_no_property_verifies_an_unknown_criterion():
    assert not load_properties().keys() - load_spec().by_id.keys()


def test_there_are_enough_defects_and_variants_of_attention():
    assert sum(d.milestone in FIRST for d in defects().values()) >= 60
    assert sum(bool(set(v.milestones) & set(FIRST)) for v in variants().values()) >= 10


def test_there_are_enough_defects_and_variants_of_positions_and_attention_of_today():
    assert sum(d.milestone in TODAY for d in defects().values()) >= 110
    assert sum(bool(set(v.milestones) & set(TODAY)) for v in variants().values()) >= 25


@pytest.mark.parametrize("criterion", [c.id for c in load_spec().criteria if c.milestone in TODAY])
def test_every_criterion_of_positions_and_variants_has_a_defect_that_no_other_names(criterion):
    own = [d.name for d in defects().values() if d.killers == (criterion,)]
    assert own, f"every defect of {criterion} is named by another criterion too: {killed_by(criterion)}"


@pytest.mark.parametrize("name", QUICKLY_DEAD)
def test_a_defect_dies_by_the_criterion_that_names_it(name):
    criterion = QUICKLY_DEAD[name]
    assert criterion in defects()[name].killers
    outcome = run_trial(Trial(name, criterion, correct=False, profile="quick"))
    assert outcome.kills, f"{criterion} let {name} live"


@pytest.mark.parametrize("criterion", ["M1.4", "M1.11", "M2.8", "M2.13a"])
def test_a_correct_variant_lives(criterion):
    outcome = run_trial(Trial("fill_minus_1e9_then_zeroed", criterion, correct=True, profile="quick"))
    assert outcome.verdict == "pass", outcome.reason


def test_expected_killers_only_unless_deep():
    no_scale = defects()["no_scale"]
    planned = trials([no_scale], [], profile="quick", deep=False)
    assert [t.criterion for t in planned] == list(no_scale.killers)
    deep = trials([no_scale], [], profile="quick", deep=True)
    assert {t.criterion for t in deep} >= {c.id for c in load_spec().criteria if c.milestone == "M1"}


def test_a_variant_is_judged_by_the_properties_that_run_what_it_overrides(monkeypatch):
    """Where nothing is turned, a rotation that is written in another way is the reference."""
    asked = []

    def noted(trial, places=None):
        asked.append(places)
        return run_trial(trial, places)

    monkeypatch.setattr(selftest, "run_trial", noted)
    (outcome,) = selftest.run_group([Trial("rotary_by_rotate_half", "M7.12", True, "quick")])
    names = [p.name for p in load_properties()["M7.12"]]
    judged = {names[place] for place in asked[0]}
    assert "self_attention_equals_its_formula" in judged
    assert "without_positions_order_does_not_matter" in set(names) - judged
    assert (outcome.verdict, outcome.trial.name) == ("pass", "rotary_by_rotate_half")


def test_a_variant_that_is_refused_by_one_property_is_refused(monkeypatch):
    """A defect put among the variants: the properties that run what it overrides refuse it."""
    wrong = Variant("no_scale", "Wrong.", ("M1",), defects()["no_scale"].piece)
    monkeypatch.setattr(selftest, "variants", lambda: {"no_scale": wrong})
    (outcome,) = selftest.run_group([Trial("no_scale", "M1.10", True, "quick")])
    assert outcome.kills


def test_a_variant_meets_every_criterion_of_its_milestones():
    correct = variants()["fused_projections"]
    planned = trials([], [correct], profile="quick", deep=False)
    wanted = {c.id for c in load_spec().criteria if c.milestone in correct.milestones}
    assert {t.criterion for t in planned} == wanted
    assert all(t.correct for t in planned)


def outcome(name, criterion, verdict, *, correct=False, internal=False):
    return Outcome(Trial(name, criterion, correct, "quick"), verdict, "why", internal)


TWO = Defect("two", "Two killers.", ("M1.2", "M1.10"), Attention)
RIGHT = Variant("right", "All is well.", ("M1",), Attention)


def test_a_defect_is_dead_only_when_each_of_its_criteria_kills_it():
    half = summarise([outcome("two", "M1.2", "fail"), outcome("two", "M1.10", "pass")], [TWO], [])
    assert half["defects"][0]["verdict"] == "alive"
    assert half["defects"][0]["killed_by"] == ["M1.2"]
    whole = summarise([outcome("two", "M1.2", "fail"), outcome("two", "M1.10", "error")], [TWO], [])
    assert whole["defects"][0]["verdict"] == "killed"


def test_an_error_of_the_harness_kills_nothing_and_is_told():
    summary = summarise([outcome("two", "M1.2", "error", internal=True)], [TWO], [])
    assert summary["defects"][0]["verdict"] == "alive"
    assert summary["harness_errors"][0]["criterion"] == "M1.2"
    assert not passed(summary)


def test_a_refused_variant_and_a_criterion_that_kills_nothing_fail_the_trial():
    refused = summarise([outcome("right", "M1.2", "fail", correct=True)], [], [RIGHT])
    assert refused["variants"][0] | {"what": ""} == {
        "name": "right",
        "what": "",
        "verdict": "refused",
        "reason": "M1.2: why",
    }
    assert not passed(refused)
    idle = summarise([outcome("two", c, "fail") for c in TWO.killers], [TWO], [])
    assert "M1.3" in idle["criteria_without_kill"]
    assert not passed(idle)


def test_deep_trials_are_of_the_defects_own_milestone_and_leave_out_what_is_costly():
    late = killed_by("M6.1")[0]
    planned = {t.criterion for t in trials([late], [], profile="quick", deep=True)}
    own = {c.id for c in load_spec().criteria if c.milestone == late.milestone}
    assert costly_criteria() >= {"M5.4", "M6.5", "M6.6", "M9.28", "M10.10"}  # they train or time
    assert planned == (own - costly_criteria()) | set(late.killers)


def test_every_milestone_is_asked_for_kills_unless_one_is_chosen():
    outcomes = [outcome("two", c, "fail") for c in TWO.killers]
    idle = {id.partition(".")[0] for id in summarise(outcomes, [TWO], [])["criteria_without_kill"]}
    assert idle == set(MILESTONES)
    chosen = summarise(outcomes, [TWO], [], milestones=["M1"])["criteria_without_kill"]
    assert {id.partition(".")[0] for id in chosen} == {"M1"}


def test_a_criterion_without_a_property_or_a_defect_fails_the_trial(monkeypatch):
    properties = {id: found for id, found in load_properties().items() if id != "M6.2"}
    monkeypatch.setattr(selftest, "load_properties", lambda: properties)
    monkeypatch.setattr(selftest, "defects", lambda: {"two": TWO})
    summary = summarise([], [], [])
    assert summary["criteria_without_property"] == ["M6.2"]
    assert "M6.2" in summary["criteria_without_defect"]
    assert "M1.10" not in summary["criteria_without_defect"]
    nothing = {name: [] for name in MUST_BE_EMPTY} | {"defects": [], "variants": []}
    assert passed(nothing)
    for name in MUST_BE_EMPTY:
        assert not passed(nothing | {name: ["M6.2"]}), f"{name} is not looked at"


def test_what_this_machine_lacks_kills_nothing_and_is_not_asked_to(monkeypatch):
    three = Defect("three", "One killer needs torch.", ("M1.8", "M1.2"), Attention)
    seen = [outcome("three", "M1.8", "not run"), outcome("three", "M1.2", "fail")]
    summary = summarise(seen, [three], [])
    assert summary["defects"][0]["verdict"] == "killed"
    assert summary["defects"][0]["killed_by"] == ["M1.2"]
    assert "M1.8" not in summary["criteria_without_kill"]
    monkeypatch.setattr(selftest, "lacking", lambda needs: "no torch" if "torch" in needs else "")
    without = {c.id for c in load_spec().criteria if "torch" in c.needs}
    assert without
    assert not without & set(summarise([], [], [])["criteria_without_kill"])


def test_main_writes_the_report_and_returns_the_exit_code(tmp_path):
    code, summary = selftest.main(names=["pad_starts_late"], reports=tmp_path, workers=1)
    assert (tmp_path / "selftest.json").is_file()
    assert summary["defects"][0]["verdict"] == "killed"
    assert code == 0
    assert summary["criteria_without_kill"] == [], "a few defects say nothing about the other criteria"
