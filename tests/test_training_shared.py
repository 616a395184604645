"""One training per run, shared between criteria and between processes; a failed one is shared too."""

import json
import re
import subprocess
import sys
from dataclasses import asdict
from pathlib import Path

import numpy as np
import pytest

from attest.boundary import JudgedImplementation
from attest.contract import ENCODER_DECODER
from attest.evidence import collecting
from attest.outcomes import Timeout, Violation
from attest.trained import training
from attest.trained.models import SavedModel, read_model
from attest.trained.tasks import TRAINING, Task
from quick_learner import KNOWS_AFTER, Explodes, QuickLearner


@pytest.fixture(autouse=True)
def evidence():
    with collecting() as collected:
        yield collected


@pytest.fixture
def log(tmp_path, monkeypatch):
    """Where trainers note that they were built; the run's directory is a fresh one."""
    monkeypatch.setattr(training, "_directory", tmp_path / "shared")
    log = tmp_path / "built.txt"
    log.touch()
    return log


def test_a_task_is_trained_once_and_read_back(log):
    impl = JudgedImplementation(QuickLearner(log))
    first = training.trained(impl, Task("reverse"))
    second = training.trained(JudgedImplementation(QuickLearner(log)), Task("reverse"))
    assert len(log.read_text().split()) == 1, "the second who asks should read what the first trained"
    assert first.step_below == second.step_below == KNOWS_AFTER
    assert first.exact == 1.0
    assert first.config == TRAINING
    assert first.losses[0] == (1, 2.0, 1e-3)
    assert len(first.losses) == KNOWS_AFTER, "training stops when held-out inputs come out right"
    assert first.validation == [(25, 1.0), (50, 1.0), (75, 0.01)]
    np.testing.assert_array_equal(second.parameters["weight"], first.parameters["weight"])
    assert second.losses == first.losses
    assert second.validation == first.validation


def test_each_task_and_each_dtype_has_a_model_of_its_own(log, monkeypatch):
    monkeypatch.setattr(training, "EXACT", 0.0)
    training.trained(JudgedImplementation(QuickLearner(log)), Task("reverse"))
    training.trained(JudgedImplementation(QuickLearner(log)), Task("copy"))
    training.trained(JudgedImplementation(QuickLearner(log), dtype="float64"), Task("reverse"))
    assert len(log.read_text().split()) == 3


def test_what_does_not_learn_goes_on_to_the_last_step(log, monkeypatch):
    monkeypatch.setattr(training, "EXACT", 2.0)
    impl = JudgedImplementation(QuickLearner(log))
    model = training.train(impl, Task("reverse"), steps=110)
    assert [step for step, _ in model.validation] == [25, 50, 75, 100, 110]
    assert len(model.losses) == 110


def test_a_failed_training_is_shared(log):
    for _ in range(2):
        with pytest.raises(Violation, match="the loss of step 10 is nan, should be finite"):
            training.trained(JudgedImplementation(Explodes(log)), Task("reverse"))
    assert len(log.read_text().split()) == 1, "a training that failed should not be tried again"


def test_a_training_that_takes_too_long_is_not_tried_again(log, monkeypatch):
    def hang(impl, task):
        raise Timeout("did not finish within 900 s")

    monkeypatch.setattr(training, "train", hang)
    with pytest.raises(Timeout):
        training.trained(JudgedImplementation(QuickLearner(log)), Task("reverse"))
    with pytest.raises(Violation, match="training on reverse did not finish within 900 s"):
        training.trained(JudgedImplementation(QuickLearner(log)), Task("reverse"))


def test_nothing_half_written_is_left(log):
    training.trained(JudgedImplementation(QuickLearner(log)), Task("reverse"))
    shared = training.shared_directory()
    (directory,) = (path for path in shared.iterdir() if path.is_dir())
    assert sorted(path.name for path in shared.iterdir()) == [directory.name, f"{directory.name}.lock"]
    assert sorted(path.name for path in directory.iterdir()) == ["model.json", "parameters.npz"]


def test_two_processes_train_once(log, tmp_path):
    script = (
        "import sys; sys.path.insert(0, sys.argv[1])\n"
        "from quick_learner import QuickLearner\n"
        "from attest.boundary import JudgedImplementation\n"
        "from attest.evidence import collecting\n"
        "from attest.trained import training\n"
        "from attest.trained.tasks import Task\n"
        "training.use_directory(sys.argv[2])\n"
        "with collecting():\n"
        "    impl = JudgedImplementation(QuickLearner(sys.argv[3]))\n"
        "    print(training.trained(impl, Task('reverse')).step_below)\n"
    )
    words = [sys.executable, "-c", script, str(Path(__file__).parent), str(tmp_path / "shared"), str(log)]
    running = [subprocess.Popen(words, stdout=subprocess.PIPE, text=True) for _ in range(2)]
    printed = [process.communicate(timeout=60)[0].strip() for process in running]
    assert printed == [str(KNOWS_AFTER)] * 2
    assert len(log.read_text().split()) == 1, "both processes trained"


def test_a_saved_model_reads_back(tmp_path):
    parameters = {"projection.weight": np.arange(6, dtype=np.float32).reshape(2, 3)}
    written = SavedModel(implementation="eager", task="reverse", config=TRAINING, parameters=parameters)
    written.write(tmp_path / "m")
    model = read_model(tmp_path / "m")
    assert (model.implementation, model.task, model.config) == ("eager", "reverse", TRAINING)
    np.testing.assert_array_equal(model.parameters["projection.weight"], parameters["projection.weight"])


def test_a_directory_without_a_model_is_refused(tmp_path):
    with pytest.raises(ValueError, match=r"holds no model\.json; write one with `attest train`"):
        read_model(tmp_path)
    (tmp_path / "model.json").write_text("{")
    with pytest.raises(ValueError, match="cannot be read"):
        read_model(tmp_path)


def test_a_model_that_a_run_trained_reads_back_as_a_checkpoint(log):
    found = training.trained(JudgedImplementation(QuickLearner(log)), Task("reverse"))
    (directory,) = (path for path in training.shared_directory().iterdir() if path.is_dir())
    model = read_model(directory)
    assert (model.implementation, model.task) == ("quick_learner", "reverse")
    assert model.history["step_below"] == found.step_below == KNOWS_AFTER


def test_a_model_from_before_histories_is_read(tmp_path):
    about = {"format": 1, "implementation": "eager", "task": "copy", "config": asdict(TRAINING)}
    (tmp_path / "model.json").write_text(json.dumps(about))
    np.savez(tmp_path / "parameters.npz", weight=np.ones(2))
    model = read_model(tmp_path)
    assert (model.task, model.config, model.architecture) == ("copy", TRAINING, ENCODER_DECODER)
    assert model.history == {}


@pytest.mark.parametrize(
    ("about", "sentence"),
    [
        ({"format": 2}, "model.json is not of format 1"),
        ({"format": 1, "error": "the loss is nan"}, "holds no model (the loss is nan); train again"),
        ({"format": 1, "implementation": "eager"}, "cannot be read"),
    ],
)
def test_a_model_that_cannot_be_read_is_refused_in_one_sentence(tmp_path, about, sentence):
    (tmp_path / "model.json").write_text(json.dumps(about))
    np.savez(tmp_path / "parameters.npz", weight=np.ones(2))
    with pytest.raises(ValueError, match=re.escape(sentence)) as refusal:
        read_model(tmp_path)
    assert "\n" not in str(refusal.value)
