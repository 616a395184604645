"""Defects of the schedules, of clipping and of Adam."""

from __future__ import annotations

import math

import numpy as np

from attest.contract import Arrays
from attest.judging.catalogue import defect
from attest.reference.tape import Array
from attest.reference.training.optimisation import Adam, Clipping, Moments, Schedule
from attest.reference.training.trainer import ReferenceOptimizer


@defect("M5.5", "M5.6")
class no_warmup(Schedule):
    """The rate starts at its highest and only falls."""

    def __call__(self, step: int) -> float:
        return float(self.config.d_model**-0.5 * step**-0.5)


@defect("M5.5", "M5.6")
class rate_zero_at_first_step(Schedule):
    """Steps are counted from 0."""

    def __call__(self, step: int) -> float:
        return super().__call__(step - 1) if step > 1 else 0.0


@defect("M5.5")
class wrong_exponent(Schedule):
    """The warm-up rises with warmup^-0.5 in place of warmup^-1.5."""

    def inverse_sqrt_rate(self, step: int) -> float:
        rising = step * self.config.warmup**-0.5 if self.config.warmup else math.inf
        return float(self.config.d_model**-0.5 * min(step**-0.5, rising))


@defect("M5.5")
class warms_up_for_ever(Schedule):
    """The schedule takes the larger of its two branches instead of the smaller."""

    def inverse_sqrt_rate(self, step: int) -> float:
        rising = step * self.config.warmup**-1.5 if self.config.warmup else 0.0
        return float(self.config.d_model**-0.5 * max(step**-0.5, rising))


@defect("M5.5", "M5.6")
class rate_without_width(Schedule):
    """The factor d_model^-0.5 is missing."""

    def inverse_sqrt_rate(self, step: int) -> float:
        return float(super().inverse_sqrt_rate(step) * self.config.d_model**0.5)


@defect("M5.5")
class cosine_ignores_floor(Schedule):
    """The cosine falls to zero and not to the floor."""

    def cosine_rate(self, step: int) -> float:
        c = self.config
        if step <= c.warmup:
            return super().cosine_rate(step)
        done = min((step - c.warmup) / max(c.total_steps - c.warmup, 1), 1.0)
        return c.peak_rate * (1.0 + math.cos(math.pi * done)) / 2.0


@defect("M5.5")
class cosine_rises_again(Schedule):
    """Beyond the last step the cosine goes on."""

    def cosine_rate(self, step: int) -> float:
        c = self.config
        if step <= c.warmup:
            return super().cosine_rate(step)
        done = (step - c.warmup) / max(c.total_steps - c.warmup, 1)
        return c.floor_rate + (c.peak_rate - c.floor_rate) * (1.0 + math.cos(math.pi * done)) / 2.0


@defect("M5.5")
class warmup_to_the_end_divides_by_zero(Schedule):
    """The length of the decay is divided by without looking."""

    def cosine_rate(self, step: int) -> float:
        c = self.config
        done = (step - c.warmup) / (c.total_steps - c.warmup)
        return super().cosine_rate(step) if done <= 1 or step <= c.warmup else c.floor_rate


@defect("M5.6a", "M5.6")
class clip_per_parameter(Clipping):
    """Every array is clipped by its own norm."""

    def clip(self, gradients: Arrays) -> dict[str, Array]:
        return {name: g * self.clip_factor(self.global_norm({name: g})) for name, g in gradients.items()}


@defect("M5.6a")
class clip_by_value(Clipping):
    """Every number is cut at the limit."""

    def clip(self, gradients: Arrays) -> dict[str, Array]:
        limit = self.config.clip_norm
        return {name: np.clip(g, -limit, limit) for name, g in gradients.items()}


@defect("M5.6a", "M5.6")
class always_rescaled(Clipping):
    """Short gradients are stretched to the limit."""

    def clip_factor(self, norm: float) -> float:
        return self.config.clip_norm / norm if norm else 1.0


@defect("M5.6a")
class limit_over_the_larger(Clipping):
    """The factor is the limit over the larger of norm and limit: NaN for an infinite limit."""

    def clip_factor(self, norm: float) -> float:
        return self.config.clip_norm / max(norm, self.config.clip_norm)


