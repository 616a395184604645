"""Defects of what generation leaves behind. Shapes: source (B, S), logits (B, n, V) and (B, V)."""

from __future__ import annotations

from typing import Any

import numpy as np

from attest.judging.catalogue import defect
from attest.reference.decoding.cache import State
from attest.reference.decoding.generator import Hypothesis, ReferenceGenerator
from attest.reference.decoding.sampling import GREEDY_BELOW, Sampling
from attest.reference.models.transformer import ReferenceTransformer
from attest.reference.tape import Array


def in_a_buffer(owner: Any, name: str, fresh: Array) -> Array:
    """The one array that its owner has for results of this name and shape, with these values now."""
    buffers: dict[Any, Array] = owner.__dict__.setdefault("result_buffers", {})
    buffer = buffers.setdefault((name, fresh.shape), np.empty_like(fresh))
    buffer[...] = fresh
    return buffer


@defect("M6.11")
class source_overwritten(ReferenceGenerator):
    """The caller's source is changed in place."""

    def __call__(self, *, source: Array, **request: Any) -> dict[str, Array]:  # type: ignore[override]
        seen = super().__call__(source=source, **request)
        source[:, 0] = self.config.pad_id
        return seen


@defect("M6.11")
class answers_in_a_buffer(ReferenceGenerator):
    """Tokens and scores lie in buffers that the next call overwrites."""

    def __call__(self, **request: Any) -> dict[str, Array]:
        return {name: in_a_buffer(self, name, array) for name, array in super().__call__(**request).items()}


@defect("M6.11")
class refusal_leaves_eval(ReferenceGenerator):
    """The mode is changed before the request is checked, and an exception skips the way back."""

    def __call__(self, **request: Any) -> dict[str, Array]:
        seed = self.seed
        self.eval()
        seen = super().__call__(**request)
        self.seed = seed
        return seen


@defect("M6.11")
class drawing_seeds_the_world(ReferenceGenerator):
    """method sample seeds numpy's global generator."""

    def walk(self, source: Array, max_len: int, chosen: dict[str, Any]) -> list[Hypothesis]:
        if chosen["method"] == "sample":
            np.random.seed(chosen["seed"])
        return super().walk(source, max_len, chosen)


@defect("M6.11")
class step_logits_in_a_buffer(ReferenceTransformer):
    """The logits of a step lie in a buffer that the next step overwrites."""

    def step(self, state: State, tokens: Array) -> tuple[Array, State]:
        logits, grown = super().step(state, tokens)
        return in_a_buffer(self, "logits", logits), grown


@defect("M6.11")
class logits_divided_in_place(Sampling):
    """The temperature divides the caller's own logits."""

    def next_token_distribution(
        self, logits: Array, temperature: float = 1.0, top_k: int | None = None, top_p: float | None = None
    ) -> Array:
        p = super().next_token_distribution(logits, temperature, top_k, top_p)
        if temperature >= GREEDY_BELOW:
            logits /= temperature
        return p


def in_its_own_order(x: Array) -> Array:
    """Its numbers in the order of its memory."""
    return x.ravel(order="K").reshape(x.shape)


@defect("M6.12")
class source_read_in_its_own_order(ReferenceGenerator):
    """The source is read in the order of its memory, whatever its strides say."""

    def __call__(self, *, source: Array, **request: Any) -> dict[str, Array]:  # type: ignore[override]
        return super().__call__(source=in_its_own_order(source), **request)


@defect("M6.12")
class steps_read_in_their_own_order(ReferenceTransformer):
    """The tokens of a step are read in the order of their memory."""

    def step(self, state: State, tokens: Array) -> tuple[Array, State]:
        return super().step(state, in_its_own_order(tokens))


@defect("M6.12")
class logits_read_in_their_own_order(Sampling):
    """Logits are divided in the order of their memory."""

    def temper(self, logits: Array, temperature: float) -> Array:
        return super().temper(in_its_own_order(logits), temperature)
