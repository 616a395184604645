"""Defects of temperature, top-k, top-p and of drawing. Shapes: logits and probabilities (B, V)."""

from __future__ import annotations

from typing import Any

import numpy as np

from attest.judging.catalogue import defect
from attest.reference.decoding.generator import Hypothesis, ReferenceGenerator
from attest.reference.decoding.sampling import GREEDY_BELOW, Sampling, normalised, ranks
from attest.reference.tape import Array


@defect("M6.7", "M6.7a")
class temperature_inverted(Sampling):
    """Logits are multiplied by the temperature."""

    def temper(self, logits: Array, temperature: float) -> Array:
        return logits * temperature


@defect("M6.7")
class temperature_after_softmax(Sampling):
    """Probabilities are divided by the temperature and normalised again, which does nothing."""

    def temper(self, logits: Array, temperature: float) -> Array:
        return logits


@defect("M6.7")
class divides_by_zero(Sampling):
    """Temperature 0 is divided by."""

    def best_only(self, logits: Array) -> Array:
        return normalised(logits / 0.0)


@defect("M6.7")
class only_zero_is_greedy(Sampling):
    """A temperature just above 0 overflows."""

    def next_token_distribution(
        self, logits: Array, temperature: float = 1.0, top_k: int | None = None, top_p: float | None = None
    ) -> Array:
        if 0 < temperature < GREEDY_BELOW:
            return normalised(np.asarray(logits, dtype=np.float32) / np.float32(temperature))
        return super().next_token_distribution(logits, temperature, top_k, top_p)


@defect("M6.7")
class cold_is_greedy(Sampling):
    """Every temperature below 0.01 is taken for 0."""

    def next_token_distribution(
        self, logits: Array, temperature: float = 1.0, top_k: int | None = None, top_p: float | None = None
    ) -> Array:
        cold = 0.0 <= temperature < 0.01
        return super().next_token_distribution(logits, 0.0 if cold else temperature, top_k, top_p)


@defect("M6.7")
class equal_maxima_share(Sampling):
    """At temperature 0 equal maxima share the probability."""

    def best_only(self, logits: Array) -> Array:
        best: Array = logits == logits.max(axis=-1, keepdims=True)
        shared: Array = best / best.sum(axis=-1, keepdims=True)
        return shared


@defect("M6.7a")
class top_p_drops_crossing_token(Sampling):
    """The token that crosses p is cut off; the likeliest stays."""

    def keep_top_p(self, probabilities: Array, top_p: float) -> Array:
        if top_p >= 1.0:
            return super().keep_top_p(probabilities, top_p)
        order = ranks(probabilities)
        sums = np.cumsum(-np.sort(-probabilities, axis=-1), axis=-1)
        kept: Array = (np.take_along_axis(sums, order, axis=-1) <= top_p) | (order == 0)
        return kept


@defect("M6.7a")
class top_p_keeps_one_too_many(Sampling):
    """The token after the one that crosses p is kept too."""

    def keep_top_p(self, probabilities: Array, top_p: float) -> Array:
        kept: Array = ranks(probabilities) <= super().keep_top_p(probabilities, top_p).sum(-1, keepdims=True)
        return kept


@defect("M6.7a")
class top_p_one_is_argmax(Sampling):
    """top_p = 1 keeps the likeliest token only."""

    def keep_top_p(self, probabilities: Array, top_p: float) -> Array:
        if top_p < 1.0:
            return super().keep_top_p(probabilities, top_p)
        kept: Array = ranks(probabilities) == 0
        return kept


@defect("M6.7a")
class top_k_plus_one(Sampling):
    """k + 1 tokens are kept."""

    def keep_top_k(self, logits: Array, top_k: int) -> Array:
        return super().keep_top_k(logits, top_k + 1)


@defect("M6.7b")
class an_unstable_sort_cuts(Sampling):
    """Beyond 16 tokens the sort no longer keeps the order of equals."""

    def keep_top_k(self, logits: Array, top_k: int) -> Array:
        V = logits.shape[-1]
        shift = 0 if V <= 16 else V // 2
        kept: Array = np.roll(super().keep_top_k(np.roll(logits, shift, axis=-1), top_k), -shift, axis=-1)
        return kept


@defect("M6.7a")
class top_k_keeps_the_least(Sampling):
    """The k least likely tokens are kept."""

    def keep_top_k(self, logits: Array, top_k: int) -> Array:
        return super().keep_top_k(-logits, top_k)


