"""What the search among values of the reference finds beyond slips, and in which order it looks."""

from __future__ import annotations

import numpy as np
import pytest

from attest.boundary import JudgedImplementation
from attest.contract import Config
from attest.diagnosis.coarseness import coarseness
from attest.diagnosis.likeness import _candidates, diagnose, same_complaint
from attest.diagnosis.longhand import LONGHAND
from attest.diagnosis.nearness import level_of, nearness
from attest.diagnosis.others import sizes, with_others
from attest.diagnosis.sized import explanations
from attest.diagnosis.transforms import times
from attest.diagnosis.trial import failing_case
from attest.judging.catalogue import assemble
from attest.judging.property import load_properties
from attest.outcomes import Deviation, Violation
from attest.records.record import Record
from attest.reference import ops
from attest.reference.parts.attention import Attention
from attest.reference.parts.heads import MultiHead
from attest.reference.parts.layers import Layers
from attest.reference.parts.norms import RMSNorm
from attest.reference.tape import Var, leaf, node
from attest.reference.training.loss import Loss
from attest.reference.training.optimisation import Clipping
from attest.report.wording import measured_text
from attest.running import failure
from diagnosed import diagnosed


class LengthOverTheRoot(Clipping):
    """The norm is divided by the root of the number of arrays."""

    def global_norm(self, gradients):
        return super().global_norm(gradients) / len(gradients) ** 0.5


class ScoresInTenths(Attention):
    """Scores are rounded to tenths."""

    def scale(self, scores, q, k, where):
        scaled = super().scale(scores, q, k, where)
        return ops.elementwise(scaled, np.round(10 * scaled.value) / 10, np.ones_like(scaled.value))


class LargestForTheMean(RMSNorm):
    """The norm divides by the largest number."""

    def __call__(self, x, p):
        root = np.sqrt((x.value**2).max(axis=-1, keepdims=True) + self.config.norm_eps)
        return node(x.value / root * p["weight"].value, (x, p["weight"]), lambda g: (g, g))


class BiasForEachHead(MultiHead):
    """The bias of the output map is added once for each head."""

    def combine(self, concatenated, p):
        bias = p.get("output.bias")
        found = super().combine(concatenated, p)
        return found if bias is None else ops.add(found, ops.scale(bias, self.config.num_heads - 1.0))


class InputAddedAgain(Layers):
    """Each layer of the encoder adds what the stack was given."""

    def encoder(self, x, p, where):
        first, where = x, self.in_stack(p, where)
        for i in range(self.config.num_encoder_layers):
            x = ops.add(self.encoder_layer(x, self.layer_scope(p, i), where.but(layer=i)), first)
        return self.final_norm(x, p)


class SinglePrecision(Attention):
    """Scores go through float32."""

    def scores(self, q, k, where):
        found = super().scores(q, k, where)
        return Var(found.value.astype(np.float32).astype(np.float64), found.variance, found.eps)


@pytest.mark.parametrize(
    ("piece", "criterion", "place", "said"),
    [
        (LengthOverTheRoot, "M5.6a", "Clipping.global_norm", "1 / sqrt(len(gradients)) *"),
        (ScoresInTenths, "M1.2", "Attention.scale", "in multiples of 1/10"),
        (LargestForTheMean, "M9.1", "RMSNorm.__call__", "the square of the largest size of x"),
        (BiasForEachHead, "M2.2", "MultiHead.combine", "num_heads * p.get('output.bias')"),
        (InputAddedAgain, "M4.6", "Layers.encoder", "+ x as it was given"),
    ],
)
def test_what_is_no_slip_is_found_where_it_stands(piece, criterion, place, said):
    found = diagnosed(piece, criterion)

    told = [(edit.place, edit.after) for edit in found.edits]
    assert any(place == where and said in after for where, after in told), told


def test_what_stands_on_a_failure_is_diagnosed_without_a_search():
    impl = JudgedImplementation(assemble(ScoresInTenths, "stranger"))
    property = load_properties()["M1.2"][0]
    brief = diagnose(property, impl, failing_case(property, impl), seed=0, thorough=False)

    assert brief.edits == ()
    assert brief.compared > 0


