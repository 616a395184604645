"""What is said of a changed value and of lines that only wrong answers run, and when nothing is."""

from __future__ import annotations

import ast
import math
from dataclasses import asdict

import numpy as np
import pytest

from attest.contract import Config
from attest.diagnosis.further_slips import further
from attest.diagnosis.hooks import places
from attest.diagnosis.others import with_others
from attest.diagnosis.transforms import disturbed, kind_of, transforms_of
from attest.records.failure import Confined, Edited, Failure, Measured
from attest.reference import ops
from attest.reference.parts.attention import Attention
from attest.reference.parts.masks import Masks
from attest.reference.tape import gradients, leaf
from attest.reference.training.optimisation import Schedule
from attest.report.wording import edit_text, measured_text
from attest.trials.presented import Said, _confined_to
from attest.trials.sources import Package
from attest.trials.unseen import Diagnosed, Fault
from diagnosed import diagnosed


class AddedToTheDivisor(Attention):
    """Scores are divided by sqrt(d) + 0.3."""

    def scale(self, scores, q, k, where):
        return ops.scale(scores, 1.0 / (math.sqrt(q.shape[-1]) + 0.3))


class NeverBelow(Attention):
    """The divisor is 1.8 at least."""

    def scale(self, scores, q, k, where):
        return ops.scale(scores, 1.0 / max(math.sqrt(q.shape[-1]), 1.8))


class TanhOfScores(Attention):
    """A tanh between the scale and the softmax."""

    def scale(self, scores, q, k, where):
        scaled = super().scale(scores, q, k, where)
        bent = np.tanh(scaled.value)
        return ops.elementwise(scaled, bent, 1 - bent * bent)


class LastTwoHidden(Masks):
    """The last two keys are hidden from every query."""

    def causal_allowed(self, T, S):
        return super().causal_allowed(T, S) & (np.arange(S) < S - 2)


class CubedScores(Attention):
    """Something that no list of changes has."""

    def scale(self, scores, q, k, where):
        scaled = super().scale(scores, q, k, where)
        return ops.elementwise(scaled, scaled.value**3, 3 * scaled.value**2)


class EarlyFloor(Schedule):
    """The cosine ends at two thirds of its way."""

    def cosine_rate(self, step):
        c = self.config
        if step <= c.warmup:
            return c.peak_rate * step / c.warmup
        done = min((step - c.warmup) / max(c.total_steps - c.warmup, 1), 0.66)
        return c.floor_rate + (c.peak_rate - c.floor_rate) * (1.0 + math.cos(math.pi * done)) ** 1.5 / 2.0


class Wavering(Schedule):
    """Both schedules waver, so that no branch is the place."""

    def __call__(self, step):
        return super().__call__(step) * (1 + 0.1 * math.sin(step))


class ArctanForTanh(Attention):
    """The cap bends otherwise."""

    def capped(self, scores):
        cap = self.config.score_cap
        if cap is None:
            return scores
        return ops.elementwise(
            scores, cap * np.arctan(scores.value / cap), 1 / (1 + (scores.value / cap) ** 2)
        )


class Twisted(Attention):
    """Weights are wrong with a cap and without one."""

    def weights_from(self, scores, allowed, where):
        weights = super().weights_from(scores, allowed, where)
        return ops.mul(weights, 1 + 0.01 * np.sin(np.arange(weights.shape[-1])))


@pytest.mark.parametrize(
    ("piece", "criterion", "place", "said"),
    [
        (AddedToTheDivisor, "M1.2", "Attention.scale", "math.sqrt(q.shape[-1]) + 0.3"),
        (NeverBelow, "M1.2", "Attention.scale", "at most 0.55556"),
        (TanhOfScores, "M1.2", "Attention.scale", "tanh of"),
        (LastTwoHidden, "M1.5a", "Masks.causal_allowed", "without the last 2 keys"),
    ],
)
def test_a_changed_value_is_named_where_it_stands(piece, criterion, place, said):
    found = diagnosed(piece, criterion)

    assert place in [edit.place for edit in found.edits]
    assert said in next(edit.after for edit in found.edits if edit.place == place)


def test_a_change_that_is_in_no_list_is_not_named():
    found = diagnosed(CubedScores, "M1.2")

    assert found.edits == ()
    assert found.measured.confined is None
    assert found.measured.condition is None


def test_lines_that_only_wrong_answers_run_are_named():
    found = diagnosed(EarlyFloor, "M5.5")

    assert found.measured.confined is not None
    assert found.measured.confined.places == ("Schedule.cosine_rate",)
    # Rates behind the end are one number many times: a change that gives it is no explanation in part.
    assert found.edits == ()


