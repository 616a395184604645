"""The oracle answers from memory what it was asked before, and nothing else."""

import numpy as np
import pytest

from attest.contract import Config
from attest.reference import memory
from attest.reference.memory import remember_answers
from attest.reference.oracle import bounded_gradients, expected

CONFIG = Config(d_model=4, num_heads=1)
X = np.random.default_rng(0).standard_normal((2, 3, 4)).astype(np.float32)
NORM = {"weight": np.ones(4, np.float32), "bias": np.zeros(4, np.float32)}


@pytest.fixture
def remembering():
    remember_answers(3)
    yield
    remember_answers(0)


def asked(x=X, config=CONFIG, parameters=NORM):
    return expected("layer_norm", config, parameters, {"x": x})["output"]


def test_an_ordinary_run_keeps_nothing():
    asked()
    assert not memory._answers


def test_the_same_question_is_computed_once(remembering):
    first = asked()
    assert asked(X.copy()).value is first.value
    np.testing.assert_array_equal(
        asked().value, expected.__wrapped__("layer_norm", CONFIG, NORM, {"x": X})["output"].value
    )


@pytest.mark.parametrize(
    "other",
    [
        {"x": np.nextafter(X, np.float32(9))},
        {"x": X.reshape(3, 2, 4)},
        {"x": X.astype(np.float64)},
        {"config": CONFIG.but(norm_eps=1e-3)},
        {"config": CONFIG.but(dtype="float64")},
        {"parameters": NORM | {"bias": np.ones(4, np.float32)}},
    ],
    ids=["a bit", "shape", "dtype", "field", "precision", "parameter"],
)
def test_another_question_is_another_answer(remembering, other):
    first = asked()
    assert asked(**other).value is not first.value


def test_gradients_and_outputs_are_not_confused(remembering):
    asked()
    cotangents = {"output": np.ones_like(X)}
    found = bounded_gradients("layer_norm", CONFIG, NORM, {"x": X}, cotangents)
    assert {"x", "weight", "bias"} == set(found)
    other = bounded_gradients("layer_norm", CONFIG, NORM, {"x": X}, {"output": 2 * np.ones_like(X)})
    assert other["x"].value is not found["x"].value


def test_a_property_cannot_change_what_the_next_trial_is_told(remembering):
    with pytest.raises(ValueError, match="read-only"):
        asked().value[0] = 1.0
    with pytest.raises(ValueError, match="read-only"):
        asked().bound[0] = 1.0


def test_the_oldest_answer_is_forgotten(remembering):
    first = asked()
    for shift in range(1, 4):
        asked(X + np.float32(shift))
    assert len(memory._answers) == 3
    assert asked().value is not first.value
