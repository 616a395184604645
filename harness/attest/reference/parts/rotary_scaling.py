"""Rules that slow rotary angles down, so that a model reads further than it was trained to.

linear: https://arxiv.org/abs/2306.15595; yarn: https://arxiv.org/abs/2309.00071 and the authors' code;
llama3: the code of Llama 3.1. A pair is fast or slow by how often it turns over the length that was trained.

Shapes: r features of a head are turned, r / 2 pairs.
"""

from __future__ import annotations

import math

import numpy as np

from attest.reference.parts.part import Part
from attest.reference.tape import Array


class Scaling(Part):
    """No rule: frequencies stay as they are."""

    def scaled(self, frequencies: Array) -> Array:
        """(r / 2)."""
        return frequencies

    def gain(self) -> float:
        """What cosine and sine are multiplied by."""
        return 1.0

    def roundings(self, frequencies: Array) -> Array:
        """(r / 2): roundings of a frequency beside those of one that is not scaled."""
        return np.zeros(len(frequencies))


class LinearScaling(Scaling):
    """Every frequency is divided by the factor: positions are interpolated."""

    def scaled(self, frequencies: Array) -> Array:
        divided: Array = frequencies / self.config.rotary_factor
        return divided

    def roundings(self, frequencies: Array) -> Array:
        return np.ones(len(frequencies))


class ScalingByTurns(Scaling):
    """Fast pairs keep their frequency, slow ones have it divided, those between have a mixture of both."""

    def kept(self, frequencies: Array) -> Array:
        """(r / 2): the share of the frequency that is not divided, from 0 (slow) to 1 (fast)."""
        raise NotImplementedError

    def scaled(self, frequencies: Array) -> Array:
        kept = self.kept(frequencies)
        mixed: Array = frequencies * (kept + (1 - kept) / self.config.rotary_factor)
        return mixed

    def roundings(self, frequencies: Array) -> Array:
        """Of g = f (s + (1 - s) / F): three, and those of s times (dg/ds) / g = (F - 1) / (1 + s (F - 1))."""
        kept, more = self.kept(frequencies), self.config.rotary_factor - 1
        between = (kept > 0) & (kept < 1)
        found: Array = 3 + np.where(
            between, self.roundings_of_share(frequencies) * more / (1 + kept * more), 0
        )
        return found

    def roundings_of_share(self, frequencies: Array) -> Array:
        """(r / 2): the error of a share, as a multiple of one rounding of 1."""
        raise NotImplementedError


class Llama3(ScalingByTurns):
    """The share grows in proportion to the turns over the length that was trained."""

    def turns(self, frequencies: Array) -> Array:
        """(r / 2)."""
        turns: Array = self.config.rotary_original * frequencies / (2 * math.pi)
        return turns

    def kept(self, frequencies: Array) -> Array:
        slow, fast = self.config.rotary_slow_turns, self.config.rotary_fast_turns
        return np.clip((self.turns(frequencies) - slow) / (fast - slow), 0.0, 1.0)

    def roundings_of_share(self, frequencies: Array) -> Array:
        """The turns have four of the frequency, and those of pi, of a product and of a quotient."""
        found: Array = 2 + 7 * self.turns(frequencies) / (
            self.config.rotary_fast_turns - self.config.rotary_slow_turns
        )
        return found


class Yarn(ScalingByTurns):
    """The share falls evenly from pair to pair, between the last fast and the first slow one; with a gain."""

    def pair_of(self, turns: float, pairs: int) -> float:
        """The pair, as a real number, that turns so often over the length that was trained."""
        reach = math.log(self.config.rotary_original / (turns * 2 * math.pi))
        return pairs * reach / math.log(self.config.rotary_base)

    def limits(self, pairs: int) -> tuple[int, int]:
        """The last pair that is kept and the first that is divided."""
        first = math.floor(self.pair_of(self.config.rotary_fast_turns, pairs))
        last = math.ceil(self.pair_of(self.config.rotary_slow_turns, pairs))
        return max(first, 0), min(last, 2 * pairs - 1)

    def kept(self, frequencies: Array) -> Array:
        first, last = self.limits(len(frequencies))
        width = last - first or 0.001  # as the authors' code: a step between two pairs
        return 1 - np.clip((np.arange(len(frequencies)) - first) / width, 0.0, 1.0)

    def roundings_of_share(self, frequencies: Array) -> Array:
        return np.full(len(frequencies), 2.0)

    def gain(self) -> float:
        """0.1 log(factor) + 1: scores grow with the length."""
        return 0.1 * math.log(self.config.rotary_factor) + 1.0


SCALINGS: dict[str, type[Part]] = {
    "none": Scaling,
    "linear": LinearScaling,
    "yarn": Yarn,
    "llama3": Llama3,
}
