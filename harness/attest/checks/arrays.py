"""The assertions criteria are made of. Each failure is a whole sentence; the case is added by the runner."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Mapping
from typing import Any

import numpy as np

from attest.boundary import quiet, reading
from attest.contract import Array, Gradients
from attest.evidence import current
from attest.outcomes import Deviation, Expected, Violation
from attest.registry import class_name


def expect(condition: bool | np.bool_, seen: str) -> None:
    """Raise a Violation with this sentence, which says what was seen, unless the condition holds."""
    if not condition:
        raise Violation(seen)


def expect_shape(seen: Array, shape: tuple[int, ...], what: str) -> None:
    """The exact shape."""
    if seen.shape != shape:
        raise Violation(f"{what} has shape {_shape(seen.shape)}, should be {_shape(shape)}")


def expect_finite(seen: Array, what: str) -> None:
    """No NaN and no infinity."""
    bad = np.argwhere(~np.isfinite(seen))
    if len(bad):
        at = tuple(int(i) for i in bad[0])
        found = Deviation(what, at, float(seen[at]), None)
        raise Violation(f"{found} ({len(bad)} of {seen.size} are not)", deviation=found)


def expect_close(seen: Array, expected: Expected, what: str, *, factor: float = 1.0) -> None:
    """Within the derived bound of the reference, times `factor`; infinite where the reference is."""
    wanted, infinite = expected.value, np.isinf(expected.value)
    expect_shape(seen, wanted.shape, what)
    if infinite.any():
        expect_same_bits(np.where(infinite, seen, 0.0), np.where(infinite, wanted, 0.0), what)
        seen, wanted = np.where(infinite, 0.0, seen), np.where(infinite, 0.0, wanted)
    expect_finite(seen, what)
    if not seen.size:
        return
    error = np.abs(seen.astype(np.float64) - wanted) / (factor * expected.bound)
    _judge(error, seen, wanted, what, "the bound")


def expect_near(seen: Array, wanted: Array, tolerance: float, what: str, *, relative: float = 0.0) -> None:
    """Within a literal tolerance: |seen - wanted| <= tolerance + relative * |wanted|."""
    expect_shape(seen, wanted.shape, what)
    expect_finite(seen, what)
    if not seen.size:
        return
    allowed = tolerance + relative * np.abs(wanted)
    error = np.abs(seen.astype(np.float64) - wanted) / allowed
    _judge(error, seen, wanted, what, f"the tolerance {tolerance:g}")


def expect_same_bits(seen: Array, wanted: Array, what: str) -> None:
    """Equal to the last bit; NaN equals NaN."""
    expect_shape(seen, wanted.shape, what)
    different = np.argwhere(~((seen == wanted) | (np.isnan(seen) & np.isnan(wanted))))
    if len(different):
        at = tuple(int(i) for i in different[0])
        raise Violation(deviation=Deviation(what, at, float(seen[at]), float(wanted[at])))


def expect_zero(seen: Array, what: str) -> None:
    """Exactly zero everywhere."""
    nonzero = np.argwhere(seen != 0)
    if len(nonzero):
        at = tuple(int(i) for i in nonzero[0])
        found = Deviation(what, at, float(seen[at]), 0.0)
        raise Violation(f"{found.place} is {found.seen:.6g}, should be exactly 0", deviation=found)


def expect_mask(seen: Array, wanted: Array, what: str) -> None:
    """A boolean mask, element by element."""
    expect(seen.dtype == np.bool_, f"{what} has dtype {seen.dtype}, should be bool")
    expect_shape(seen, wanted.shape, what)
    wrong = np.argwhere(seen != wanted)
    if len(wrong):
        at = tuple(int(i) for i in wrong[0])
        found = Deviation(what, at, float(seen[at]), float(wanted[at]))
        sentence = f"{found.place} is {bool(seen[at])}, should be {bool(wanted[at])}"
        raise Violation(sentence, deviation=found)


def expect_refused(call: Callable[[], Any], what: str) -> Exception:
    """Any exception before any output; silence is the failure."""
    try:
        with quiet():
            result = call()
    except Exception as error:
        return error
    given = reading(what, lambda: _summary(result))
    sentence = f"{what} was accepted and gave {given}; should be refused with an exception"
    raise Violation(sentence, refusal=())


def expect_refused_by_name(call: Callable[[], Any], what: str, *names: str) -> None:
    """Refused with a ValueError whose message holds every one of these words."""
    error = expect_refused(call, what)
    kind, message = said_by(error, what)
    if not issubclass(type(error), ValueError):
        raise Violation(f"{what} raised {kind}, should be a ValueError", refusal=names)
    for name in names:
        # A whole word: `v` stands in every message that says `value`.
        if not re.search(rf"(?<![A-Za-z0-9_]){re.escape(name)}(?![A-Za-z0-9_])", message):
            sentence = f"{what} raised {kind}({message!r}), which should name {name}"
            raise Violation(sentence, refusal=names)


def said_by(error: Exception, what: str) -> tuple[str, str]:
    """The class and the text of a refusal."""
    return class_name(type(error)), str(reading(what, lambda: str(error)))


def expect_gradients(
    seen: Gradients, wanted: Mapping[str, Expected], *, skip: Collection[str] = (), factor: float = 1.0
) -> None:
    """Every gradient the reference has, by name, within its distance times `factor`."""
    found = {**seen.inputs, **seen.parameters}
    for name, want in wanted.items():
        if name in skip:
            continue
        expect(name in found, f"the gradient of {name} is missing")
        expect_close(found[name], want, f"the gradient of {name}", factor=factor)


def _judge(error: Array, seen: Array, wanted: Array, what: str, limit: str) -> None:
    worst = tuple(int(i) for i in np.unravel_index(int(np.argmax(error)), error.shape))
    ratio = float(error[worst])
    current().saw(ratio)
    # Not `ratio > 1`: a NaN must fail.
    if not ratio <= 1.0:
        numbers = float(seen[worst]), float(wanted[worst])
        raise Violation(deviation=Deviation(what, worst, *numbers, ratio, limit))


def _shape(shape: tuple[int, ...]) -> str:
    return f"({', '.join(map(str, shape))})"


def _summary(result: Any) -> str:
    if isinstance(result, dict):
        return ", ".join(f"{k} {_summary(v)}" for k, v in result.items())
    if isinstance(result, np.ndarray):
        return f"of shape {_shape(result.shape)}"
    return class_name(type(result))
