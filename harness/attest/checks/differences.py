"""Gradients by central differences, entry by entry and along directions.

A difference over a step h is off by about h^2 from the curve and by eps / h from rounding; h = cbrt(eps)
makes both about eps^(2/3): 2.3e-11 of the numbers' size in float64, 1.5e-5 in float32.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

import numpy as np

from attest.boundary import JudgedComponent
from attest.checks.arrays import expect, expect_shape
from attest.contract import Array, Arrays, Gradients
from attest.evidence import current
from attest.outcomes import Deviation, Violation
from attest.reference.oracle import EPSILON

TOLERANCE = 1e-7  # of the array's scale in float64: 4,000 times the error of a difference
DIRECTIONS = 3  # a step over the kink of a ReLU spoils one of about 1,000; a wrong gradient spoils all


def step_size(dtype: str) -> float:
    """cbrt(eps)."""
    return float(np.cbrt(EPSILON[dtype]))


def tolerance(dtype: str) -> float:
    """Grows like the error of a difference, eps^(2/3)."""
    return float(TOLERANCE * (EPSILON[dtype] / EPSILON["float64"]) ** (2 / 3))


def objective(component: JudgedComponent, inputs: Mapping[str, Any], cotangents: Arrays) -> float:
    """The number whose gradients are asked for: the sum over outputs of <cotangent, output>."""
    outputs = component(**inputs)
    return float(sum(np.sum(c.astype(np.float64) * outputs[name]) for name, c in cotangents.items()))


Places = Iterable[tuple[int, ...]]


def numerical(
    evaluate: Callable[[Array], float], x: Array, dtype: str, places: Places | None = None
) -> Array:
    """Central differences of a function of one array, each with a step of its entry's size.

    With `places` only there; elsewhere the result is nan.
    """
    found = np.full(x.shape, np.nan)
    for at in np.ndindex(*x.shape) if places is None else places:
        h = step_size(dtype) * max(1.0, abs(float(x[at])))
        # The error of the curve is a series in h^2; two steps remove its first term. A norm of two features
        # that nearly agree bends within a few steps: without this, 1e-7 would be missed there.
        wide, narrow = (_difference(evaluate, x, at, step) for step in (h, h / 2))
        found[at] = (4 * narrow - wide) / 3
    return found


def _difference(evaluate: Callable[[Array], float], x: Array, at: tuple[int, ...], h: float) -> float:
    ahead, behind = x.copy(), x.copy()
    ahead[at], behind[at] = x[at] + h, x[at] - h
    # The step as it was rounded, not as it was meant.
    return (evaluate(ahead) - evaluate(behind)) / (float(ahead[at]) - float(behind[at]))


def numerical_gradients(
    component: JudgedComponent,
    inputs: Mapping[str, Any],
    parameters: Arrays,
    cotangents: Arrays,
    places: Callable[[Array], Places] = lambda x: np.ndindex(*x.shape),
) -> dict[str, Array]:
    """Of every floating input and every parameter; afterwards the component has its parameters again."""
    dtype = component.config.dtype

    def with_input(name: str) -> Callable[[Array], float]:
        return lambda x: objective(component, {**inputs, name: x}, cotangents)

    def with_parameter(name: str) -> Callable[[Array], float]:
        def evaluate(x: Array) -> float:
            component.load({**parameters, name: x})
            return objective(component, inputs, cotangents)

        return evaluate

    floating = {name: x for name, x in inputs.items() if np.asarray(x).dtype.kind == "f"}
    found = {name: numerical(with_input(name), x, dtype, places(x)) for name, x in floating.items()}
    found |= {name: numerical(with_parameter(name), x, dtype, places(x)) for name, x in parameters.items()}
    component.load(parameters)
    return found


def expect_differences(seen: Gradients, wanted: Mapping[str, Array], dtype: str, layer: str) -> None:
    """Each gradient within the tolerance of its array's scale; that scale is a hundredth of the largest."""
    found = {**seen.inputs, **seen.parameters}
    largest = max((float(np.max(np.abs(g), initial=0.0)) for g in wanted.values()), default=0.0)
    for name, want in wanted.items():
        expect(name in found, f"the gradient of {name} of {layer} is missing")
        expect_shape(found[name], want.shape, f"the gradient of {name} of {layer}")
        scale = max(float(np.max(np.abs(want), initial=0.0)), 1e-2 * largest, 1e-2)
        error = np.abs(found[name] - want) / (tolerance(dtype) * scale)
        worst = tuple(int(i) for i in np.unravel_index(int(np.argmax(error)), error.shape))
        current().saw(float(error[worst]))
        if not error[worst] <= 1.0:
            what = f"the gradient of {layer} for {name}"
            numbers = float(found[name][worst]), float(want[worst])
            raise Violation(deviation=Deviation(what, worst, *numbers, float(error[worst]), "the tolerance"))


def moved_along(arrays: Mapping[str, Any], directions: Arrays, h: float) -> dict[str, Any]:
    """x + h dx, for the arrays that have a direction."""
    return {
        name: (x + h * directions[name]).astype(x.dtype) if name in directions else x
        for name, x in arrays.items()
    }


def transpose_error(
    component: JudgedComponent,
    inputs: Mapping[str, Any],
    parameters: Arrays,
    cotangents: Arrays,
    directions: tuple[Arrays, Arrays],
) -> float:
    """|<dy, J dx> - <J'dy, dx>| over what is allowed, dx moving all inputs and parameters at once."""
    dtype = component.config.dtype
    h = step_size(dtype)
    values = []
    for sign in (h, -h):
        component.load(moved_along(parameters, directions[1], sign))
        values.append(component(**moved_along(inputs, directions[0], sign)))
    component.load(parameters)
    name, dy = next(iter(cotangents.items()))
    ahead, behind = (v[name].astype(np.float64) for v in values)
    pushed = (ahead - behind) / (2 * h)  # J dx
    found = component.gradients(inputs, cotangents)
    pulled = sum(
        float(np.sum(gradients[n].astype(np.float64) * d))
        for gradients, of in ((found.inputs, directions[0]), (found.parameters, directions[1]))
        for n, d in of.items()
    )
    scale = float(np.linalg.norm(dy) * (np.linalg.norm(pushed) + np.linalg.norm(ahead))) + 1e-2
    return abs(float(np.sum(dy * pushed)) - pulled) / (tolerance(dtype) * scale)
