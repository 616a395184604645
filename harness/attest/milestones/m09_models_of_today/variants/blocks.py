"""Correct but unusual norms, gated feed-forward networks and language models."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from attest.judging.catalogue import variant
from attest.reference import ops
from attest.reference.decoding.cache import Kept, Room
from attest.reference.decoding.generator import Hypothesis
from attest.reference.decoding.text_cache import TextCache, TextState
from attest.reference.models.decoder_only import DecoderOnly
from attest.reference.models.language_model import ReferenceCompleter, ReferenceLanguageModel
from attest.reference.parts.embedding import Logits
from attest.reference.parts.feed_forward import FeedForward, Silu
from attest.reference.parts.heads import MultiHead
from attest.reference.parts.norms import RMSNorm
from attest.reference.scope import Scope
from attest.reference.tape import Array, Var, node
from attest.reference.training.loss import TextLoss


@variant("M9")
class rms_by_the_length(RMSNorm):
    """The Euclidean length, with D times eps under its root, divides; sqrt(D) multiplies."""

    def __call__(self, x: Var, p: Scope) -> Var:
        D = x.shape[-1]
        length = np.sqrt((x.value * x.value).sum(axis=-1, keepdims=True) + D * self.config.norm_eps)
        unit = x.value / length

        def backward(g: Array) -> tuple[Array]:
            return ((g - unit * (g * unit).sum(axis=-1, keepdims=True)) / length,)

        return ops.mul(ops.scale(node(unit, (x,), backward), math.sqrt(D)), p["weight"])


@variant("M9")
class rms_of_scaled_numbers(RMSNorm):
    """The largest number is taken out before the squares, so that they cannot overflow."""

    def __call__(self, x: Var, p: Scope) -> Var:
        top = np.maximum(np.abs(x.value).max(axis=-1, keepdims=True), 1e-30)
        small = x.value / top
        root = np.sqrt((small * small).mean(axis=-1, keepdims=True) + self.config.norm_eps / top**2)
        h = small / root

        def backward(g: Array) -> tuple[Array]:
            return ((g - h * (g * h).mean(axis=-1, keepdims=True)) / (root * top),)

        return ops.mul(node(h, (x,), backward), p["weight"])


@variant("M9")
class gate_and_inner_in_one_product(FeedForward):
    """The weights of gate and inner map are stacked; one product gives both."""

    def features(self, x: Var, p: Scope) -> Var:
        if not self.config.gated:
            return super().features(x, p)
        weight = ops.concat([p["gate.weight"], p["inner.weight"]], axis=0)
        both = ops.matmul(x, ops.swap(weight))
        if self.config.bias:
            both = ops.add(both, ops.concat([p["gate.bias"], p["inner.bias"]]))
        F = both.shape[-1] // 2
        return self.gated(ops.columns(both, 0, F), ops.columns(both, F, 2 * F))


@variant("M9")
class silu_by_tanh(Silu):
    """The logistic function as (1 + tanh(x / 2)) / 2, in float64."""

    def __call__(self, x: Var) -> Var:
        share = 0.5 * (1 + np.tanh(0.5 * x.value))
        return ops.elementwise(x, x.value * share, share + x.value * share * (1 - share))


@variant("M9", spared=("M9.27",))
class tokens_are_the_state(TextCache):
    """Nothing is kept but the tokens: every step runs the model over all of them. Right, and slow."""

    def step(self, state: TextState, tokens: Array, p: Scope) -> tuple[Var, TextState]:
        model = self.parts.language_model
        read = np.concatenate([state.tokens, tokens], axis=1)
        real = model.real(read)
        positions = model.positions(real, np.zeros(len(read), np.int64))
        self.check_room(positions)
        logits = model(read, p).value[:, -tokens.shape[1] :]
        return Var(logits), TextState(read, real, positions, ())


@variant("M9")
class text_cache_by_concatenation(TextCache):
    """Every step joins old and new keys into a new array."""

    def append(self, held: Kept, new: Array) -> Kept:
        return Kept(np.concatenate([held.array, new], axis=2))


@variant("M9")
class text_cache_of_full_length(TextCache):
    """Keys and values have room for max_len tokens from the start, and the places in use are cut out."""

    def append(self, held: Kept, new: Array) -> Kept:
        start, stop = held.array.shape[2], held.array.shape[2] + new.shape[2]
        whole = np.full((*new.shape[:2], max(self.config.max_len, stop), new.shape[3]), np.nan)
        whole[:, :, :start], whole[:, :, start:stop] = held.array, new
        return Kept(whole[:, :, :stop], Room(whole, stop))


@variant("M9")
class prompt_token_by_token(TextCache):
    """A step of several tokens is several steps of one."""

    def step(self, state: TextState, tokens: Array, p: Scope) -> tuple[Var, TextState]:
        said = []
        for column in range(tokens.shape[1]):
            logits, state = super().step(state, tokens[:, column : column + 1], p)
            said.append(logits)
        return ops.concat(said, axis=1), state


@variant("M9")
class positions_begin_elsewhere(DecoderOnly):
    """Where only distances count, the first token stands at 7."""

    def positions(self, real: Array, before: Array) -> Array:
        return super().positions(real, before) + (0 if self.config.ends_at_max_len else 7)


@variant("M9")
class groups_repeated(MultiHead):
    """Keys and values are repeated for the heads of their group, one after the other."""

    def shared(self, x: Var) -> Var:
        share = self.config.num_heads // self.config.kv_heads
        parts = [ops.index(x, (slice(None), [g])) for g in range(self.config.kv_heads) for _ in range(share)]
        return ops.concat(parts, axis=1)


@variant("M9")
class head_in_two_halves(Logits):
    """The logits of the lower and of the upper half of the vocabulary are computed apart."""

    def __call__(self, x: Var, p: Scope) -> Var:
        weight, bias = self.weight(p), p.get("projection.bias")
        half = weight.shape[0] // 2
        halves = [ops.index(weight, slice(0, half)), ops.index(weight, slice(half, None))]
        logits = ops.concat([ops.matmul(self.scaled(x), ops.swap(part)) for part in halves])
        return logits if bias is None else ops.add(logits, bias)


@variant("M9")
class nothing_said_under_padding(DecoderOnly):
    """Logits under padding are zeros."""

    def __call__(self, ids: Array, p: Scope) -> Var:
        return ops.where(self.real(ids)[..., None], super().__call__(ids, p), 0.0)


@variant("M9")
class text_loss_by_masking(TextLoss):
    """All positions are asked, and a last column of padding takes the place of what does not follow."""

    def shifted(self, logits: Var, ids: Array) -> tuple[Var, Array]:
        end = np.full_like(ids[:, :1], self.config.pad_id)
        return logits, np.concatenate([ids[:, 1:], end], axis=1)


@variant("M9")
class prompts_one_by_one(ReferenceCompleter):
    """Every prompt is continued alone, without its padding."""

    def search(
        self, prompt: Array, max_len: int, chosen: dict[str, Any]
    ) -> list[list[tuple[Hypothesis, float]]]:
        if chosen["method"] == "sample":
            return super().search(prompt, max_len, chosen)
        alone = [row[row != self.config.pad_id][None] for row in prompt]
        return [super(prompts_one_by_one, self).search(row, max_len, chosen)[0] for row in alone]


@variant("M9")
class completion_of_full_length(ReferenceCompleter):
    """Tokens always have room for max_len of them, padded."""

    def __call__(self, *, max_len: int, **settings: Any) -> dict[str, Array]:  # type: ignore[override]
        seen = super().__call__(max_len=max_len, **settings)
        wider = max_len - seen["tokens"].shape[-1]
        pad = self.config.pad_id
        seen["tokens"] = np.pad(seen["tokens"], ((0, 0), (0, 0), (0, wider)), constant_values=pad)
        return seen


@variant("M9", spared=("M9.8a",))
class cache_that_cannot_go_back(ReferenceLanguageModel):
    """rewind is refused, as where a ring has lost what would come back."""

    def rewind(self, state: TextState, count: int) -> TextState:
        raise NotImplementedError("this cache cannot go back")