def test_nothing_is_confined_where_wrong_answers_run_what_right_ones_run():
    assert diagnosed(Wavering, "M5.5").measured.confined is None


def test_a_setting_without_which_the_case_is_right_is_found_by_asking():
    measured = diagnosed(ArctanForTanh, "M8.15").measured

    assert measured.condition is not None
    assert measured.condition.settings == ("score_cap",)
    assert measured.confined is not None
    assert measured.confined.places == ("Attention.capped",)


def test_a_setting_is_not_blamed_where_the_case_is_wrong_without_it():
    measured = diagnosed(Twisted, "M8.15").measured

    assert measured.condition is None
    assert measured.confined is None


@pytest.mark.parametrize("text", ["ops.add(f(a), b)", "ops.scale(x, 2.0)", "sin(x)", "g(f(x, s), t)"])
def test_every_slip_is_python_that_compiles(text):
    slips = list(further(ast.parse(text, mode="eval").body))

    assert slips
    for _, new in slips:
        compile(ast.fix_missing_locations(ast.Expression(new)), "slip", "eval")


def test_values_are_found_and_calls_targets_and_names_of_parts_are_not():
    function = ast.parse("def f(self, x):\n    y = self.parts.norm(x + 1, p)\n    return y[0]\n").body[0]

    assert [ast.unparse(node) for *_, node in places(function)] == [
        "self.parts.norm(x + 1, p)",
        "y[0]",
        "x + 1",
        "x",
        "1",
    ]


def test_the_gradient_of_every_function_of_a_tensor_is_its_slope():
    rng = np.random.default_rng(1)
    value, direction = rng.normal(size=(2, 3, 4)), rng.normal(size=(2, 3, 4))
    for transform in transforms_of(leaf(value), {}):
        # What is rounded passes gradients on as if it were not.
        if any(
            words in transform.reads
            for words in ("without its gradient", "whole numbers", "multiples", "bits")
        ):
            continue
        x = leaf(value, gradient=True)
        y = transform.apply(x, {})
        weights = rng.normal(size=y.shape)
        [found] = gradients([(y, weights)], [x])
        ahead, behind = (transform.apply(leaf(value + e * direction), {}).value for e in (1e-6, -1e-6))
        slope = float((weights * (ahead - behind)).sum()) / 2e-6
        assert float((found * direction).sum()) == pytest.approx(slope, rel=1e-4, abs=1e-5), transform.reads


def test_what_is_no_value_is_left_alone():
    assert [kind_of(x) for x in (leaf([1.0]), 2, 2.5, np.ones(2, bool), np.arange(2))] == [
        "tensor",
        "number",
        "number",
        "mask",
        "ids",
    ]
    assert [kind_of(x) for x in (None, True, "word", Config(), (1, 2))] == [""] * 5
    assert disturbed(3) == 4


def test_a_name_of_another_tensor_may_stand_in_place_of_one():
    x, other = leaf(np.ones((2, 3))), leaf(np.full((2, 3), 5.0))
    said = {t.reads: t for t in with_others(x, {"other": other, "small": leaf(np.ones(3)), "n": 3})}

    assert said["other"].apply(x, {"other": other}) is other
    assert "{} + small" in said
    assert "small" not in said
    assert "n" not in said


def test_the_sentences_say_what_was_left_out_and_where_wrong_answers_go():
    edit = Edited("Attention.scale", "x", "2 * x", 20, left_out=16)
    confined = Confined(("Attention.capped", "Masks.near"), 4, 9)

    assert edit_text(edit).endswith(
        "(agrees on 20 of 20 cases, and 16 were left out, where an answer is no number)"
    )
    assert list(measured_text(Measured(confined=confined))) == [
        "lines of Attention.capped and Masks.near run in each of 4 wrong answers and in none of 9 right ones"
    ]
    failure = Failure("", "", "", edits=(edit,), measured=Measured(confined=confined))
    assert Failure.from_data(asdict(failure)) == failure


def test_one_confined_method_counts_as_a_place_and_several_as_their_classes():
    fault = Fault(Package("", None, ()), None, "", ("", ""), ("M1.2",), part=("Masks.near",))

    def worth(places):
        return Diagnosed(fault, "M1.2", said=Said("", places=_confined_to(Confined(places, 4, 9)))).worth

    assert worth(("Masks.near",)) == "right"
    assert worth(("Masks.near", "Attention.mix")) == "near"
    assert worth(("Attention.mix",)) == "wrong"
