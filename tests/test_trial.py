"""`attest trial`: which faults of a file are caught, which correct implementations pass, what is refused."""

import json
import os
import re
import select
import subprocess
import sys
import time
import tomllib
from dataclasses import replace
from pathlib import Path

import pytest

from attest import selftest
from attest.judging.catalogue import defects
from attest.spec import load_spec
from attest.trials.judgement import Judgement, Refusal
from attest.trials.presented import Asked, Presented, Tried, _at_seeds, steps
from attest.trials.processes import Ended, each_apart
from attest.trials.trial_table import document, lines
from attest.trials.unseen import in_order

ROOT = Path(__file__).parents[1]
PAGE = (ROOT / "docs" / "trial.md").read_text(encoding="utf-8")
FAULTS = re.search(r"^```python\n(# faults.py\n.*?)^```$", PAGE, re.M | re.S)[1]
COMMAND = re.search(r"^\$ (attest trial .*)$", PAGE, re.M)[1]
SHOWN = re.search(r"<!-- output of the trial -->\n```text\n(.*?)```", PAGE, re.S)[1]


def plugin(folder: Path, body: str) -> None:
    text = f"class One:\n    name = 'one'\n{body}\ndef attest_implementations():\n    return [One()]\n"
    (folder / "one.py").write_text(text)


def test_the_example_of_the_page_ends_as_the_page_says(tmp_path):
    (tmp_path / "faults.py").write_text(FAULTS)
    words = [str(Path(sys.executable).with_name("attest")), *COMMAND.split()[1:], "--json", "found.json"]
    run = subprocess.run(words, cwd=tmp_path, capture_output=True, text=True, check=False, timeout=300)
    assert run.returncode == 0, run.stdout + run.stderr
    assert [line.rstrip() for line in run.stdout.splitlines()] == SHOWN.splitlines()
    found = json.loads((tmp_path / "found.json").read_text())
    assert {row["name"]: row["verdict"] for row in found["implementations"]} == {
        "as_it_should_be": "passes",
        "divided_by_d": "caught",
        "future_seen": "caught",
    }
    assert [row["diagnosis"] for row in found["implementations"]] == ["", "right", ""]


def test_a_missed_fault_and_a_refused_correct_one_are_named_and_give_exit_code_1(attest, tmp_path):
    swapped = FAULTS.replace('"as_it_should_be", correct=True', '"as_it_should_be", fault="It has none."')
    swapped = swapped.replace('"future_seen", fault', '"future_seen", correct=True, fault')
    swapped = swapped.replace(', looks_like="scale_by_dk"', "")  # a diagnosis takes longer than the rest
    (tmp_path / "swapped.py").write_text(swapped)
    code, out, _ = attest("trial", "swapped.py", "-c", "M1.2", "--profile", "quick", "-n", "1")
    assert code == 1
    assert "missed as_it_should_be: It has none." in out
    assert "refused future_seen: M1.2 saw: " in out
    assert "faulty: 1 of 2 caught (50%), 1 by a must" in out
    assert "correct: 0 of 1 pass" in out


@pytest.mark.parametrize(
    ("body", "words", "sentence"),
    [
        ("    pass", [], "one.py: one does not say correct = True or correct = False; add one"),
        (
            "    correct = False\n    looks_like = 'no_scal'",
            [],
            "one.looks_like has 'no_scal', which is unknown",
        ),
        ("    correct = False\n    milestones = 'M99'", [], "one.milestones has 'M99', which is unknown"),
        ("    correct = True", [], "no criterion that was asked for concerns one"),
        ("    correct = True", ["--name", "two"], "name='two' is not in the file; use one of one"),
        ("    correct = True", ["-c", "M1.99"], "criterion='M1.99' is unknown"),
        ("    import os; os._exit(3)", [], "one.py: reading it ended the process with exit code 3"),
    ],
)
def test_a_file_that_cannot_be_tried_gets_one_sentence(attest, tmp_path, body, words, sentence):
    plugin(tmp_path, body)
    code, out, err = attest("trial", "one.py", *words)
    assert (code, out) == (2, "")
    assert sentence in err
    assert len(err.splitlines()) == 1


def test_a_file_that_is_not_there_is_refused(attest):
    assert attest("trial", "none.py")[::2] == (2, "Error: --impl=none.py does not exist; check the path\n")


def tried(name, correct, *refusals, said="", named=(), **kwargs):
    who = Presented("f.py", name, correct, **kwargs)
    return Tried(who, Judgement(refusals, ("M1.2",), "quick"), said, named)


def test_the_verdict_of_a_trial_follows_from_who_refused():
    must = Refusal("M1.2", "must", "quick", "fail", "off")
    should = Refusal("M1.4a", "should", "quick", "fail", "off")
    assert tried("a", False, should, must).verdict == "caught"
    assert tried("a", False, should, must).judgement.first is must
    assert tried("a", False, should).verdict == "only should"
    assert tried("a", False).verdict == "missed"
    assert tried("a", True, should).verdict == "passes"
    assert tried("a", True, must).verdict == "refused"
    table = list(lines([tried("a", False, should), tried("b", True)]))
    assert table[-2:] == ["faulty: 1 of 1 caught (100%), 0 by a must", "correct: 1 of 1 pass"]


