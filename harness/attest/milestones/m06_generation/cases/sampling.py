"""Logits from which a token is to be drawn, and how. Shapes: B rows, V vocabulary."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar, Self

import numpy as np
from hypothesis import strategies as st

from attest.contract import Array, Config, float_dtype
from attest.judging.cases import Case, dtypes, seeds
from attest.judging.regimes import SIZES
from attest.outcomes import Expected
from attest.reference.assembly import oracle_parts
from attest.reference.oracle import EPSILON

# From nearly greedy to nearly uniform. Multiplying by the temperature is right at 1 only.
TEMPERATURES = (1.0, 0.5, 2.0, 0.1, 0.9, 1.5, 5.0, 100.0, 1e-3)
# Down to just above 1e-6, below which the spec takes a temperature for 0: a larger threshold is found.
COLD = (5e-3, 0.05, 1e-3, 1e-4, 1e-5, 2e-6)
LEVELS = {"unit": 2.0, "large": 1e4, "tiny": 1e-3}  # "close": as far apart as the temperature


@dataclass(frozen=True, kw_only=True)
class LogitsCase(Case):
    """`top_k` 0 is none; `top_p` 0 is none, and otherwise a place between two cumulative sums of row 0."""

    kind: ClassVar[str] = "logits"
    lengths: ClassVar[tuple[str, ...]] = ("B",)

    B: int = 1
    V: int = 5
    temperature: float = 1.0
    top_k: int = 0
    top_p: float = 0.0

    def enlarged(self, width: int) -> Self:
        """The same over a large vocabulary: sorts keep the order of a few equals without promising it."""
        return self.but(V=SIZES["target_vocab"])

    @property
    def cuts(self) -> tuple[int, ...]:
        """Values of top_k: all of a small vocabulary, a few of a large one."""
        few = (1, 2, 16, 17, 64, 130, 256)
        return (*few, self.V - 1) if few[-1] < self.V else tuple(range(1, self.V))

    @property
    def regimes(self) -> tuple[str, ...]:
        limits = [name for name in ("top_k", "top_p") if getattr(self, name)]
        return (*super().regimes, *limits)

    @cached_property
    def logits(self) -> Array:
        """(B, V), no two of a row closer than a tenth of the level, or the kept set would be open."""
        rng = self.rng()
        spread = rng.permuted(np.tile(np.arange(self.V, dtype=np.float64), (self.B, 1)), axis=1)
        values = (spread - self.V / 2 + 0.4 * rng.random((self.B, self.V))) * 2.0 / self.V
        level = 2.0 * self.temperature if self.regime == "close" else LEVELS[self.regime]
        return (values * level).astype(float_dtype(self.dtype))

    @cached_property
    def tied(self) -> Array:
        """(B, V): the logits with one more that is as large as the largest."""
        logits = self.logits.copy()
        logits[:, self.seed % self.V] = logits.max(axis=-1)
        return logits

    @cached_property
    def levels(self) -> Array:
        """(B, V): logits of three levels only, so that most are equal to others."""
        return self.rng(1).integers(0, 3, (self.B, self.V)).astype(float_dtype(self.dtype))

    def renormalised(self, kept: Array) -> Expected:
        """The probabilities of these levels where only some tokens are kept."""
        powers = np.where(kept, np.exp(self.levels.astype(np.float64)), 0.0)
        value = powers / powers.sum(axis=-1, keepdims=True)
        return Expected(value, 8 * EPSILON[self.dtype] * 6.0 * np.maximum(value, 1e-30))

    @property
    def p(self) -> float | None:
        """The threshold: 1 stays 1, anything else is moved inside the nearest step of every row's sums."""
        if self.top_p in (0.0, 1.0):
            return self.top_p or None
        kept = self.distribution(self.top_k or None, None)
        sums = np.cumsum(-np.sort(-kept, axis=-1), axis=-1)
        candidates = self.top_p + np.linspace(-0.04, 0.04, 41)
        distance = np.abs(sums[..., None] - candidates).min(axis=(0, 1))
        inside = np.where((candidates > 0) & (candidates < 1), distance, 0.0)
        return float(candidates[int(np.argmax(inside))])

    @property
    def arguments(self) -> tuple[Any, ...]:
        """logits, temperature, top_k, top_p."""
        return (self.logits, self.temperature, self.top_k or None, self.p)

    def grid(self) -> Iterator[LogitsCase]:
        """These logits under every combination of a few temperatures and limits."""
        for temperature in (1.0, 0.3, 2.0):
            for top_k in (0, 1, 2, self.V - 1, self.V, self.V + 3):
                for top_p in (0.0, 1.0, 0.9, 0.5, 0.2, 0.05):
                    yield self.but(temperature=temperature, top_k=top_k, top_p=top_p)

    def distribution(self, top_k: int | None, top_p: float | None) -> Array:
        """(B, V) by the reference, in float64."""
        sampling = oracle_parts(Config()).sampling
        return sampling.next_token_distribution(self.logits, self.temperature, top_k, top_p)

    @cached_property
    def expected(self) -> Expected:
        """Each logit is rounded when it is divided, and the exponential makes that a relative error."""
        value = self.distribution(self.top_k or None, self.p)
        size = np.abs(self.logits).max(axis=-1, keepdims=True).astype(np.float64) / self.temperature
        return Expected(value, 8 * EPSILON[self.dtype] * (4.0 + size) * np.maximum(value, 1e-30))


def logits_cases(
    *,
    regimes: tuple[str, ...] = ("unit", "large", "tiny"),
    temperatures: tuple[float, ...] = TEMPERATURES,
) -> st.SearchStrategy[LogitsCase]:
    """Any temperature, at every scale."""
    return st.builds(
        LogitsCase,
        B=st.integers(1, 4),
        V=st.integers(2, 12),
        temperature=st.sampled_from(temperatures),
        regime=st.sampled_from(regimes),
        dtype=dtypes(),
        seed=seeds(),
    )
