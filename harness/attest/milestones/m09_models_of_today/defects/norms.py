"""Defects of the norm by the root of the mean square.

Shapes: x (B, T, D), weight (D,).
"""

from __future__ import annotations

from typing import Any

import numpy as np

from attest.contract import float_dtype
from attest.judging.catalogue import defect
from attest.reference import ops
from attest.reference.component import ReferenceComponent
from attest.reference.parts.norms import RMSNorm
from attest.reference.scope import Scope
from attest.reference.tape import Array, Var, constant, node


class _StepByStep(RMSNorm):
    """The norm written out, with one step to be replaced."""

    def eps(self) -> float:
        return self.config.norm_eps

    def mean_square(self, x: Var) -> Var:
        """(B, T, 1)."""
        return mean(ops.mul(x, x), -1)

    def root(self, x: Var) -> Var:
        """(B, T, 1): what x is divided by."""
        return power(ops.add(self.mean_square(x), self.eps()), 0.5)

    def gain(self, p: Scope) -> Var:
        return p["weight"]

    def __call__(self, x: Var, p: Scope) -> Var:
        return ops.mul(ops.mul(x, power(self.root(x), -1.0)), self.gain(p))


def mean(a: Var, axis: int) -> Var:
    """The mean over an axis, kept with length 1."""
    value = a.value.mean(axis=axis, keepdims=True)
    return node(value, (a,), lambda g: (np.broadcast_to(g / a.shape[axis], a.shape),))


def power(a: Var, exponent: float) -> Var:
    """Each element to a power."""
    return ops.elementwise(a, a.value**exponent, exponent * a.value ** (exponent - 1.0))


@defect("M9.1", "M9.2")
class subtracts_mean(_StepByStep):
    """The mean is subtracted first: a layer norm without its bias."""

    def __call__(self, x: Var, p: Scope) -> Var:
        return super().__call__(ops.sub(x, mean(x, -1)), p)


@defect("M9.1", "M9.2")
class eps_outside_root(_StepByStep):
    """eps is added to the root instead of the mean square."""

    def root(self, x: Var) -> Var:
        return ops.add(power(ops.add(self.mean_square(x), 1e-300), 0.5), self.eps())


@defect("M9.1")
class eps_hard_coded(_StepByStep):
    """eps is 1e-6 whatever is configured."""

    def eps(self) -> float:
        return 1e-6


@defect("M9.1")
class eps_from_dtype(_StepByStep):
    """eps is the spacing of the dtype's numbers at 1, as where no eps reaches torch's RMSNorm."""

    def eps(self) -> float:
        return float(np.finfo(float_dtype(self.config.dtype)).eps)


@defect("M9.1")
class sum_for_mean(_StepByStep):
    """The squares are added up and not divided by their number."""

    def mean_square(self, x: Var) -> Var:
        return ops.scale(super().mean_square(x), x.shape[-1])


@defect("M9.1")
class over_sequence(_StepByStep):
    """The mean square is taken over the positions of a sequence."""

    def mean_square(self, x: Var) -> Var:
        return mean(ops.mul(x, x), -2)


@defect("M9.1")
class unit_offset_gain(_StepByStep):
    """The gain is stored as its distance from 1."""

    def gain(self, p: Scope) -> Var:
        return ops.add(p["weight"], 1.0)


@defect("M9.1")
class gain_ignored(_StepByStep):
    """The gain is a parameter that nothing reads."""

    def gain(self, p: Scope) -> Var:
        return constant(np.ones(p["weight"].shape))


@defect("M9.1")
class l2_without_sqrt_d(_StepByStep):
    """x is divided by its Euclidean length, so that the output is smaller by sqrt(D)."""

    def root(self, x: Var) -> Var:
        length = power(ops.add(ops.scale(self.mean_square(x), x.shape[-1]), 1e-300), 0.5)
        return ops.where(length.value >= self.eps(), length, self.eps())


@defect("M9.17")
class gradient_not_through_the_root(RMSNorm):
    """Backward, the root is taken for a constant."""

    def __call__(self, x: Var, p: Scope) -> Var:
        right, weight = super().__call__(x, p), p["weight"]
        r = 1.0 / np.sqrt((x.value * x.value).mean(axis=-1, keepdims=True) + self.config.norm_eps)
        return ops.mul(ops.scale(x, r), weight) if x.needs_gradient else right


@defect("M9.18")
class norm_broadcasts(ReferenceComponent):
    """A single feature is accepted and spread over the width by the product with the gain."""

    def accept(self, inputs: Any) -> dict[str, Any]:
        if self.operation == "rms_norm" and np.shape(inputs["x"])[-1] == 1:
            return {"x": np.asarray(inputs["x"])}
        return super().accept(inputs)


@defect("M9.19")
class norms_in_the_callers_array(ReferenceComponent):
    """The output is written over the input to save memory."""

    def __call__(self, **inputs: Any) -> dict[str, Array]:
        found = super().__call__(**inputs)
        if self.operation == "rms_norm":
            inputs["x"][...] = found["output"]
        return found
