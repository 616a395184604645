"""M5: configurations that make no sense."""

from __future__ import annotations

import dis
import math
from collections.abc import Iterator, Sequence
from itertools import product
from typing import Any

from attest.boundary import JudgedImplementation
from attest.checks.arrays import expect, expect_refused, said_by
from attest.contract import ENCODER_DECODER, OPERATIONS, Architecture, Config, Form, readers
from attest.contract.config import OPTIONS, RULES, Holds, Rule
from attest.evidence import note_case
from attest.judging.options import takes
from attest.judging.property import verifies
from attest.outcomes import NotOffered

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
WRONG: dict[Holds, tuple[Any, ...]] = {  # whatever the field
    Holds.SIZE: (0, -1, 2.5, "16"),
    # A rate of 1 divides by zero, and NaN passes every comparison that is not written for it.
    Holds.SHARE: (-0.1, 1.0, math.nan),
    Holds.CHOICE: ("no_such", "", None),
    Holds.COUNT: (-1, 2.5),
    Holds.LIMIT: (0.0, -1.0, math.nan),
    Holds.PART: (0.0, -0.5, 1.5, math.nan),
}
# What a field that takes any number from 0 does not take.
NO_NUMBERS = (-1e-5, math.inf, math.nan)
# A text compares with numbers only by an exception of its own, which names neither field nor value.
# One class is no question.
MORE: dict[str, tuple[Any, ...]] = {
    "dropout": (1.5, math.inf, "0.1"),
    "num_heads": (-4, "4"),
    "num_classes": (1,),
}


def wrong_values(operation: str, name: str, rule: Rule) -> tuple[Any, ...]:
    """What a field must not hold, by its rule and the other fields that the operation reads."""
    reads = OPERATIONS[operation].reads
    sensible = getattr(SENSIBLE, name)
    found = WRONG.get(rule.holds, ()) if rule.checked else ()
    if rule.divides:
        whole = getattr(SENSIBLE, rule.divides)
        found += ((whole if sensible is None else sensible) - 1, 2 * whole)
    if rule.holds is Holds.SIZE and sensible is not None:
        found += (float(sensible),)  # a whole number of the wrong type
    if rule.holds is Holds.ID:
        sizes = {getattr(SENSIBLE, size) for size in rule.vocabularies if size in reads}
        ids = {n for n, r in RULES.items() if r.holds is Holds.ID and n in reads}
        taken = {getattr(SENSIBLE, n) for n in ids - {name}}
        # A padding id that stands alone may lie outside of the vocabulary: then nothing is padding.
        found = (-1, *sorted(sizes), *sorted(taken)) if taken else ()
    return (*found, *MORE.get(name, ()))


def senseless(impl: JudgedImplementation, architecture: Architecture) -> Iterator[tuple[str, str, Any]]:
    """What is built, field and value, one fault at a time."""
    model = OPERATIONS[architecture.operation]
    for name, rule in RULES.items():
        reading = [model.name] if name in model.reads else other_readers(architecture, name)
        for operation in reading:
            if (operation == model.name or impl.offers(operation)) and chooses(impl, operation, name):
                yield from ((operation, name, value) for value in wrong_values(operation, name, rule))


def other_readers(architecture: Architecture, name: str) -> Sequence[str]:
    """Who reads a field that the model does not; of models beside the encoder-decoder, their trainer.

    Options are asked of the models that have them.
    """
    found = () if name in OPTIONS else readers(name)
    return found if architecture == ENCODER_DECODER else [o for o in found if o == architecture.trainer]


def chooses(impl: JudgedImplementation, operation: str, name: str) -> bool:
    """Whether a builder has to read the field: not an option that is claimed in its default alone."""
    return name not in OPTIONS or RULES[name].tried or len(impl.claims.values(name, operation)) > 1


def refusal(impl: JudgedImplementation, operation: str, name: str, value: Any, **changes: Any) -> Exception:
    """What building raises; silence is the failure."""
    config = sensible(impl, operation).but(**changes, **{name: value})
    what = f"{name}={value!r}" + ("" if OPERATIONS[operation].form is Form.MODEL else f" of the {operation}")
    return expect_refused(lambda: impl.raw_build(operation, config), what)


def sensible(impl: JudgedImplementation, operation: str) -> Config:
    """With another norm, activation or schedule where only that is offered; NotOffered where none is."""
    for norm, activation, schedule in product(("post", "pre"), ("relu", "gelu"), ("inverse_sqrt", "cosine")):
        config = SENSIBLE.but(norm=norm, activation=activation, schedule=schedule, dtype=impl.dtypes[0])
        config = impl.claims.nearest(operation, config)
        if takes(impl, operation, config):
            return config
    raise NotOffered(f"{operation} is built neither with norm='post' nor with norm='pre'")


@verifies("M5.12")
def senseless_configurations_are_refused(impl: JudgedImplementation, architecture: Architecture) -> None:
    """Construction raises, and not by an assert, which python -O removes."""
    impl.build(architecture.operation, sensible(impl, architecture.operation))
    for operation, name, value in senseless(impl, architecture):
        note_case(f"{name}={value!r}", name)
        error = refusal(impl, operation, name, value)
        expect(not vanishes(error), f"{name}={value!r} is refused by an assert, which python -O removes")


def vanishes(error: Exception) -> bool:
    """Whether an assert statement raised it: `raise AssertionError` compiles to other instructions."""
    trace = error.__traceback__
    if not issubclass(type(error), AssertionError) or trace is None:
        return False
    while trace.tb_next is not None:
        trace = trace.tb_next
    names = {instruction.opname for instruction in dis.get_instructions(trace.tb_frame.f_code)}
    return bool(names & {"LOAD_ASSERTION_ERROR", "LOAD_COMMON_CONSTANT"})


@verifies("M5.12d")
def numbers_that_are_none_are_refused(impl: JudgedImplementation, architecture: Architecture) -> None:
    """An epsilon or a rate below zero, infinite or NaN is refused where it is read."""
    for operation in (architecture.operation, "learning_rate"):
        reads = OPERATIONS[operation].reads
        read = [name for name, rule in RULES.items() if rule.holds is Holds.NUMBER and name in reads]
        for name, value in product(read if impl.offers(operation) else (), NO_NUMBERS):
            note_case(f"{name}={value!r}", name)
            refusal(impl, operation, name, value, schedule="cosine")


@verifies("M5.12a")
def refusals_name_the_field(impl: JudgedImplementation, architecture: Architecture) -> None:
    """A ValueError (TypeError for a wrong type) holds the name of the field and the value given."""
    for operation, name, value in senseless(impl, architecture):
        note_case(f"{name}={value!r}", name)
        error = refusal(impl, operation, name, value)
        right = issubclass(type(error), ValueError if _is_number(value) else (ValueError, TypeError))
        kind, message = said_by(error, f"{name}={value!r}")
        expect(right, f"{name}={value!r} raised {kind}, should be a ValueError")
        for word in (name, str(value) or repr(value)):
            expect(word in message, f"{name}={value!r} raised {kind}({message!r}), which should name {word}")


def _is_number(value: Any) -> bool:
    """A whole float where an integer belongs is of the wrong type; other numbers are of the wrong value."""
    return isinstance(value, int) or (isinstance(value, float) and not value.is_integer())