@defect("M5.6e")
class nothing_has_no_largest(Clipping):
    """The norm is scaled by the largest of the arrays, and of none there is none."""

    def global_norm(self, gradients: Arrays) -> float:
        size = max(float(np.abs(g).max()) for g in gradients.values()) or 1.0
        return size * super().global_norm({name: g / size for name, g in gradients.items()})


@defect("M5.6a", "M5.6")
class never_clipped(Clipping):
    """The factor is computed and not used."""

    def clip(self, gradients: Arrays) -> dict[str, Array]:
        return {name: g * 1.0 for name, g in gradients.items()}


@defect("M5.6a")
class clip_divides_by_zero(Clipping):
    """No gradient at all gives a norm of zero, and nan."""

    def clip_factor(self, norm: float) -> float:
        return min(1.0, self.config.clip_norm / norm) if norm else math.nan


@defect("M5.6a", "M5.6")
class clip_to_squared_norm(Clipping):
    """The norm is the sum of squares, without the square root."""

    def clip_factor(self, norm: float) -> float:
        return super().clip_factor(norm * norm)


@defect("M5.6c")
class norm_in_single_precision(Clipping):
    """Gradients of 1e25 have squares that float32 cannot hold: the norm is infinite, the factor zero."""

    def global_norm(self, gradients: Arrays) -> float:
        with np.errstate(over="ignore"):
            squares = [np.square(g, dtype=np.float32).sum(dtype=np.float32) for g in gradients.values()]
            return float(np.sqrt(np.sum(squares, dtype=np.float32)))


@defect("M5.6b", "M5.6")
class adam_not_corrected(Adam):
    """The moments are not corrected for their start at zero."""

    def adam_direction(self, name: str, g: Array, moments: Moments) -> Array:
        super().adam_direction(name, g, moments)
        direction: Array = moments.first[name] / (np.sqrt(moments.second[name]) + self.adam_epsilon)
        return direction


@defect("M5.6b", "M5.6")
class adam_of_the_library(Adam):
    """beta2 0.999, as libraries have it."""

    beta2 = 0.999


@defect("M5.6b")
class adam_epsilon_of_the_library(Adam):
    """epsilon 1e-8, as libraries have it."""

    adam_epsilon = 1e-8


@defect("M5.6b")
class adam_epsilon_inside_the_root(Adam):
    """epsilon is added to the second moment before the root."""

    def adam_direction(self, name: str, g: Array, moments: Moments) -> Array:
        super().adam_direction(name, g, moments)
        mean = moments.first[name] / (1 - self.beta1**moments.steps)
        spread = moments.second[name] / (1 - self.beta2**moments.steps)
        direction: Array = mean / np.sqrt(spread + self.adam_epsilon)
        return direction


@defect("M5.6b")
class arrays_without_gradient_skipped(Adam):
    """An array whose gradient is zero in this step stays where it is, and so do its moments."""

    def adam_direction(self, name: str, g: Array, moments: Moments) -> Array:
        return super().adam_direction(name, g, moments) if np.any(g) else np.zeros_like(g)


@defect("M5.6b", "M5.6")
class numbers_without_gradient_skipped(Adam):
    """Only numbers with a gradient move, as in an optimiser for sparse embeddings."""

    def adam_direction(self, name: str, g: Array, moments: Moments) -> Array:
        return np.where(g != 0, super().adam_direction(name, g, moments), 0.0)


@defect("M5.6b", "M5.6")
class decays_weights(Adam):
    """A decay of 0.01 on every parameter."""

    def adam_step(
        self, parameters: Arrays, moments: Moments, gradients: Arrays, rate: float
    ) -> dict[str, Array]:
        moved = super().adam_step(parameters, moments, gradients, rate)
        return {name: value - 0.01 * rate * np.asarray(parameters[name]) for name, value in moved.items()}


@defect("M5.6b")
class moments_survive_load(ReferenceOptimizer):
    """Loading parameters keeps the moments of the old ones."""

    def load(self, parameters: Arrays) -> None:
        kept = self.moments
        super().load(parameters)
        self.moments = kept
