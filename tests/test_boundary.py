"""A plugin that misbehaves at the boundary costs itself a verdict and one clear sentence, nothing else."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from attest.boundary import JudgedImplementation, aligned, fresh
from attest.boundary.training import REPORTED, _numbers
from attest.contract import Config
from attest.judging.property import load_properties
from attest.outcomes import Violation
from attest.reference.implementation import ReferenceImplementation
from attest.running.judging import Settings, judge
from attest.spec import load_spec

REFERENCE = ReferenceImplementation()


class Wrapped:
    """The reference's attention with its call replaced."""

    def __init__(self, config, call):
        self.inner, self.call = REFERENCE.attention(config), call

    def __call__(self, **inputs):
        return self.call(self.inner, inputs)


def implementation(call, **declared):
    """One whose attention answers by `call(right, inputs)`."""
    kind = type("Stranger", (), {"attention": lambda self, config: Wrapped(config, call), **declared})
    made = kind()
    made.name = "stranger"
    return made


def judged(made, criterion="M1.2", **settings):
    spec = load_spec()
    settings = Settings(profile="quick", **settings)
    properties = [replace(p, shrinks=False) for p in load_properties()[criterion]]
    return judge(spec.by_id[criterion], properties, JudgedImplementation(made), settings)


def raises(right, inputs):
    raise TypeError("unsupported operand\nfor @")


def as_torch(right, inputs):
    torch = pytest.importorskip("torch")
    return {n: torch.tensor(x) for n, x in right(**inputs).items()}


def half(right, inputs):
    return {n: x.astype(np.float16) for n, x in right(**inputs).items()}


def nan(right, inputs):
    return {n: np.full_like(x, np.nan) for n, x in right(**inputs).items()}


def transposed(right, inputs):
    return {n: np.concatenate([x, x], -1) for n, x in right(**inputs).items()}


class Unseen:
    """Python raises where the class is looked up, and no line of a plugin is in the traceback."""

    __class__ = property(int)


class UnseenMapping(dict):
    __class__ = property(int)


class NoName(type):
    __name__ = property(int)


class Nameless(Exception, metaclass=NoName):
    pass


def raises_nameless(right, inputs):
    raise Nameless("odd")


BAD = {
    "raises what has no name": (raises_nameless, "attention raised Nameless: odd"),
    "no class": (lambda right, inputs: Unseen(), "reading what attention returned raised TypeError: int()"),
    "a mapping of no class": (
        lambda right, inputs: UnseenMapping(right(**inputs)),
        "reading what attention returned raised TypeError: int()",
    ),
    "an array of no class": (
        lambda right, inputs: {"output": Unseen()},
        "reading what attention returned raised TypeError: int()",
    ),
    "raises": (raises, "attention raised TypeError: unsupported operand for @"),
    "a list": (
        lambda right, inputs: [right(**inputs)["output"]],
        "attention returned a list; return a mapping",
    ),
    "None": (lambda right, inputs: None, "attention returned None; return a mapping"),
    "a bare array": (
        lambda right, inputs: right(**inputs)["output"],
        "returned a numpy.ndarray; return a mapping",
    ),
    "lists inside": (
        lambda right, inputs: {"output": right(**inputs)["output"].tolist()},
        "attention['output'] is a list; return a numpy array",
    ),
    "a torch tensor": (as_torch, "attention['output'] is a torch.Tensor; return a numpy array"),
    "float16": (half, "attention['output'] has dtype float16; return float32 or float64"),
    "objects": (
        lambda right, inputs: {"output": right(**inputs)["output"].astype(object)},
        "attention['output'] has dtype object; return an array of numbers",
    ),
    "no output": (
        lambda right, inputs: {"result": right(**inputs)["output"]},
        "returned result; return output too",
    ),
    "wrong shape": (transposed, "should be ("),
    "NaN": (nan, "is nan, should be finite"),
}


@pytest.mark.parametrize("what", BAD)
def test_a_bad_return_fails_in_one_sentence(what):
    call, said = BAD[what]
    record = judged(implementation(call))
    assert record.verdict == "fail"
    assert not record.internal
    assert said in record.reason
    assert "\n" not in record.reason


@pytest.mark.parametrize("what", BAD)
def test_no_criterion_of_attention_blames_the_harness(what):
    made = implementation(BAD[what][0])
    for criterion in load_spec().criteria:
        if criterion.milestone == "M1" and "attention" in criterion.needs:
            record = judged(made, criterion.id)
            assert not record.internal, f"{criterion.id}: {record.reason}"


def test_an_array_that_promises_more_than_there_is_room_for_is_not_copied():
    """Its strides are 0, so that it costs nothing to make; a copy would have 16 GB."""
    record = judged(implementation(lambda right, inputs: {"output": np.broadcast_to(1.0, (2**27, 2**4))}))
    assert (record.verdict, record.reason, record.internal) == ("error", "ran out of memory", False)


@pytest.mark.parametrize(
    ("result", "said"),
    [
        (Unseen(), "reading what trainer.step returned raised TypeError: int()"),
        (
            {"loss": Unseen(), "rate": 0.1, "norm": 1.0},
            "trainer.step['loss'] is a test_boundary.Unseen, should be a number",
        ),
        (7, "trainer.step gave a int; give a mapping with loss, rate, norm"),
    ],
    ids=["no class", "no number", "no mapping"],
)
def test_what_a_trainer_reports_is_read_with_care(result, said):
    with pytest.raises(Violation) as caught:
        _numbers(result, "trainer.step", REPORTED)
    assert caught.value.seen.startswith(said)


def test_another_signature_is_named():
    class Positional:
        name = "stranger"

        def attention(self, config):
            return lambda a, b, c: {"output": a}

    record = judged(Positional())
    assert record.verdict == "fail"
    assert "attention raised TypeError" in record.reason
    assert "unexpected keyword argument" in record.reason