@defect("M6.7a")
class not_renormalised(Sampling):
    """What is kept does not sum to one."""

    def next_token_distribution(
        self, logits: Array, temperature: float = 1.0, top_k: int | None = None, top_p: float | None = None
    ) -> Array:
        kept = super().next_token_distribution(logits, temperature, top_k, top_p)
        return np.where(kept > 0, super().next_token_distribution(logits, temperature), 0.0)


@defect("M6.7a")
class top_p_before_top_k(Sampling):
    """The nucleus is taken of all tokens, then the k likeliest."""

    def next_token_distribution(
        self, logits: Array, temperature: float = 1.0, top_k: int | None = None, top_p: float | None = None
    ) -> Array:
        wide = super().next_token_distribution(logits, temperature, None, top_p)
        narrow = super().next_token_distribution(logits, temperature, top_k, None)
        kept = np.where(wide > 0, narrow, 0.0)
        shared: Array = kept / kept.sum(axis=-1, keepdims=True)
        return shared


@defect("M6.7a")
class top_p_before_temperature(Sampling):
    """The nucleus is taken before the temperature."""

    def next_token_distribution(
        self, logits: Array, temperature: float = 1.0, top_k: int | None = None, top_p: float | None = None
    ) -> Array:
        if temperature < GREEDY_BELOW or top_p is None:
            return super().next_token_distribution(logits, temperature, top_k, top_p)
        nucleus = super().next_token_distribution(logits, 1.0, top_k, top_p)
        kept = np.where(nucleus > 0, super().next_token_distribution(logits, temperature, top_k), 0.0)
        shared: Array = kept / kept.sum(axis=-1, keepdims=True)
        return shared


Draws = list[np.random.Generator]


@defect("M6.7a")
class same_draw_every_step(ReferenceGenerator):
    """The generator is seeded again at every step."""

    def choose(
        self, logits: Array, live: list[Hypothesis], draws: Draws, chosen: dict[str, Any]
    ) -> list[int]:
        again = [np.random.default_rng([chosen["seed"], row]) for row in range(len(draws))]
        return super().choose(logits, live, again, chosen)


@defect("M6.7a")
class rows_share_a_draw(ReferenceGenerator):
    """Every row of the batch uses the same random number."""

    def choose(
        self, logits: Array, live: list[Hypothesis], draws: Draws, chosen: dict[str, Any]
    ) -> list[int]:
        step = len(live[0].tokens)
        shared = [np.random.default_rng([chosen["seed"], step]) for _ in draws]
        return super().choose(logits, live, shared, chosen)


@defect("M6.7a")
class seed_ignored(ReferenceGenerator):
    """Draws come from a fresh generator and never repeat."""

    def choose(
        self, logits: Array, live: list[Hypothesis], draws: Draws, chosen: dict[str, Any]
    ) -> list[int]:
        return super().choose(logits, live, [np.random.default_rng() for _ in draws], chosen)


@defect("M6.7a")
class one_seed_for_all(ReferenceGenerator):
    """Whatever the seed, the draws are the same."""

    def walk(self, source: Array, max_len: int, chosen: dict[str, Any]) -> list[Hypothesis]:
        return super().walk(source, max_len, {**chosen, "seed": 0})


@defect("M6.7a")
class draws_ignore_the_temperature(ReferenceGenerator):
    """Tokens are drawn at temperature 1 whatever was asked."""

    def walk(self, source: Array, max_len: int, chosen: dict[str, Any]) -> list[Hypothesis]:
        cold = chosen["temperature"] < GREEDY_BELOW
        return super().walk(source, max_len, chosen if cold else {**chosen, "temperature": 1.0})


@defect("M6.7")
class drawing_at_zero_temperature_is_random(ReferenceGenerator):
    """Temperature 0 counts as not given when drawing."""

    def walk(self, source: Array, max_len: int, chosen: dict[str, Any]) -> list[Hypothesis]:
        return super().walk(source, max_len, {**chosen, "temperature": chosen["temperature"] or 1.0})


@defect("M6.7a")
class another_default_seed(ReferenceGenerator):
    """Without a seed the draws are those of seed 1."""

    def defaults(self) -> dict[str, Any]:
        return {**super().defaults(), "seed": 1}


@defect("M6.7a")
class nucleus_of_the_first_row(Sampling):
    """Every row keeps as many tokens as the first one needs to reach top_p."""

    def keep_top_p(self, probabilities: Array, top_p: float) -> Array:
        return self.keep_top_k(probabilities, int(super().keep_top_p(probabilities[:1], top_p).sum()))