@pytest.mark.parametrize(
    ("said", "named", "worth"),
    [
        ("one", ("scale_by_dk",), "right"),
        ("one or the other", ("no_scale", "mask_ignored"), "near"),
        ("another", ("mask_ignored",), "wrong"),
        ("none of 40 known defects", (), "none"),
        ("", (), ""),
    ],
)
def test_the_diagnosis_is_held_against_the_names_of_the_file(said, named, worth):
    one = tried("a", False, said=said, named=named, looks_like=("scale_by_dk",), near=("no_scale",))
    assert one.diagnosis == worth
    assert document([one], seeds=(0,), profile="quick")["implementations"][0]["diagnosis"] == worth


def test_the_criteria_are_those_of_what_is_offered_quick_before_standard():
    who = Presented("f.py", "a", False, offers=("attention", "trainer", "transformer"))
    planned = list(steps(who, Asked()))
    assert {s.criterion.partition(".")[0] for s in planned} == {"M1", "M5", "M6", "MC"}
    assert not {"M5.4", "M6.5", "M6.6", "M1.1"} & {s.criterion for s in planned}
    assert [s.profile for s in planned] == sorted(s.profile for s in planned)
    narrow = Presented("f.py", "a", False, operations=("trainer",), offers=who.offers)
    ids = {s.criterion for s in steps(narrow, Asked(profile="quick"))}
    assert {"M5.6", "MC.1"} <= ids
    assert not {"M5.1", "M1.2"} & ids
    single = Presented("f.py", "a", False, criteria=("M5.6", "M6.3"), offers=who.offers)
    assert [s.criterion for s in steps(single, Asked(profile="quick"))] == ["M5.6", "M6.3"]
    assert "M5.4" in {s.criterion for s in steps(narrow, Asked(costly=True))}
    assert {s.profile for s in steps(replace(who, correct=True), Asked())} == {"standard"}


def square_or_die(number: int) -> int:
    if number == 3:
        os._exit(5)
    if number == 4:
        raise ValueError("four")
    return number * number


def test_a_process_that_dies_costs_only_its_own_job():
    found = dict(each_apart(square_or_die, [1, 2, 3, 4, 5], workers=2))
    assert found == {
        1: 1,
        2: 4,
        3: Ended("ended the process with exit code 5"),
        4: Ended("raised ValueError: four"),
        5: 25,
    }


def hold(path: str) -> None:
    with open(path, "wb", buffering=0) as held:
        held.write(b".")
        time.sleep(600)


def hold_in_a_trial(path: str) -> None:
    list(each_apart(hold, [path], workers=1))


def hold_in_the_self_test(path: str) -> None:
    with selftest._runner(2) as run:
        list(run(hold, [path]))


@pytest.mark.parametrize("holding", [hold_in_a_trial, hold_in_the_self_test])
def test_a_job_ends_when_whoever_asked_for_it_is_killed(tmp_path, holding):
    path = str(tmp_path / "held")
    os.mkfifo(path)
    reader = os.open(path, os.O_RDONLY | os.O_NONBLOCK)
    text = f"import test_trial as t; t.{holding.__name__}({path!r})"
    # PYTHONPATH, since PYTHONSAFEPATH may be set: a command that another test ran in this process does that.
    caller = subprocess.Popen(
        [sys.executable, "-c", text], env={**os.environ, "PYTHONPATH": str(ROOT / "tests")}
    )
    assert select.select([reader], [], [], 120)[0], "the job did not begin"
    assert os.read(reader, 1) == b"."
    caller.kill()
    caller.wait()
    assert select.select([reader], [], [], 60)[0], "the job still runs a minute later"
    assert os.read(reader, 1) == b""
    os.close(reader)


def test_a_correct_one_is_judged_at_every_seed_and_stops_at_the_first_that_refuses(monkeypatch):
    asked_at = []

    def judged(implementation, steps, *, seed, everything):
        asked_at.append(seed)
        refused = (Refusal("M1.2", "must", "quick", "fail", "off"),) if seed == 4 else ()
        return Judgement(refused)

    monkeypatch.setattr("attest.trials.presented.judgement", judged)
    monkeypatch.setattr("attest.trials.presented.steps", lambda who, asked: ())
    right = Presented("file.py", "right", correct=True)
    tried = _at_seeds(None, right, Asked(seeds=(3, 4, 5)))
    assert (tried.verdict, tried.seed, asked_at) == ("refused", 4, [3, 4])
    assert "refused right with seed 4: M1.2 saw: off" in list(lines([tried]))
    assert _at_seeds(None, right, Asked(seeds=(5, 6))).verdict == "passes"


def test_seeds_that_are_no_range_are_refused(attest, tmp_path):
    plugin(tmp_path, "    correct = True\n    def attention(self, config): pass\n")
    code, _, said = attest("trial", "one.py", "--seeds", "5")
    assert code == 2
    assert "seeds='5' is no range; write for example 0..9" in said


def test_criteria_are_asked_after_what_they_stand_on():
    ordered = in_order()
    by_id = load_spec().by_id
    place = {id: i for i, id in enumerate(ordered)}
    assert len(ordered) > 100
    assert all(place[below] < place[id] for id in ordered for below in by_id[id].stands_on if below in place)


def test_the_kept_labels_of_unseen_faults_name_known_things():
    rows = tomllib.loads((Path(__file__).parent / "unseen" / "eager.toml").read_text())["fault"]
    assert len(rows) == 56
    assert {c for row in rows for c in row["cause"]} <= set(load_spec().by_id)
    assert {n for row in rows for key in ("right", "near") for n in row.get(key, ())} <= set(defects())