def test_only_a_failure_that_was_seen_makes_another_one_second(monkeypatch):
    monkeypatch.setattr(failure, "_failed", {"mine": {"M1.2"}, "theirs": {"M4.1"}})

    def stands(name, criterion):
        return failure._stands_on_a_failure(Record(name, criterion, criterion.partition(".")[0], "must"))

    assert stands("mine", "M1.4a")  # it stands on M1.4, which stands on M1.2
    assert not stands("mine", "M1.2")
    assert not stands("theirs", "M1.4a")


def test_single_precision_inside_is_measured_and_nothing_is_named():
    found = diagnosed(SinglePrecision, "M1.2")

    assert found.found == ()
    assert any("as exact as single precision" in text for text in measured_text(found.measured))


def test_right_answers_are_not_coarse():
    assert coarseness([]) == ()


def test_methods_that_defects_of_the_criterion_override_come_first():
    near = nearness(_candidates("M5.6a"))

    assert level_of(near, Clipping, "global_norm") == 0
    assert near(Clipping, "global_norm") < near(Attention, "scale")
    assert level_of(nearness([]), Clipping, "global_norm") == 2


def test_a_constant_beside_a_power_takes_three_sizes():
    def solved(numbers):
        return [({"n": n}, number) for n, number in numbers]

    def said(numbers):
        return [text for text, _ in explanations(solved(numbers), times, "{1} * {0}")]

    assert said([(2, 6.0), (3, 9.0), (5, 15.0), (7, 21.0)]) == ["3 * n * {}"]
    assert said([(2, 6.0), (3, 9.0), (2, 6.0), (3, 9.0)]) == []
    assert said([(4, 2.0), (9, 3.0), (4, 2.0), (9, 3.0)]) == ["sqrt(n) * {}"]
    assert said([(2, 5.0), (3, 5.0), (4, 5.0), (5, 5.0)]) == []


def test_a_number_may_be_another_one_of_the_method_and_a_row_its_largest():
    x, scope = leaf(np.array([[1.0, -3.0]])), {"width": 7, "n": 2}
    numbers = {t.reads: t.apply(2, scope) for t in with_others(2, scope)}
    reduced = {t.reads: t for t in with_others(leaf([[0.0]]), {"x": x})}

    assert numbers == {"width": 7, "{}, at least width": 7, "{}, at most width": 2}
    assert sizes({"x": x}) == {"x.shape[-1]": 2, "x.shape[-2]": 1}
    assert reduced["the square of the largest size of x"].apply(leaf([[0.0]]), {"x": x}).value == [[9.0]]


def test_small_deviations_must_be_equal_and_not_only_small():
    def wrong(seen):
        return Violation(deviation=Deviation("output", (0,), seen, 2.0, 3.0, "the bound"))

    assert same_complaint(wrong(2.00001), wrong(2.00001))
    assert not same_complaint(wrong(2.00001), wrong(2.00002))


@pytest.mark.parametrize(
    ("operation", "options", "inputs"),
    [
        ("feed_forward", {"gated": True}, ("x",)),
        ("feed_forward", {"bias": False}, ("x",)),
        ("rms_norm", {}, ("x",)),
    ],
)
def test_parts_of_today_are_written_out_with_the_same_numbers(operation, options, inputs):
    config = Config(d_model=6, num_heads=2, d_ff=5, dtype="float64", **options)
    x = np.random.default_rng(1).normal(size=(2, 3, 6))
    plain = getattr(assemble(Attention, "plain"), operation)(config)
    for written in LONGHAND.values():
        other = getattr(assemble(written, "written"), operation)(config)
        other.load(plain.parameters())
        np.testing.assert_allclose(other(x=x)["output"], plain(x=x)["output"], rtol=1e-12)


@pytest.mark.parametrize("smoothing", [0.0, 0.3])
def test_the_loss_is_written_out_with_the_same_numbers(smoothing):
    config = Config(target_vocab=5, label_smoothing=smoothing, dtype="float64")
    logits = np.random.default_rng(2).normal(size=(2, 3, 5)) * 30
    labels = np.array([[1, 2, 0], [4, 4, 3]])
    plain, written = (assemble(kind, "loss").loss(config) for kind in (Loss, LONGHAND[Loss]))

    wanted = plain(logits=logits, labels=labels)["loss"]
    np.testing.assert_allclose(written(logits=logits, labels=labels)["loss"], wanted, rtol=1e-12)
