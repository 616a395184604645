"""Defects that show only in long outputs, wide beams, rare tokens, other seeds or equal logits.

Shapes: B batch, W width, V vocabulary, t tokens so far.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from attest.judging.catalogue import defect
from attest.reference.decoding.cache import Cache, Kept, State
from attest.reference.decoding.generator import Hypothesis, ReferenceGenerator
from attest.reference.decoding.sampling import Sampling
from attest.reference.scope import Scope
from attest.reference.tape import Array, Var

Scored = list[tuple[Hypothesis, float]]
Extended = tuple[list[Hypothesis], list[Hypothesis], list[int]]


@defect("M6.2")
class one_candidate_too_few(ReferenceGenerator):
    """2W - 1 continuations are taken, so that W hypotheses that end leave one place empty."""

    def best(
        self, live: list[Hypothesis], logs: Array, places: list[int], count: int
    ) -> list[tuple[int, int]]:
        return super().best(live, logs, places, count - 1)


@defect("M6.2")
class wide_beams_cut_to_four(ReferenceGenerator):
    """No more than four hypotheses are followed, as many as the default."""

    def extend(self, live: list[Hypothesis], logs: Array, width: int) -> Extended:
        return super().extend(live, logs, min(width, 4))

    def done(self, finished: list[Hypothesis], live: list[Hypothesis], width: int) -> bool:
        return super().done(finished, live, min(width, 4))


@defect("M6.2")
class empty_beams_finish(ReferenceGenerator):
    """The first step has W rows, all but one at minus infinity; what ends among them counts as finished."""

    def extend(self, live: list[Hypothesis], logs: Array, width: int) -> Extended:
        ended, open_, parents = super().extend(live, logs, width)
        if not live[0].tokens:
            empty = max(0, width - logs.shape[-1])
            for row in sorted({h.row for h in live}):
                nothing = Hypothesis(row, (self.config.eos_id,), -np.inf)
                ended += [nothing] * min(empty, width - 1)
        return ended, open_, parents

    def ranked(self, finished: list[Hypothesis], alpha: float) -> Scored:
        return super().ranked([h for h in finished if np.isfinite(h.log_probability)], alpha)


class KeptWindow(Cache):
    """A cache that forgets: the last tokens only are kept."""

    window = 0

    def append(self, held: Kept, new: Array) -> Kept:
        grown = super().append(held, new)
        kept = grown.array.copy()
        kept[:, :, : max(0, kept.shape[2] - self.window)] = 0.0
        return Kept(kept)


@defect("M6.1", "M6.3")
class cache_of_16_tokens(KeptWindow):
    """Keys and values more than 16 tokens back are overwritten."""

    window = 16


@defect("M6.1", "M6.3")
class cache_of_32_tokens(KeptWindow):
    """Keys and values more than 32 tokens back are overwritten."""

    window = 32


@defect("M6.1", "M6.3")
class cached_memory_of_64(Cache):
    """A cached step reads the first 64 positions of the source."""

    def step(self, state: State, tokens: Array, p: Scope) -> tuple[Var, State]:
        shown = state.source.copy()
        shown[:, 64:] = self.config.pad_id
        logits, grown = super().step(State(shown, state.tokens, state.allowed, state.layers), tokens, p)
        return logits, State(state.source, grown.tokens, grown.allowed, grown.layers)


@defect("M6.1")
class long_outputs_repeat(ReferenceGenerator):
    """From the 25th token on greedy writes the token before."""

    def choose(
        self, logits: Array, live: list[Hypothesis], draws: list[np.random.Generator], chosen: dict[str, Any]
    ) -> list[int]:
        written = super().choose(logits, live, draws, chosen)
        late = len(live[0].tokens) >= 24
        return [h.tokens[-1] for h in live] if late else written


@defect("M6.2a")
class long_scores_forget(ReferenceGenerator):
    """The log-probability of a hypothesis is kept for its last 32 tokens."""

    def ranked(self, finished: list[Hypothesis], alpha: float) -> Scored:
        return super().ranked([self.shortened(h) for h in finished], alpha)

    def shortened(self, h: Hypothesis) -> Hypothesis:
        n = len(h.tokens)
        return h if n <= 32 else Hypothesis(h.row, h.tokens, h.log_probability * 32 / n)


@defect("M6.7a")
class rare_tokens_never_drawn(ReferenceGenerator):
    """Tokens of less than half a percent are never drawn."""

    def choose(
        self, logits: Array, live: list[Hypothesis], draws: list[np.random.Generator], chosen: dict[str, Any]
    ) -> list[int]:
        top = logits.max(axis=-1, keepdims=True)
        p = np.exp(logits - top) / np.exp(logits - top).sum(axis=-1, keepdims=True)
        return super().choose(np.where(p < 0.005, -1e9, logits), live, draws, chosen)


class SeedsMadeFew(ReferenceGenerator):
    """Draws that use less of their seed than there is."""

    kept = 1

    def walk(self, prompt: Array, max_len: int, chosen: dict[str, Any]) -> list[Hypothesis]:
        return super().walk(prompt, max_len, {**chosen, "seed": chosen["seed"] % self.kept})


@defect("M6.7a")
class parity_of_the_seed(SeedsMadeFew):
    """Of the seed only its last bit counts."""

    kept = 2


@defect("M6.7a")
class last_byte_of_the_seed(SeedsMadeFew):
    """Of the seed only its last byte counts."""

    kept = 256


@defect("M6.9")
class sampling_leaves_eval(ReferenceGenerator):
    """After a draw the model is in eval mode whatever it was before."""

    def walk(self, prompt: Array, max_len: int, chosen: dict[str, Any]) -> list[Hypothesis]:
        written = super().walk(prompt, max_len, chosen)
        if chosen["method"] == "sample":
            self.eval()
        return written


@defect("M6.9")
class beam_search_leaves_eval(ReferenceGenerator):
    """After a beam search the model is in eval mode whatever it was before."""

    def beam(self, prompt: Array, max_len: int, width: int, num_results: int, alpha: float) -> list[Scored]:
        found = super().beam(prompt, max_len, width, num_results, alpha)
        self.eval()
        return found


@defect("M6.7a")
class equal_logits_all_cut(Sampling):
    """Only tokens above the k-th largest logit are kept, and the likeliest where that leaves none."""

    def keep_top_k(self, logits: Array, top_k: int) -> Array:
        if top_k >= logits.shape[-1]:
            return np.ones(logits.shape, dtype=bool)
        kth = -np.sort(-logits, axis=-1)[:, top_k : top_k + 1]
        kept: Array = (logits > kth) | (logits == logits.max(axis=-1, keepdims=True))
        return kept


@defect("M6.7b")
class equal_logits_all_kept(Sampling):
    """Every token whose logit is equal to the k-th largest is kept."""

    def keep_top_k(self, logits: Array, top_k: int) -> Array:
        kth = -np.sort(-logits, axis=-1)[:, min(top_k, logits.shape[-1]) - 1][:, None]
        kept: Array = logits >= kth
        return kept


@defect("M6.1")
class equal_logits_drawn(ReferenceGenerator):
    """Greedy draws one of several equal logits, another one in every call."""

    calls = 0

    def choose(
        self, logits: Array, live: list[Hypothesis], draws: list[np.random.Generator], chosen: dict[str, Any]
    ) -> list[int]:
        if chosen["method"] != "greedy":
            return super().choose(logits, live, draws, chosen)
        self.calls += 1
        noise = np.random.default_rng(self.calls).random(logits.shape)
        return [int(i) for i in np.where(logits == logits.max(-1, keepdims=True), noise, -1.0).argmax(-1)]
