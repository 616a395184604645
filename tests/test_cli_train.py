"""`attest train`: what it prints, writes, refuses and returns."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

from attest.trained.models import read_model
from attest.trained.tasks import TRAINING
from quick_learner import KNOWS_AFTER

PLUGIN = """
import sys
sys.path.insert(0, {here!r})
from quick_learner import QuickLearner

def attest_implementations():
    return [QuickLearner("built.txt")]
"""


@pytest.fixture
def attest(attest, monkeypatch):
    """The command, in a directory that holds learner.py."""
    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    Path("learner.py").write_text(PLUGIN.format(here=str(Path(__file__).parent)))
    return attest


def test_a_model_is_trained_and_kept(attest):
    code, out, err = attest("train", "--impl", "learner.py", "--task", "reverse")
    assert code == 0, err
    assert re.match(
        r"quick_learner reverse: validation loss 0\.0100 \(below 0\.1 from step 75\), 100\.0 % exact, \d+ s\n"
        r"trained/quick_learner-reverse written; next: attest generate --checkpoint ",
        out,
    ), out
    kept = read_model(Path("trained/quick_learner-reverse"))
    assert (kept.implementation, kept.task, kept.config) == ("quick_learner", "reverse", TRAINING)
    assert kept.parameters["weight"][0, 0] == KNOWS_AFTER
    assert Path("trained/quick_learner-reverse/own.txt").read_text() == f"{KNOWS_AFTER}\n"


def test_progress_names_step_loss_rate_and_speed(attest):
    code, _, err = attest("train", "-i", "learner.py", "-t", "copy", "--steps", "100", "--out", "here")
    assert code == 0
    line = r"copy  step  100  loss 0\.020  validation 0\.010  rate 1\.00e-01  [\d,]+ tokens/s"
    assert re.search(line, err), err
    assert Path("here/model.json").is_file()


def test_a_loss_that_stays_high_is_exit_code_one(attest):
    code, out, _ = attest("train", "-i", "learner.py", "--steps", "10")
    assert code == 1
    assert "(not below 0.1)" in out


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (
            ["-i", "learner.py", "-t", "sorted"],
            "Error: task='sorted' is unknown; use one of copy, reverse, sort",
        ),
        (
            ["-i", "torch_nn"],
            "Error: torch_nn: trainer is not offered; only an implementation with",
        ),
        (["-i", "lerner.py"], "Error: --impl=lerner.py does not exist; check the path"),
    ],
)
def test_what_is_refused(attest, words, sentence):
    code, out, err = attest("train", *words)
    assert (code, out) == (2, "")
    assert err.startswith(sentence), err


def test_the_operations_go_by_epochs_and_end_with_tables_and_pictures(attest):
    code, out, err = attest(
        "train", "-i", "numpy_scratch", "-t", "operations", "--epochs", "1", "--out", "ops"
    )
    assert code == 1, err  # one epoch is not enough for 95 %
    assert re.match(r"epoch   1  loss \d\.\d{4}  validation +\d+\.\d % right  kept\n", err), err
    assert re.match(r"numpy_scratch operations: \d+\.\d % of 1000 test questions exact, epoch 1 of 1", out), (
        out
    )
    assert re.search(r"^SUM +125 +\d+\.\d % +\d+\.\d % \(\d\)$", out, re.M), out
    assert "wanted\\written     0" in out
    kept = {path.name for path in Path("ops").iterdir()}
    assert kept >= {"model.json", "parameters.npz", "evaluation.json", "curves.svg", "confusion.svg"}
    assert [path.name for path in Path().iterdir() if path.name.startswith(".training")] == []
    assert read_model(Path("ops")).task == "operations"
    code, out, _ = attest("generate", "-c", "ops", "FIRST 3 1 4", "--method", "greedy")
    assert code == 0
    assert out.startswith("input   FIRST 3 1 4\noutput  ")


def test_epochs_are_for_the_operations(attest):
    code, _, err = attest("train", "-i", "learner.py", "-t", "copy", "--epochs", "3")
    assert code == 2
    assert "epochs=3 is for the task operations; use --steps for copy" in err


def test_steps_are_not_for_the_operations(attest):
    code, out, err = attest("train", "--impl", "learner.py", "--task", "operations", "--steps", "5")
    assert (code, out) == (2, "")
    assert "steps=5 is not for the task operations; use --epochs" in err


@pytest.mark.parametrize("out", ["taken", "taken/below"])
@pytest.mark.parametrize("task", ["reverse", "operations"])
def test_a_place_that_cannot_be_written_is_refused_before_the_training(attest, task, out):
    Path("taken").write_text("a file")
    code, said, err = attest("train", "--impl", "learner.py", "--task", task, "--out", out)
    assert (code, said) == (2, "")
    assert err == f"Error: out='{out}' is not a directory; choose another\n"
    assert not Path("built.txt").exists()
    assert Path("taken").read_text() == "a file"


def test_a_training_that_is_ended_from_outside_leaves_nothing(tmp_path):
    words = [
        sys.executable,
        "-m",
        "attest.cli",
        "train",
        "-i",
        "numpy_scratch",
        "-t",
        "operations",
        "--out",
        "a/b",
    ]
    with subprocess.Popen(words, cwd=tmp_path, stderr=subprocess.PIPE, text=True) as running:
        assert running.stderr is not None
        assert running.stderr.readline().startswith("epoch   1")
        running.terminate()
        assert running.stderr.read().endswith("Error: stopped before the end; nothing was written\n")
    assert running.returncode == 2
    assert list((tmp_path / "a").iterdir()) == []
