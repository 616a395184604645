"""Defects of layer normalisation.

Shapes: x (B, T, D), weight and bias (D,).
"""

from __future__ import annotations

import math

import numpy as np

from attest.judging.catalogue import defect
from attest.reference import ops
from attest.reference.parts.norms import LayerNorm
from attest.reference.scope import Scope
from attest.reference.tape import Var, constant, node


class _OtherNorm(LayerNorm):
    """A norm written out step by step, with one step to be replaced."""

    axis: int | tuple[int, ...] = -1

    def spread(self, centred: Var) -> Var:
        """(..., 1): what the centred values are divided by."""
        return power(ops.add(mean(ops.mul(centred, centred), self.axis), self.config.norm_eps), 0.5)

    def centre(self, x: Var) -> Var:
        return ops.sub(x, mean(x, self.axis))

    def __call__(self, x: Var, p: Scope) -> Var:
        centred = self.centre(x)
        normed = ops.mul(centred, power(self.spread(centred), -1.0))
        return ops.add(ops.mul(normed, p["weight"]), p["bias"])


def mean(a: Var, axis: int | tuple[int, ...]) -> Var:
    """The mean over some axes, kept with length 1."""
    value = a.value.mean(axis=axis, keepdims=True)
    share = value.size / max(a.value.size, 1)
    return node(value, (a,), lambda g: (np.broadcast_to(g * share, a.shape),))


def power(a: Var, exponent: float) -> Var:
    """Each element to a power."""
    return ops.elementwise(a, a.value**exponent, exponent * a.value ** (exponent - 1.0))


@defect("M4.9", "M4.11")
class norm_over_sequence(_OtherNorm):
    """Mean and variance are taken over the positions of a sequence."""

    axis = -2


@defect("M4.9", "M4.11")
class norm_over_sequence_and_features(_OtherNorm):
    """Mean and variance are taken over the whole sequence, positions and features together."""

    axis = (-2, -1)


@defect("M4.9", "M4.11")
class layer_norm_over_batch(_OtherNorm):
    """Mean and variance are taken over the batch."""

    axis = 0


@defect("M4.9", "M4.1", "M4.1a")
class unbiased_variance(_OtherNorm):
    """The variance is divided by D - 1."""

    def spread(self, centred: Var) -> Var:
        width = centred.shape[-1]
        factor = width / (width - 1) if width > 1 else math.nan  # 0 / 0, as everywhere
        squares = ops.scale(ops.mul(centred, centred), factor)
        return power(ops.add(mean(squares, -1), self.config.norm_eps), 0.5)


@defect("M4.9")
class eps_outside(_OtherNorm):
    """eps is added to the root instead of the variance."""

    def spread(self, centred: Var) -> Var:
        variance = ops.add(mean(ops.mul(centred, centred), -1), 1e-300)
        return ops.add(power(variance, 0.5), self.config.norm_eps)


@defect("M4.9")
class eps_of_another_library(_OtherNorm):
    """eps is 1e-6 whatever is configured."""

    def spread(self, centred: Var) -> Var:
        return power(ops.add(mean(ops.mul(centred, centred), -1), 1e-6), 0.5)


@defect("M4.9")
class eps_left_out(_OtherNorm):
    """Nothing is added to the variance: constant positions divide zero by zero."""

    def spread(self, centred: Var) -> Var:
        return power(mean(ops.mul(centred, centred), -1), 0.5)


@defect("M4.9")
class one_pass_variance(LayerNorm):
    """The variance is E[x^2] - E[x]^2, which loses its digits when the mean is large."""

    def __call__(self, x: Var, p: Scope) -> Var:
        average = mean(x, -1)
        variance = ops.sub(mean(ops.mul(x, x), -1), ops.mul(average, average))
        positive = ops.where(variance.value > 0, variance, 0.0)
        inverse = power(ops.add(positive, self.config.norm_eps), -0.5)
        return ops.add(ops.mul(ops.mul(ops.sub(x, average), inverse), p["weight"]), p["bias"])


@defect("M4.9", "M4.1")
class root_mean_square_only(_OtherNorm):
    """The mean is not subtracted."""

    def centre(self, x: Var) -> Var:
        return x


@defect("M4.9", "M4.1")
class norm_bias_left_out(LayerNorm):
    """The norm's bias is a parameter that nothing reads."""

    def __call__(self, x: Var, p: Scope) -> Var:
        return ops.layer_norm(x, p["weight"], constant(np.zeros(p["bias"].shape)), self.config.norm_eps)


@defect("M4.9", "M4.1")
class norm_weight_plus_one(LayerNorm):
    """The weight is stored as the distance from 1."""

    def __call__(self, x: Var, p: Scope) -> Var:
        return ops.layer_norm(x, ops.add(p["weight"], 1.0), p["bias"], self.config.norm_eps)


@defect("M4.9")
class norm_leaves_constants_alone(LayerNorm):
    """A position without spread is returned as it is."""

    def __call__(self, x: Var, p: Scope) -> Var:
        flat = np.ptp(x.value, axis=-1, keepdims=True) == 0
        return ops.where(~np.broadcast_to(flat, x.shape), super().__call__(x, p), x.value)


@defect("M4.9")
class norm_noisy_in_training(LayerNorm):
    """In train mode the norm's output goes through dropout."""

    def __call__(self, x: Var, p: Scope) -> Var:
        return self.parts.dropout(super().__call__(x, p), "sublayer")


@defect("M4.9")
class eps_not_configurable(LayerNorm):
    """eps is 1e-5 whatever is configured."""

    def __call__(self, x: Var, p: Scope) -> Var:
        return ops.layer_norm(x, p["weight"], p["bias"], 1e-5)


@defect("M4.9")
class eps_raised_to_the_usual(LayerNorm):
    """An eps below 1e-5 is raised to it."""

    def __call__(self, x: Var, p: Scope) -> Var:
        return ops.layer_norm(x, p["weight"], p["bias"], max(self.config.norm_eps, 1e-5))