def test_a_builder_with_another_signature_is_named():
    class NoConfig:
        name = "stranger"

        def attention(self):
            return None

    record = judged(NoConfig())
    assert record.verdict == "fail"
    assert record.reason.startswith("building attention raised TypeError")


def test_a_builder_that_returns_nothing():
    class Empty:
        name = "stranger"

        def attention(self, config):
            return None

    said = "building attention gave None; return a component that can be called"
    assert judged(Empty()).reason == said


def test_a_read_only_array_is_accepted():
    def read_only(right, inputs):
        results = right(**inputs)
        for array in results.values():
            array.flags.writeable = False
        return results

    assert judged(implementation(read_only)).verdict == "pass"
    assert judged(implementation(read_only), "M1.15").verdict == "pass"


def test_a_view_of_other_strides_is_accepted():
    def strided(right, inputs):
        return {n: np.asfortranarray(x) for n, x in right(**inputs).items()}

    assert judged(implementation(strided)).verdict == "pass"


def test_a_changed_input_is_judged_by_hygiene_alone():
    def changes(right, inputs):
        results = right(**inputs)
        inputs["q"] += 1
        return results

    assert judged(implementation(changes)).verdict == "pass"
    record = judged(implementation(changes), "M1.15")
    assert record.verdict == "fail"
    assert record.reason.startswith("the input q[")


def test_not_implemented_is_not_offered():
    def missing(right, inputs):
        raise NotImplementedError("no causal attention")

    record = judged(implementation(missing))
    assert (record.verdict, record.reason) == ("not offered", "attention: no causal attention")


def test_what_is_missing_is_not_offered():
    class Nothing:
        name = "stranger"

    record = judged(Nothing())
    assert (record.verdict, record.reason) == ("not offered", "attention is not offered")


def test_exit_and_memory_are_errors_of_the_implementation():
    def leaves(right, inputs):
        raise SystemExit(3)

    def fills(right, inputs):
        raise MemoryError

    record = judged(implementation(leaves))
    assert (record.verdict, record.reason) == ("error", "the implementation called exit(3)")
    record = judged(implementation(fills))
    assert (record.verdict, record.reason) == ("error", "ran out of memory")


def test_two_outcomes_of_one_case_are_a_failure():
    counter = iter(range(10**9))

    def sometimes(right, inputs):
        if next(counter) % 7 == 3:
            raise RuntimeError("out of luck")
        return right(**inputs)

    record = judged(implementation(sometimes))
    assert record.verdict == "fail"
    assert not record.internal
    assert record.reason.startswith("the implementation is not deterministic: the same case ")
    assert "ypothesis" not in record.reason
    assert "attention[" in record.failure.case


def test_wider_bounds_are_applied_and_recorded():
    def nearly(right, inputs):
        results = right(**inputs)
        return {n: x * x.dtype.type(1 + 2e-5) for n, x in results.items()}

    assert judged(implementation(nearly)).verdict == "fail"
    record = judged(implementation(nearly, wider_bounds={"attention": 1e3}))
    assert record.verdict == "pass"
    assert record.widened == 1e3


def test_a_narrower_bound_cannot_be_declared():
    assert (
        JudgedImplementation(implementation(nan, wider_bounds={"attention": 0.1})).factor("attention") == 1.0
    )


def test_inputs_are_copies_on_aligned_memory():
    x = np.arange(12.0)[::2].reshape(2, 3)
    copy = aligned(x)
    assert copy.ctypes.data % 64 == 0
    assert copy.flags.c_contiguous
    assert not np.shares_memory(copy, x)
    assert fresh({"x": x, "causal": True})["causal"] is True


def test_components_are_kept_per_config():
    impl = JudgedImplementation(REFERENCE)
    one = impl.build("attention", Config())
    assert impl.build("attention", Config()) is one
    assert impl.build("attention", Config(dtype="float64")) is not one


class Unwired:
    """A feed-forward network whose parameters have names, or shapes, of their own."""

    name = "unwired"

    def __init__(self, rename):
        self.rename = rename

    def feed_forward(self, config):
        component, rename = REFERENCE.feed_forward(config), self.rename

        class Renamed:
            def __call__(self, **inputs):
                return component(**inputs)

            def parameters(self):
                return rename(component.parameters())

            def load(self, parameters):
                if {n: x.shape for n, x in parameters.items()} != {
                    n: x.shape for n, x in self.parameters().items()
                }:
                    raise ValueError("these are not my parameters")
                component.load(parameters)

        return Renamed()


@pytest.mark.parametrize(
    ("rename", "said"),
    [
        (lambda own: {n.replace("outer", "w2"): x for n, x in own.items()}, "lacks outer.weight, outer.bias"),
        (
            lambda own: {n: x.T if n == "inner.weight" else x for n, x in own.items()},
            "has inner.weight of shape",
        ),
    ],
)
def test_parameters_that_are_not_wired_are_one_error_and_no_failure(rename, said):
    records = [judged(Unwired(rename), criterion) for criterion in ("M3.1", "M3.2", "M3.12")]
    assert {r.verdict for r in records} == {"error"}
    assert all(said in r.reason and "attest list --parameters feed_forward" in r.reason for r in records)


def test_a_load_that_raises_although_the_names_fit_is_a_failure():
    assert judged(Unwired(dict), "M3.1").verdict == "pass"
    broken = Unwired(dict)
    build = broken.feed_forward

    def feed_forward(config):
        component = build(config)
        component.load = lambda parameters: 1 / 0
        return component

    broken.feed_forward = feed_forward
    record = judged(broken, "M3.1")
    assert (record.verdict, "ZeroDivisionError" in record.reason) == ("fail", True)
