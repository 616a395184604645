"""Cases of rotary angles that a rule slows down. Shapes: x (B, H, T, d), r features of d are turned."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from hypothesis import strategies as st

from attest.contract import Array
from attest.contract.operations.positions import SCALING_FIELDS
from attest.judging.cases import dtypes, picks, regimes, seeds
from attest.judging.options import written_options
from attest.milestones.m07_positions.cases.rotary import FIELDS, RotaryCase
from attest.milestones.m07_positions.cases.self_attention import OPTIONS, SelfAttentionCase

NUMBERS = tuple(sorted(SCALING_FIELDS - {"rotary_scaling"}))
RULES = ("linear", "yarn", "llama3")
PLACES_MET = ("mixed", "block", "far", "near")


@dataclass(frozen=True, kw_only=True)
class ScaledCase(RotaryCase):
    """A rule, and its numbers from what is claimed."""

    kind: ClassVar[str] = "scaled_rotary"
    free: ClassVar[tuple[str, ...]] = (*FIELDS, "rotary_scaling", *NUMBERS)

    @property
    def regimes(self) -> tuple[str, ...]:
        c = self.config
        return (*super().regimes, f"{c.rotary_scaling} by {c.rotary_factor:g} from {c.rotary_original}")

    @property
    def turns(self) -> Array:
        """(r / 2): how often each pair turns over the length that was trained."""
        c, pairs = self.config, np.arange(self.rotated // 2)
        turns: Array = c.rotary_original * c.rotary_base ** (-2.0 * pairs / self.rotated) / (2 * math.pi)
        return turns

    @property
    def kept(self) -> Array:
        """(r / 2): pairs that turn as without the rule."""
        fast: Array = self.turns >= self.config.rotary_fast_turns
        return fast if self.config.rotary_scaling != "linear" else np.zeros(len(fast), bool)

    @property
    def divided(self) -> Array:
        """(r / 2): pairs that turn slower by the whole factor."""
        slow: Array = self.turns <= self.config.rotary_slow_turns
        return slow if self.config.rotary_scaling != "linear" else np.ones(len(slow), bool)

    @property
    def gain(self) -> float:
        """What the lengths of pairs are multiplied by."""
        yarn = self.config.rotary_scaling == "yarn"
        return 0.1 * math.log(self.config.rotary_factor) + 1 if yarn else 1.0

    def unscaled(self) -> ScaledCase:
        """The same case without the rule."""
        return self.but(options=written_options({**self.chosen, "rotary_scaling": "none"}))


@dataclass(frozen=True, kw_only=True)
class ScaledAttentionCase(SelfAttentionCase):
    """Self-attention with such angles."""

    kind: ClassVar[str] = "scaled_self_attention"
    free: ClassVar[tuple[str, ...]] = (*OPTIONS, "rotary_scaling", *NUMBERS)


@st.composite
def scaled_cases(
    draw: st.DrawFn, *, rules: tuple[str, ...] = RULES, at: tuple[str, ...] = PLACES_MET
) -> ScaledCase:
    """Heads of up to eleven pairs, so that a mixture of two frequencies is met."""
    return ScaledCase(
        B=draw(st.sampled_from((1, 2, 3))),
        H=draw(st.sampled_from((1, 2, 3))),
        T=draw(st.sampled_from((5, 3, 7, 2))),
        d=draw(st.sampled_from((16, 22, 8, 14, 10, 4))),
        at=draw(st.sampled_from(at)),
        regime=draw(regimes()),
        pick=draw(picks()),
        wants=f"rotary_scaling:{draw(st.sampled_from(rules))}",
        dtype=draw(dtypes()),
        seed=draw(seeds()),
    )


@st.composite
def scaled_attention_cases(draw: st.DrawFn) -> ScaledAttentionCase:
    """Heads wide enough for a mixture, at positions near and far."""
    rule = draw(st.sampled_from(RULES))
    return ScaledAttentionCase(
        B=draw(st.sampled_from((2, 1))),
        H=draw(st.sampled_from((2, 1, 3))),
        T=draw(st.sampled_from((5, 3, 7))),
        d=draw(st.sampled_from((8, 16, 10))),
        mask=draw(st.sampled_from(("none", "keys", "pairs"))),
        causal=draw(st.booleans()),
        at=draw(st.sampled_from(("gaps", "shifted", "counted"))),
        regime=draw(st.sampled_from(("unit", "saturated"))),
        pick=draw(picks()),
        wants=f"positions:rotary,rotary_scaling:{rule}",
        dtype=draw(dtypes()),
        seed=draw(seeds()),
    )
