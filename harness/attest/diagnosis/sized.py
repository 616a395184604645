"""A number that differs from case to case, explained by the power of one size or setting."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np

from attest.contract import Array
from attest.diagnosis.hooks import Alter
from attest.diagnosis.others import sizes
from attest.diagnosis.relations import POWERS
from attest.diagnosis.transforms import Scope

FEWEST = 4  # wrong answers with numbers of their own
NEAR = 1e-3
# What may stand for a size n: one more or less, and the correction of a variance.
RELATED: Mapping[str, Callable[[float], float]] = {
    "{}": lambda n: n,
    "({} - 1)": lambda n: n - 1,
    "({} + 1)": lambda n: n + 1,
    "({0} / ({0} - 1))": lambda n: n / (n - 1) if n > 1 else 0.0,
}

Act = Callable[[Any, float], Any]


def explanations(solved: Sequence[tuple[Scope, float]], act: Act, reads: str) -> Iterator[tuple[str, Alter]]:
    """(how it reads, with {} for the value, what then acts): a constant times the power of a size.

    It has to explain FEWEST of them: where an answer is cut off, what was solved for says nothing.
    """
    numbers = np.array([number for _, number in solved])
    if len(solved) < FEWEST or np.allclose(numbers, numbers[0], rtol=NEAR):
        return
    around = [sizes(scope) for scope, _ in solved]
    for name in dict.fromkeys(name for name in around[0] if all(name in one for one in around)):
        for form, of in RELATED.items():
            values = np.array([of(float(one[name])) for one in around])
            if (values <= 0).any() or len(set(values)) < 2:
                continue
            for power, text in POWERS.items():
                constant = _shared(numbers / values**power, values)
                if constant is not None:
                    explained = text.format(form.format(name))
                    said = explained if constant == 1 else f"{constant:g} * {explained}"
                    yield reads.format("{}", said), partial(_acting, act, constant, name, of, power)


def _shared(constants: Array, values: Array) -> float | None:
    """The constant that enough of the answers share.

    Two sizes always lie on some power with a free constant; three are needed where it is not 1.
    """
    for constant in constants:
        fits = np.isclose(constants, constant, rtol=NEAR)
        needed = 2 if abs(constant - 1) < NEAR else 3
        if fits.sum() >= FEWEST and len(set(values[fits])) >= needed:
            return float(f"{constant:.3g}")
    return None


def _acting(
    act: Act, constant: float, name: str, of: Callable[[float], float], power: float, value: Any, scope: Scope
) -> Any:
    return act(value, constant * of(float(sizes(scope)[name])) ** power)
