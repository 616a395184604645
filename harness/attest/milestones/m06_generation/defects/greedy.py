"""Defects of greedy generation, of calls that depend on others, and of requests that should be refused.

Shapes: B batch, L tokens. A hypothesis belongs to one row of the batch.
"""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import numpy as np

from attest.judging.catalogue import defect
from attest.reference.decoding.cache import Cache, LayerCache, State
from attest.reference.decoding.generator import Hypothesis, ReferenceGenerator
from attest.reference.decoding.sampling import GREEDY_BELOW, Sampling
from attest.reference.parts.where import Where
from attest.reference.scope import Scope
from attest.reference.tape import Array, Var, leaf
from attest.reference.validation import check_size

Ranked = list[list[tuple[Hypothesis, float]]]


@defect("M6.1")
class ignores_eos(ReferenceGenerator):
    """EOS is a token like any other: generation always goes on to max_len."""

    def ends(self, token: int) -> bool:
        return False


@defect("M6.1", "M6.9")
class batch_stops_on_any_eos(ReferenceGenerator):
    """The whole batch ends with the first row that ends."""

    def still_going(self, live: list[Hypothesis]) -> list[int]:
        going = super().still_going(live)
        return going if len(going) == len(live) else []


@defect("M6.1", "M6.9")
class keeps_writing_after_eos(ReferenceGenerator):
    """A row that has ended goes on until all have ended."""

    def still_going(self, live: list[Hypothesis]) -> list[int]:
        ended = all(self.config.eos_id in h.tokens for h in live)
        return [] if ended else list(range(len(live)))


@defect("M6.1")
class first_position_logits(ReferenceGenerator):
    """The next token is read off the first position of the prefix, not the last."""

    def advance(self, state: State, tokens: Array, p: Scope | None = None) -> tuple[Array, State]:
        p = self.scope() if p is None else p
        _, grown = self.parts.cache.step(state, tokens, p)
        return self.parts.model(grown.source, grown.tokens, p).value[:, 0], grown


@defect("M6.1")
class returns_bos(ReferenceGenerator):
    """The start token is returned in front of the answer."""

    def packed(self, results: Ranked, chosen: dict[str, Any]) -> dict[str, Array]:
        bos = self.config.bos_id
        return super().packed(
            [[(replace(h, tokens=(bos, *h.tokens)), s) for h, s in row] for row in results], chosen
        )


@defect("M6.1")
class leaves_out_eos(ReferenceGenerator):
    """The end token is cut off the answer."""

    def packed(self, results: Ranked, chosen: dict[str, Any]) -> dict[str, Array]:
        seen = super().packed(results, chosen)
        seen["tokens"][seen["tokens"] == self.config.eos_id] = self.config.pad_id
        return seen


@defect("M6.1")
class pads_with_eos(ReferenceGenerator):
    """Behind the end of a row the end token is repeated."""

    def packed(self, results: Ranked, chosen: dict[str, Any]) -> dict[str, Array]:
        seen = super().packed(results, chosen)
        seen["tokens"][seen["tokens"] == self.config.pad_id] = self.config.eos_id
        return seen


@defect("M6.1")
class stops_one_token_early(ReferenceGenerator):
    """max_len counts the start token."""

    def search(self, source: Array, max_len: int, chosen: dict[str, Any]) -> Ranked:
        return super().search(source, max(1, max_len - 1), chosen)


@defect("M6.1")
class writes_one_token_more(ReferenceGenerator):
    """One token more than max_len."""

    def search(self, source: Array, max_len: int, chosen: dict[str, Any]) -> Ranked:
        return super().search(source, min(self.config.max_len, max_len + 1), chosen)


@defect("M6.1a")
class last_of_equals(ReferenceGenerator):
    """Among equal logits the highest id is taken."""

    def choose(
        self, logits: Array, live: list[Hypothesis], draws: list[Any], chosen: dict[str, Any]
    ) -> list[int]:
        if chosen["method"] != "greedy":
            return super().choose(logits, live, draws, chosen)
        return [int(i) for i in logits.shape[-1] - 1 - logits[:, ::-1].argmax(axis=-1)]


@defect("M6.1")
class special_ids_hardcoded(ReferenceGenerator):
    """EOS is taken to be 2 whatever the config says."""

    def ends(self, token: int) -> bool:
        return token == 2


@defect("M6.1")
class score_per_token(ReferenceGenerator):
    """Greedy's score is the mean log-probability, not the sum."""

    def search(self, source: Array, max_len: int, chosen: dict[str, Any]) -> Ranked:
        found = super().search(source, max_len, chosen)
        if chosen["method"] == "beam":
            return found
        return [[(h, score / len(h.tokens)) for h, score in row] for row in found]


