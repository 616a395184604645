"""M5: configurations that make no sense."""

from __future__ import annotations

import dis
import math
from collections.abc import Iterator
from typing import Any

from attest.boundary import JudgedImplementation
from attest.checks.arrays import expect, expect_refused
from attest.contract import Config
from attest.judging.evidence import note_case
from attest.judging.options import takes
from attest.judging.property import verifies

SENSIBLE = Config(
    d_model=16,
    num_heads=4,
    d_ff=32,
    num_encoder_layers=1,
    num_decoder_layers=1,
    source_vocab=11,
    target_vocab=13,
    max_len=16,
)
SIZES = (
    "d_model",
    "num_encoder_layers",
    "num_decoder_layers",
    "source_vocab",
    "target_vocab",
    "max_len",
    "d_ff",
)
WRONG: dict[str, tuple[Any, ...]] = {
    "num_heads": (0, -4, 3, 32, 4.0, "4"),
    **dict.fromkeys(SIZES, (0, -1, 2.5, "16")),
    "dropout": (-0.1, 1.0, 1.5, math.nan, math.inf, "0.1"),
    "pad_id": (-1, 11, 13, 1, 2),
    "bos_id": (-1, 13, 0, 2),
    "eos_id": (-1, 13, 0, 1),
    "norm": ("middle", "", None),
    "activation": ("no_such", None),
}
TRAINING: dict[str, tuple[str, tuple[Any, ...]]] = {  # the operation that reads it beside the trainer
    "schedule": ("learning_rate", ("no_such", "", None)),
    "warmup": ("learning_rate", (-1, 2.5)),
    "clip_norm": ("clip_gradients", (0.0, -1.0, math.nan)),
    "label_smoothing": ("loss", (-0.1, 1.0, math.nan)),
}
WHOLE = {"d_model": 16.0, "d_ff": 32.0, "source_vocab": 11.0, "target_vocab": 13.0, "max_len": 16.0,
         "num_encoder_layers": 1.0, "num_decoder_layers": 1.0}  # fmt: skip


def senseless(impl: JudgedImplementation) -> Iterator[tuple[str, str, Any]]:
    """What is built, field and value, one fault at a time."""
    for name, values in WRONG.items():
        for value in values:
            yield "transformer", name, value
    for name, whole in WHOLE.items():
        yield "transformer", name, whole
    for name, (reader, values) in TRAINING.items():
        for operation in (reader, "trainer"):
            if impl.offers(operation):
                yield from ((operation, name, value) for value in values)


def refusal(impl: JudgedImplementation, operation: str, name: str, value: Any) -> Exception:
    """What building raises; silence is the failure."""
    config = sensible(impl, operation).but(**{name: value})
    what = f"{name}={value!r}" + (f" of the {operation}" if name in TRAINING else "")
    return expect_refused(lambda: impl.raw_build(operation, config), what)


def sensible(impl: JudgedImplementation, operation: str) -> Config:
    """With the other schedule where only that is offered."""
    config = SENSIBLE.but(dtype=impl.dtypes[0])
    other = config.but(schedule="cosine")
    return other if not takes(impl, operation, config) and takes(impl, operation, other) else config


@verifies("M5.12")
def senseless_configurations_are_refused(impl: JudgedImplementation) -> None:
    """On construction, and not by an assert: python -O removes those."""
    impl.build("transformer", SENSIBLE.but(dtype=impl.dtypes[0]))
    for operation, name, value in senseless(impl):
        note_case(f"{name}={value!r}", name)
        error = refusal(impl, operation, name, value)
        expect(not vanishes(error), f"{name}={value!r} is refused by an assert, which python -O removes")


def vanishes(error: Exception) -> bool:
    """Whether an assert statement raised it: `raise AssertionError` compiles to other instructions."""
    trace = error.__traceback__
    if not isinstance(error, AssertionError) or trace is None:
        return False
    while trace.tb_next is not None:
        trace = trace.tb_next
    names = {instruction.opname for instruction in dis.get_instructions(trace.tb_frame.f_code)}
    return bool(names & {"LOAD_ASSERTION_ERROR", "LOAD_COMMON_CONSTANT"})


@verifies("M5.12a")
def refusals_name_the_field(impl: JudgedImplementation) -> None:
    """A ValueError (TypeError for a wrong type) with the field's name and the value given."""
    for operation, name, value in senseless(impl):
        note_case(f"{name}={value!r}", name)
        error = refusal(impl, operation, name, value)
        right = isinstance(error, ValueError) or (isinstance(error, TypeError) and not _is_number(value))
        kind, message = type(error).__name__, str(error)
        expect(right, f"{name}={value!r} raised {kind}, should be a ValueError")
        for word in (name, str(value) or repr(value)):
            expect(word in message, f"{name}={value!r} raised {kind}({message!r}), which should name {word}")


def _is_number(value: Any) -> bool:
    """A whole float where an integer belongs is of the wrong type; other numbers are of the wrong value."""
    return isinstance(value, int) or (isinstance(value, float) and not value.is_integer())
