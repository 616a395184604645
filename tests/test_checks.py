"""The assertions of criteria: what they accept, and the sentence when they do not."""

from __future__ import annotations

import numpy as np
import pytest

from attest.boundary import JudgedImplementation, quiet
from attest.checks.arrays import (
    expect,
    expect_close,
    expect_finite,
    expect_gradients,
    expect_mask,
    expect_near,
    expect_refused,
    expect_refused_by_name,
    expect_same_bits,
    expect_shape,
    expect_zero,
)
from attest.contract import Gradients
from attest.evidence import collecting, note_case
from attest.judging.property import Property, run_property
from attest.outcomes import Expected, Violation
from attest.reference.implementation import ReferenceImplementation


@pytest.fixture(autouse=True)
def evidence():
    with collecting() as collected:
        yield collected


def sentence(check, *args, **kwargs):
    """What the check says; a failure of the test when it says nothing."""
    with pytest.raises(Violation) as caught:
        check(*args, **kwargs)
    return caught.value.seen


def test_expect():
    expect(True, "never seen")
    assert sentence(expect, False, "two heads attend alike") == "two heads attend alike"


def test_a_violation_gets_its_case_from_the_property_that_ran():
    def check(impl):
        note_case("B=1 T=2", "unit")
        expect(False, "no")

    failing = Property("M1.1", "check", check, {}, 1.0, True, ())
    with pytest.raises(Violation) as caught:
        run_property(failing, JudgedImplementation(ReferenceImplementation()), profile="quick", seed=0)
    assert (caught.value.case, caught.value.property) == ("B=1 T=2", "check")


def test_a_violation_can_be_made_without_a_run():
    assert Violation("no").case == ""


def test_expect_shape():
    expect_shape(np.zeros((2, 3)), (2, 3), "output")
    said = sentence(expect_shape, np.zeros((2, 3)), (3, 2), "output")
    assert said == "output has shape (2, 3), should be (3, 2)"


def test_expect_finite():
    expect_finite(np.ones(3), "output")
    x = np.array([[1.0, np.nan], [np.inf, 0.0]])
    assert sentence(expect_finite, x, "output") == "output[0, 1] is nan, should be finite (2 of 4 are not)"


def test_expect_close_says_where_and_how_far(evidence):
    wanted = Expected(np.array([[1.0, 2.0]]), np.array([[1e-3]]))
    expect_close(np.array([[1.0005, 2.0]]), wanted, "output")
    assert evidence.worst_ratio == pytest.approx(0.5)
    said = sentence(expect_close, np.array([[1.0, 2.004]]), wanted, "output")
    assert said == "output[0, 1] is 2.004, should be 2 (4 times the bound)"
    expect_close(np.array([[1.0, 2.004]]), wanted, "output", factor=5)


def test_expect_close_refuses_what_cannot_be_compared():
    wanted = Expected(np.zeros((1, 2)), np.ones((1, 1)))
    assert "has shape (2), should be (1, 2)" in sentence(expect_close, np.zeros(2), wanted, "output")
    assert "is nan, should be finite" in sentence(expect_close, np.full((1, 2), np.nan), wanted, "output")
    expect_close(np.zeros((0, 2)), Expected(np.zeros((0, 2)), np.ones((0, 1))), "output")


def test_the_ratio_of_a_failure_is_kept():
    with pytest.raises(Violation) as caught:
        expect_close(np.array([3.0]), Expected(np.array([1.0]), np.array([1.0])), "output")
    assert caught.value.ratio == pytest.approx(2.0)


def test_expect_near():
    expect_near(np.array([1.0]), np.array([1.00001]), 1e-4, "output")
    said = sentence(expect_near, np.array([1.0]), np.array([1.1]), 1e-2, "output")
    assert said == "output[0] is 1, should be 1.1 (10 times the tolerance 0.01)"
    expect_near(np.array([100.0]), np.array([101.0]), 0.0, "output", relative=0.1)


def test_expect_same_bits():
    expect_same_bits(np.array([1.0, np.nan, 0.0]), np.array([1.0, np.nan, -0.0]), "output")
    said = sentence(expect_same_bits, np.array([1.0, 2.5]), np.array([1.0, 2.0]), "output")
    assert said == "output[1] moved from 2 to 2.5"
    said = sentence(expect_same_bits, np.array([np.nan]), np.array([2.0]), "output")
    assert said == "output[0] moved from 2 to nan"


def test_expect_zero():
    expect_zero(np.array([0.0, -0.0]), "the weight of a hidden key")
    said = sentence(expect_zero, np.array([0.0, 1e-30]), "the weight of a hidden key")
    assert said == "the weight of a hidden key[1] is 1e-30, should be exactly 0"
    assert "is nan, should be exactly 0" in sentence(expect_zero, np.array([np.nan]), "a weight")


def test_expect_mask():
    mask = np.array([[True, False]])
    expect_mask(mask, mask.copy(), "length_mask")
    said = sentence(expect_mask, np.array([[True, True]]), mask, "length_mask")
    assert said == "length_mask[0, 1] is True, should be False"
    said = sentence(expect_mask, np.array([[1, 0]]), mask, "length_mask")
    assert said == "length_mask has dtype int64, should be bool"


def refuse(error):
    def call():
        raise error

    return call


def test_expect_refused():
    assert str(expect_refused(refuse(KeyError("k")), "no keys")) == "'k'"
    said = sentence(expect_refused, lambda: {"output": np.zeros((2, 3))}, "no keys")
    assert said == "no keys was accepted and gave output of shape (2, 3); should be refused with an exception"


def test_expect_refused_by_name():
    expect_refused_by_name(refuse(ValueError("k=(1, 2) is wrong")), "no keys", "k")
    said = sentence(expect_refused_by_name, refuse(RuntimeError("k")), "no keys", "k")
    assert said == "no keys raised RuntimeError, should be a ValueError"
    said = sentence(expect_refused_by_name, refuse(ValueError("mask is wrong")), "no keys", "k")
    assert said == "no keys raised ValueError('mask is wrong'), which should name k"


def test_a_name_is_a_whole_word():
    said = sentence(expect_refused_by_name, refuse(ValueError("16 and 31")), "heads", "3")
    assert said == "heads raised ValueError('16 and 31'), which should name 3"


def test_expect_gradients():
    wanted = {"q": Expected(np.ones(2), np.asarray(0.1)), "weight": Expected(np.ones(1), np.asarray(0.1))}
    right = Gradients({"q": np.ones(2)}, {"weight": np.ones(1)})
    expect_gradients(right, wanted)
    said = sentence(expect_gradients, Gradients({"q": np.ones(2)}, {}), wanted)
    assert said == "the gradient of weight is missing"
    expect_gradients(Gradients({"q": np.ones(2)}, {}), wanted, skip=("weight",))
    said = sentence(expect_gradients, Gradients({"q": np.array([1.0, 1.3])}, {"weight": np.ones(1)}), wanted)
    assert said == "the gradient of q[1] is 1.3, should be 1 (3 times the bound)"
    expect_gradients(Gradients({"q": np.array([1.0, 1.3])}, {"weight": np.ones(1)}), wanted, factor=4)


def test_quiet_keeps_prints_and_warnings_of_an_implementation_out(capsys):
    import warnings

    with quiet():
        print("hello")
        warnings.warn("careful", stacklevel=1)
        np.log(np.zeros(1))
    assert capsys.readouterr().out == ""