@defect("M6.9", "M6.3")
class padding_leaks_into_generation(Cache):
    """Cross-attention sees the source's padding while decoding step by step."""

    def cached_layer(self, x: Var, held: LayerCache, p: Scope, where: Where) -> tuple[Var, LayerCache]:
        return super().cached_layer(x, held, p, where.but(memory_mask=np.ones_like(where.memory_mask)))


@defect("M6.9")
class leaves_eval(ReferenceGenerator):
    """Generation switches to evaluation and does not switch back."""

    def __call__(self, **request: Any) -> dict[str, Array]:
        self.eval()
        return super().__call__(**request)


@defect("M6.9")
class dropout_while_generating(ReferenceGenerator):
    """In train mode tokens are chosen with dropout on."""

    def search(self, source: Array, max_len: int, chosen: dict[str, Any]) -> Ranked:
        self.parts.noise = self.noise()
        try:
            return super().search(source, max_len, chosen)
        finally:
            self.parts.noise = None


@defect("M6.9")
class answer_kept_by_shape(ReferenceGenerator):
    """What was encoded for the last source of the same shape is used again."""

    def begin(self, source: Array) -> tuple[Array, State]:
        held: dict[Any, Any] = self.__dict__.setdefault("held", {})
        if source.shape not in held:
            held[source.shape] = super().begin(source)
        logits, state = held[source.shape]
        return logits, state


@defect("M6.9a")
class left_padding_moves_positions(ReferenceGenerator):
    """Positions are counted from the first pad."""

    def left_aligned(self, source: Array) -> Array:
        return source


@defect("M6.10")
class width_zero_returns_empty(ReferenceGenerator):
    """A beam of no hypotheses gives no results instead of an error."""

    def __call__(self, *, source: Array, max_len: int, **settings: Any) -> dict[str, Array]:  # type: ignore[override]
        if settings.get("width", 4) < 1:
            return {"tokens": np.zeros((len(source), 0, 0), np.int64), "scores": np.zeros((len(source), 0))}
        return super().__call__(source=source, max_len=max_len, **settings)


@defect("M6.10", "M6.2")
class clips_the_number_of_results(ReferenceGenerator):
    """More results than hypotheses are asked for, and fewer come back."""

    def __call__(self, *, source: Array, max_len: int, **settings: Any) -> dict[str, Array]:  # type: ignore[override]
        width = settings.get("width", 4)
        asked = min(settings.get("num_results", 1), max(width, 1))
        return super().__call__(source=source, max_len=max_len, **{**settings, "num_results": asked})


@defect("M6.10")
class nan_temperature_accepted(Sampling):
    """NaN is not below zero, so it passes; it is then taken for greedy."""

    def check_sampling(self, temperature: float, top_k: int | None, top_p: float | None) -> None:
        super().check_sampling(0.0 if math.isnan(temperature) else temperature, top_k, top_p)

    def next_token_distribution(
        self, logits: Array, temperature: float = 1.0, top_k: int | None = None, top_p: float | None = None
    ) -> Array:
        return super().next_token_distribution(
            logits, temperature if temperature >= GREEDY_BELOW else 0.0, top_k, top_p
        )


@defect("M6.10")
class clips_max_len(ReferenceGenerator):
    """A length beyond the table of positions is cut to it in silence."""

    def check_limit(self, max_len: int) -> None:
        check_size("max_len", max_len)

    def search(self, source: Array, max_len: int, chosen: dict[str, Any]) -> Ranked:
        return super().search(source, min(max_len, self.config.max_len), chosen)


@defect("M6.10")
class top_p_above_one_accepted(Sampling):
    """Any top_p from 1 on keeps all tokens."""

    def check_sampling(self, temperature: float, top_k: int | None, top_p: float | None) -> None:
        super().check_sampling(temperature, top_k, None if top_p is None else min(top_p, 1.0))


@defect("M6.10")
class source_ids_wrap(ReferenceGenerator):
    """An id outside the vocabulary is counted from the other end."""

    def accept(self, inputs: Any) -> dict[str, Any]:
        return super().accept({"source": np.asarray(inputs["source"]) % self.config.source_vocab})


@defect("M6.10a")
class refuses_without_a_reason(ReferenceGenerator):
    """Every refusal is the same RuntimeError."""

    def __call__(self, **request: Any) -> dict[str, Array]:
        try:
            return super().__call__(**request)
        except ValueError:
            raise RuntimeError("generation failed") from None


@defect("M6.6", "M6.1")
class generates_from_untrained_copy(ReferenceGenerator):
    """The generator keeps the weights it was built with and ignores what is loaded."""

    def scope(self, gradient: bool = False) -> Scope:
        return Scope({name: leaf(value) for name, value in self.initial().items()})


@defect("M6.6")
class keeps_the_first_weights(ReferenceGenerator):
    """What was loaded first stays in use after a second load."""

    def load(self, parameters: Any) -> None:
        if self._values is None:
            super().load(parameters)
