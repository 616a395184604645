"""Where no known defect fits: changes of the reference, and what is measured of the wrong answers."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from attest.boundary import JudgedImplementation
from attest.diagnosis.conditions import FEWEST
from attest.diagnosis.edits import edits
from attest.diagnosis.executed import executed, may_matter, overridden
from attest.diagnosis.longhand import LONGHAND
from attest.diagnosis.nearness import nearness
from attest.diagnosis.traces import traces_of
from attest.diagnosis.trial import failing_case
from attest.judging.catalogue import assemble, defects
from attest.judging.property import load_properties
from attest.records.failure import Condition, Deviant, Edited, Failure, Measured, Spread
from attest.reference import ops
from attest.reference.parts.attention import Attention
from attest.reference.training.optimisation import Schedule
from attest.registry import UsageError
from attest.report.wording import looks_like, measured_text
from attest.trials.presented import Said
from attest.trials.sources import package_of
from attest.trials.unseen import Diagnosed, Fault, read_faults
from diagnosed import diagnosed


class OtherExponent(Schedule):
    """The warm-up rises by step / warmup."""

    def inverse_sqrt_rate(self, step):
        warmup = self.config.warmup
        return self.config.d_model**-0.5 * min(step**-0.5, step / warmup if warmup else np.inf)


class StepForItsRoot(Schedule):
    """After the warm-up the rate falls with the step itself."""

    def inverse_sqrt_rate(self, step):
        rising = step * self.config.warmup**-1.5 if self.config.warmup else np.inf
        return float(self.config.d_model**-0.5 * min(step**-1.0, rising))


class LighterWeights(Attention):
    """Weights that sum to 0.93."""

    def weights_from(self, scores, allowed, where):
        return ops.scale(super().weights_from(scores, allowed, where), 0.93)


def test_a_slip_that_no_defect_has_is_found_in_the_method_where_it_would_stand():
    found = diagnosed(StepForItsRoot, "M5.5")

    assert [edit.place for edit in found.edits] == ["Schedule.inverse_sqrt_rate"]
    assert found.edits[0].confidence == "high"
    assert found.measured.condition is not None
    assert found.measured.condition.settings == ("schedule",)


def test_a_factor_that_the_root_of_a_setting_explains_is_stated():
    """Every wrong rate is asked at the first step, and there the two formulas differ by this factor."""
    found = diagnosed(OtherExponent, "M5.5")

    (edit,) = found.edits
    assert edit.after == f"sqrt(warmup) * {edit.before}"
    assert edit.place.startswith("Schedule.")
    assert not found.notable
    assert found.compared > 0


def test_a_factor_is_measured():
    found = diagnosed(LighterWeights, "M1.2")

    factors = {relation.value for relation in found.measured.relations if relation.relation == "factor"}
    assert factors == {"0.93"}
    assert ("Attention.weights_from", "0.93 * ops.softmax(scores, allowed)") in [
        (edit.place, edit.after) for edit in found.edits
    ]


def test_a_defect_that_changes_nothing_that_runs_is_not_compared():
    (property, *_) = load_properties()["M1.2"]
    impl = JudgedImplementation(assemble(LighterWeights, "stranger"))
    traces = traces_of(property, impl, failing_case(property, impl), seed=0)
    seen = executed(traces[:2])

    assert all(trace.tells for trace in traces[:1])
    assert may_matter(defects()["no_scale"].piece, seen)
    assert not may_matter(defects()["wrong_exponent"].piece, seen)
    assert {edit.place.partition(".")[0] for edit in edits(seen, nearness([]))} >= {"Attention", "Masks"}
    assert "Attention.scale" in overridden(defects()["no_scale"].piece)


@pytest.mark.parametrize("causal", [False, True])
def test_what_is_written_out_gives_the_same_numbers_and_gradients(causal):
    rng = np.random.default_rng(0)
    q, k, v = (rng.normal(size=(2, 4, 3)) for _ in range(3))
    mask = np.array([[[True, False, True, True]], [[False] * 4]])
    plain = _attention(assemble(Attention, "plain"), q, k, v, mask, causal)
    written = _attention(assemble(LONGHAND[Attention], "written"), q, k, v, mask, causal)

    for one, other in zip(plain, written, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-12, atol=1e-14)


def _attention(impl, q, k, v, mask, causal):
    from attest.contract import Config

    component = impl.attention(Config(dtype="float64"))
    outputs = component(q=q, k=k, v=v, mask=mask, causal=causal)
    found = component.gradients(
        {"q": q, "k": k, "v": v, "mask": mask, "causal": causal}, {"output": np.ones_like(outputs["output"])}
    )
    return [*outputs.values(), *(found.inputs[name] for name in "qkv")]


@pytest.mark.parametrize("norm", ["pre", "post"])
def test_layers_are_written_out_with_the_same_numbers(norm):
    from attest.contract import Config

    config = Config(d_model=6, num_heads=2, d_ff=5, norm=norm, dtype="float64")
    x = np.random.default_rng(1).normal(size=(2, 3, 6))
    plain = assemble(Attention, "plain").encoder_layer(config)
    for written in LONGHAND.values():
        other = assemble(written, "written").encoder_layer(config)
        other.load(plain.parameters())
        np.testing.assert_allclose(other(x=x)["output"], plain(x=x)["output"], rtol=1e-12)
        mine, right = (c.gradients({"x": x}, {"output": x}) for c in (other, plain))
        for name, value in right.parameters.items():
            np.testing.assert_allclose(mine.parameters[name], value, rtol=1e-9, atol=1e-12)


def test_the_report_says_what_was_measured():
    measured = Measured(
        Condition(("norm",), "norm='pre'", 12, 20, 0),
        (Deviant("factor", "['output']", "0.5", 12), Deviant("zero", ".parameters['key.bias']", "", 1)),
        Spread(("['tokens']",), ("['scores']",), 12),
    )

    assert list(measured_text(measured)) == [
        "wrong only where norm='pre': 12 wrong answers, all 20 other answers are right",
        "output is 0.5 times the right one in each of 12 wrong answers",
        "parameters key.bias is zero in the only wrong answer",
        "wrong is tokens, while scores is right in each of 12 wrong answers",
    ]
    failure = Failure("", "", "", compared=3, edits=(Edited("Ranking.score", "a / b", "a", 2),))
    assert looks_like(failure) == (
        "the reference with `a` in place of `a / b` in Ranking.score "
        "(agrees on 2 of 2 cases, too few to be sure)"
    )


def test_what_was_measured_survives_the_records():
    from dataclasses import asdict

    measured = Measured(Condition(("T", "S"), "T above S", 4, 9, 0), (Deviant("offset", "", "1", 5),), None)
    failure = Failure("seen", "case", "property", edits=(Edited("A.b", "x", "y", 7),), measured=measured)

    assert Failure.from_data(asdict(failure)) == failure


FAULT = Fault(
    package_of("eager"), Path("model.py"), "", ("a", "b"), ("M1.2",), ("no_scale",), (), ("Attention.scale",),
    ("norm",), ("factor",),
)  # fmt: skip


@pytest.mark.parametrize(
    ("said", "worth"),
    [
        (Said(), "none"),
        (Said(names=("no_scale",)), "right"),
        (Said(names=("scale_by_dk",)), "near"),  # it overrides the same method
        (Said(names=("wrong_exponent",)), "wrong"),
        (Said(places=("Attention.scale",)), "right"),
        (Said(places=("Attention.mix",)), "near"),
        (Said(places=("Masks.allowed",)), "wrong"),
        (Said(condition=Condition(("norm",), "", FEWEST, 9)), "near"),
        (Said(condition=Condition(("dropout",), "", FEWEST, 9)), "wrong"),
        (Said(condition=Condition(("T",), "", FEWEST, 9)), "none"),
        (Said(relations=(Deviant("factor", "", "2", 4),)), "near"),
        (Said(relations=(Deviant("offset", "", "2", 4),)), "none"),
    ],
)
def test_what_is_said_is_scored_by_the_label(said, worth):
    assert Diagnosed(FAULT, "M1.2", "", said).worth == worth


@pytest.mark.parametrize("name", ["eager.toml", "field.toml"])
def test_every_fault_is_found_in_the_source(name):
    assert len(read_faults("eager", Path(__file__).parent / "unseen" / name, None)) > 40


def test_a_fault_whose_text_is_gone_is_an_error(tmp_path):
    path = tmp_path / "faults.toml"
    path.write_text('[[fault]]\nfault = "x"\nfile = "model.py"\nold = "not there"\nnew = "y"\n')

    with pytest.raises(UsageError, match="write what stands there now"):
        read_faults("eager", path, None)
