"""What a wrong activation looks like: first in numbers, then as a known defect.

In numbers it is compared with what is right: another activation of the model, a multiple, features or tokens
in another order. The known defects are asked on a small model with the options of the checkpoint and drawn
weights, so that asking all of them costs seconds whatever the size of the checkpoint.

Shapes: B rows, T tokens, D features.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

import numpy as np

from attest.contract import Array, Arrays, Config, float_dtype
from attest.contract.operation import Kind, operation_of
from attest.diagnosis.answers import close
from attest.diagnosis.likeness import SHOWN, Diagnosis
from attest.diagnosis.tracing import Traced, defect_trace, hooked, reference_trace, used_parts
from attest.judging.catalogue import Defect, defects
from attest.order import milestone_order
from attest.outcomes import Expected
from attest.records.failure import Likeness
from attest.reference.assembly import replaced_by
from attest.reference.oracle import random_parameters
from attest.reference.parts.part import Part

Build = Callable[[Config], Any]
# B, T of the drawn ids. As many as make an agreement more than chance.
LENGTHS = ((1, 5), (2, 9), (3, 7), (1, 12), (2, 3))
SAME = 1e-3  # what is left of the error where a multiple or an order explains it
LOGITS = "logits"


def in_numbers(seen: Array, trace: Traced, name: str) -> str:
    """One clause on how a wrong activation differs from what is right; never empty."""
    right = trace[name].value
    if seen.shape != right.shape:
        return f"it has shape {seen.shape}, not {right.shape}"
    if not np.isfinite(seen).all():
        return f"{int((~np.isfinite(seen)).sum())} of its {seen.size} numbers are not finite"
    if not seen.any():
        return "it is zero everywhere"
    if other := _another(seen, trace, name):
        return f"it equals {other}"
    if factor := _factor(seen, right):
        return f"it is {factor:.6g} times what is right"
    if spread := _factors(seen, right):
        return spread
    if order := _other_order(seen, right):
        return order
    return _where(seen, trace[name])


def _another(seen: Array, trace: Traced, name: str) -> str:
    """The activation that stands here instead: a norm that is left out gives what it reads."""
    for other, expected in trace.items():
        if other == name or expected.value.shape != seen.shape:
            continue
        if bool((np.abs(seen - expected.value) <= expected.bound).all()):
            return other
    return ""


def _factor(seen: Array, right: Array) -> float:
    """The number that right is multiplied with; 0 where it is none."""
    size = float((right * right).sum())
    factor = float((seen * right).sum()) / size if size else 0.0
    left = float(np.abs(seen - factor * right).max())
    return factor if left <= SAME * float(np.abs(seen - right).max()) else 0.0


def _factors(seen: Array, right: Array) -> str:
    """Each token a multiple of its own: a norm with another divisor."""
    size = (right * right).sum(-1, keepdims=True)
    if right.shape[-1] < 3 or not size.all():
        return ""
    factors = (seen * right).sum(-1, keepdims=True) / size
    if np.abs(seen - factors * right).max() > SAME * np.abs(seen - right).max():
        return ""
    return f"each token is a multiple of what is right, {factors.min():.6g} to {factors.max():.6g} times"


def _other_order(seen: Array, right: Array) -> str:
    """Features or tokens that are all there, each in the place of another."""
    if seen.ndim < 2:
        return ""
    for axis, what in ((-1, "features"), (1, "tokens")):
        theirs = np.moveaxis(seen, axis, 0).reshape(seen.shape[axis], -1)
        ours = np.moveaxis(right, axis, 0).reshape(right.shape[axis], -1)
        if len(ours) > 1 and (order := _permutation(theirs, ours)) is not None:
            moved = [i for i, j in enumerate(order) if i != j]
            return f"its {what} stand in another order ({moved[0]} is what {order[moved[0]]} should be)"
    return ""


def _permutation(theirs: Array, ours: Array) -> list[int] | None:
    """For each of their rows the row of ours that it equals; None where one equals none, or one twice."""
    apart = float(np.abs(theirs - ours).max())
    found = []
    for row in theirs:
        distance = np.abs(ours - row).max(1)
        nearest = int(distance.argmin())
        if distance[nearest] > SAME * apart:
            return None
        found.append(nearest)
    return found if sorted(found) == list(range(len(ours))) else None


def _where(seen: Array, wanted: Expected) -> str:
    """Which tokens and which features are wrong."""
    wrong = np.abs(seen - wanted.value) > wanted.bound
    told = [f"{int(wrong.sum())} of its {wrong.size} numbers are wrong"]
    if wrong.ndim == 3:
        for axes, what in (((0, 2), "token"), ((0, 1), "feature")):
            told += _extent(wrong.any(axes), what)
    return ", ".join(told)


def _extent(wrong: Array, what: str) -> Iterator[str]:
    """The part of an axis that is wrong, where it is a run with something right beside it."""
    (places,) = np.nonzero(wrong)
    if 0 < len(places) < len(wrong) and len(places) == places[-1] - places[0] + 1:
        first, last = int(places[0]), int(places[-1])
        yield f"{what} {first}" if first == last else f"{what}s {first} to {last}"


@dataclass(frozen=True)
class Heard:
    """One drawn case of the small model, and what the implementation has at the activation in question."""

    config: Config
    parameters: Arrays
    inputs: Arrays
    seen: Array


def nearest_defects(build: Build, operation: str, config: Config, at: str) -> Diagnosis | None:
    """The known defects that have the implementation's wrong numbers in a small model with these options.

    `at` is the activation to look at, `logits` where none is known. None where the small model is right.
    """
    at, layers = _place(at)
    heard = list(_wrong_cases(build, operation, small(config, layers), at))
    if not heard:
        return None
    found, compared = [], 0
    for known in _candidates(operation, heard[0], at):
        compared += 1
        if agrees := _agreements(known, operation, heard, at):
            found.append(Likeness(known.name, agrees, len(heard), "answers"))
        if sum(likeness.share == 1 for likeness in found) == SHOWN:
            break
    found.sort(key=lambda likeness: -likeness.share)
    return Diagnosis(tuple(found), compared)


def _place(at: str) -> tuple[str, int]:
    """The same activation in a model of one or two layers, and how many it needs: layers after the first are
    alike."""
    words = at.split(".")
    if len(words) < 2 or not words[1].isdigit():
        return at, 2
    number = min(int(words[1]), 1)
    return ".".join([words[0], str(number), *words[2:]]), number + 1


def small(config: Config, layers: int) -> Config:
    """A small model with the same options, and widths that no two dimensions share.

    It has padding where the checkpoint has, for a port that cannot do without; no drawn id is padding. Its
    heads are a power of two where the checkpoint's are: ALiBi has a rule for either.
    """
    H = config.num_heads
    heads = 6 if H & (H - 1) else 4
    kv_heads = min(config.kv_heads, 2) if config.kv_heads != H else config.num_kv_heads and heads
    return config.but(
        d_model=8 * heads, num_heads=heads, num_kv_heads=kv_heads,
        head_width=12 if config.head_width is not None else None, d_ff=20,
        num_encoder_layers=layers, num_decoder_layers=layers, source_vocab=11, target_vocab=11, max_len=24,
        pad_id=config.pad_id if config.pad_id is None else 0, bos_id=1, eos_id=2,
    )  # fmt: skip


def _wrong_cases(build: Build, operation: str, config: Config, at: str) -> Iterator[Heard]:
    """Drawn cases in which the implementation is wrong there; nothing where it cannot be built so small."""
    for number, (rows, tokens) in enumerate(LENGTHS):
        rng = np.random.default_rng(number)
        parameters = random_parameters(operation, config, rng)
        inputs = _ids(operation, config, rows, tokens, rng)
        seen = None
        with suppress(Exception):  # a port of one size: there is nothing to compare
            seen = _answer(build, config, parameters, inputs, at)
        if seen is not None:
            right = reference_trace(operation, config, parameters, inputs).get(at)
            if right is not None and not close(right.value, seen):
                yield Heard(config, parameters, inputs, seen)


def _ids(operation: str, config: Config, rows: int, tokens: int, rng: np.random.Generator) -> Arrays:
    ports = operation_of(operation).takes.items()
    return {
        name: rng.integers(4, config.target_vocab, (rows, tokens))
        for name, port in ports
        if port.kind is Kind.IDS and not port.optional
    }


def _answer(build: Build, config: Config, parameters: Arrays, inputs: Arrays, at: str) -> Array | None:
    component = build(config)
    component.load(parameters)
    if at == LOGITS:  # in the dtype that was asked for: numpy code may give float64 for float32
        return np.asarray(component(**inputs)[LOGITS], float_dtype(config.dtype))
    with hooked(component) as seen:
        component(**inputs)
    return seen.get(at)


def _candidates(operation: str, case: Heard, at: str) -> Sequence[Defect]:
    """The defects of the parts that this model uses, and where only logits are known those of whole models.

    Later milestones come first: what a whole model is made of stands there.
    """
    used = used_parts(operation, case.config, case.parameters, case.inputs)
    found = [
        known
        for known in defects().values()
        if (used & {replaced_by(known.piece)} if issubclass(known.piece, Part) else at == LOGITS)
    ]
    return sorted(found, key=lambda known: milestone_order(known.milestone), reverse=True)


def _agreements(known: Defect, operation: str, heard: Sequence[Heard], at: str) -> int:
    """In how many cases the defect has the same numbers; one that has others in the first is not asked on."""
    count = 0
    for case in heard:
        theirs = None
        with suppress(Exception), np.errstate(all="ignore"):  # a defect may refuse what others accept
            theirs = _of_defect(known, operation, case, at)
        if theirs is not None and close(theirs, case.seen):
            count += 1
        elif case is heard[0]:
            break
    return count


def _of_defect(known: Defect, operation: str, case: Heard, at: str) -> Array | None:
    if issubclass(known.piece, Part):
        pieces = (known.piece, *known.also)
        trace: Mapping[str, Expected] = defect_trace(
            operation, case.config, case.parameters, case.inputs, pieces
        )
        return trace[at].value if at in trace else None
    return _answer(getattr(known.build(), operation), case.config, case.parameters, case.inputs, at)
