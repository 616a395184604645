"""Positions, self-attention and language models as operations: arguments checked, then the layer.

Shapes: B batch, T tokens, n new ones, H heads, d width of a head, D width, V vocabulary.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from attest.contract import Array, Arrays, Config

from . import arguments, language_model, packing
from .component import Component, Cotangent, Outputs
from .embedding import position_table
from .generation import generate
from .language_model import CausalLayer, LanguageModel, TextState
from .layers import Cache, DType, Layer, Random
from .loss import CrossEntropy
from .positions import LearnedPositions, RelativeBias, Rotary
from .self_attention import Place, SelfAttention, placed


class RotaryOperation(Component[Rotary]):
    """x (B, H, T, d) turned to positions (B, T)."""

    def __init__(self, config: Config, dtype: DType, rng: Random) -> None:
        arguments.rotary(config)
        super().__init__(Rotary(config), dtype)

    def run(self, rng: Random | None, *, x: Array, positions: Array) -> Outputs:
        x = arguments.real_array("x", x, self.dtype, rank=4)
        self.layer.turned(x.shape[-1])
        positions = arguments.position_array("positions", positions, (len(x), x.shape[2]))
        output, cache = self.layer.forward(x, positions)
        return {"output": output}, cache

    def back(self, cotangent: Cotangent, cache: Cache) -> dict[str, Array]:
        return {"x": self.layer.backward(cotangent("output"), cache)}


class RelativeBiasOperation(Component[RelativeBias]):
    """positions (B, T) and key_positions (B, S) to a bias (B, H, T, S)."""

    def __init__(self, config: Config, dtype: DType, rng: Random) -> None:
        arguments.relative(config)
        super().__init__(RelativeBias(config, dtype, rng), dtype)

    def run(
        self, rng: Random | None, *, positions: Array, key_positions: Array, causal: bool = False
    ) -> Outputs:
        given = np.asarray(positions), np.asarray(key_positions)
        for name, x in zip(("positions", "key_positions"), given):
            arguments.require(x.ndim == 2, f"{name}.shape", x.shape, "is not of rank 2", "give (B, T)")
            arguments.position_array(name, x, x.shape)
        arguments.same_batch("key_positions", given[1], len(given[0]))
        bias, cache = self.layer.forward(*given, bool(causal))
        return {"output": np.ascontiguousarray(bias)}, cache

    def back(self, cotangent: Cotangent, cache: Cache) -> dict[str, Array]:
        self.layer.backward(cotangent("output"), cache)
        return {}


class PositionalEncoding(Component[Layer]):
    """x (B, T, D) plus a fixed table, plus learned rows, or as it is: what the config's positions add."""

    def __init__(self, config: Config, dtype: DType, rng: Random) -> None:
        arguments.positive_sizes(config, "d_model", "max_len")
        arguments.one_of("positions", config.positions, arguments.POSITIONS)
        learned = config.positions == "learned"
        super().__init__(LearnedPositions(config, dtype, rng) if learned else Layer(), dtype)
        self.config = config
        self.table = None
        if config.positions == "sinusoidal":
            self.table = position_table(config.max_len, config.d_model).astype(dtype)

    def buffers(self) -> Arrays:
        return {} if self.table is None else {"positions": self.table.copy()}

    def run(self, rng: Random | None, *, x: Array) -> Outputs:
        x = arguments.real_array("x", x, self.dtype, rank=3, width=self.config.d_model)
        T = x.shape[1]
        if self.config.ends_at_max_len:
            arguments.length_within("x", T, self.config.max_len)
        if self.table is not None:
            return {"output": x + self.table[:T]}, None
        if isinstance(self.layer, LearnedPositions):
            rows, cache = self.layer.forward(np.arange(T)[None])
            return {"output": x + rows}, cache
        return {"output": x.copy()}, None

    def back(self, cotangent: Cotangent, cache: Cache) -> dict[str, Array]:
        dy = cotangent("output")
        if isinstance(self.layer, LearnedPositions):
            self.layer.backward(dy, cache)
        return {"x": dy.copy()}


def place_of(config: Config, x: Array, mask: Array | None, positions: Array | None, causal: bool) -> Place:
    """Where x (B, T, D) stands; positions count from 0 unless they are given."""
    B, T, _ = x.shape
    where = np.arange(T)[None]
    if positions is not None:
        where = arguments.position_array("positions", positions, (B, T))
    visible = arguments.batch_mask("mask", mask, B, T, T)
    return placed(config, where, where, visible, causal)


def own_table(config: Config, dtype: DType, rng: Random) -> RelativeBias | None:
    """The table of an operation by itself; in a model the stack has it."""
    return RelativeBias(config, dtype, rng) if config.positions == "relative" else None


class SelfAttentionOperation(Component[SelfAttention]):
    """x (B, T, D) attends to itself."""

    def __init__(self, config: Config, dtype: DType, rng: Random) -> None:
        arguments.attention_heads(config)
        table = own_table(config, dtype, rng)
        super().__init__(SelfAttention(config, dtype, rng, table), dtype)
        self.config = config
        if table is not None:
            self.layer.child("relative", table)

    def run(
        self,
        rng: Random | None,
        *,
        x: Array,
        mask: Array | None = None,
        positions: Array | None = None,
        causal: bool = False,
    ) -> Outputs:
        x = arguments.keys("x", x, self.dtype, self.config.d_model)
        place = place_of(self.config, x, mask, positions, bool(causal))
        output, weights, cache = self.layer.forward(x, place)
        return {"output": output, "weights": weights}, cache

    def back(self, cotangent: Cotangent, cache: Cache) -> dict[str, Array]:
        return {"x": self.layer.backward(cotangent("output"), cache, cotangent("weights"))}


class CausalLayerOperation(Component[CausalLayer]):
    """x (B, T, D) through one layer of a decoder-only model."""

    def __init__(self, config: Config, dtype: DType, rng: Random) -> None:
        arguments.causal_layer(config)
        table = own_table(config, dtype, rng)
        super().__init__(CausalLayer(config, dtype, rng, table), dtype)
        self.config = config
        if table is not None:
            self.layer.child("relative", table)

    def run(
        self, rng: Random | None, *, x: Array, mask: Array | None = None, positions: Array | None = None
    ) -> Outputs:
        x = arguments.keys("x", x, self.dtype, self.config.d_model)
        output, cache = self.layer.forward(x, place_of(self.config, x, mask, positions, True), rng)
        return {"output": output}, cache

    def back(self, cotangent: Cotangent, cache: Cache) -> dict[str, Array]:
        return {"x": self.layer.backward(cotangent("output"), cache)}


class TextComponent(Component[LanguageModel]):
    """A language model of its own, and what its ids must be."""

    def __init__(self, config: Config, dtype: DType, rng: Random) -> None:
        arguments.language_model(config)
        super().__init__(LanguageModel(config, dtype, rng), dtype)
        self.config = config

    def buffers(self) -> Arrays:
        table = self.layer.sinusoids
        return {} if table is None else {"positions": table.copy()}

    def ids(self, name: str, value: Array) -> Array:
        """As `any_ids`, and no longer than positions that end."""
        ids = self.any_ids(name, value)
        if self.config.ends_at_max_len:
            arguments.length_within(name, ids.shape[1], self.config.max_len)
        return ids

    def any_ids(self, name: str, value: Array) -> Array:
        """At least one column, inside the vocabulary."""
        ids = arguments.id_array(name, value, self.config.target_vocab)
        arguments.require(ids.shape[1] > 0, f"{name}.shape", ids.shape, "is empty", "give at least one id")
        return ids


class LanguageModelOperation(TextComponent):
    """ids (B, T) to logits (B, T, V); with `lengths` the rows hold documents side by side."""

    packed_loss = CrossEntropy(None)

    def run(self, rng: Random | None, *, ids: Array, lengths: Array | None = None) -> Outputs:
        if lengths is not None:
            return self.run_packed(self.any_ids("ids", ids), lengths, rng)
        logits, cache = self.layer.forward(self.ids("ids", ids), rng)
        return {"logits": logits}, (cache, None)

    def run_packed(self, ids: Array, lengths: Array, rng: Random | None) -> Outputs:
        """The loss is the mean over the tokens that follow another of their document."""
        layout = packing.laid_out(packing.check_lengths(self.config, lengths, ids), ids.shape[1])
        logits, cache = self.layer.at(ids, layout.positions, layout.own, rng)
        loss, judged = self.packed_loss.forward(logits[:, :-1], ids[:, 1:], real=layout.goes_on)
        return {"logits": logits, "loss": loss}, (cache, judged)

    def back(self, cotangent: Cotangent, cache: Cache) -> dict[str, Array]:
        read, judged = cache
        dlogits = cotangent("logits")
        if judged is not None:
            dlogits = dlogits.copy()
            dlogits[:, :-1] += self.packed_loss.backward(cotangent("loss"), judged)
        self.layer.backward(dlogits, read)
        return {}

    def packed(self, *, ids: Array, lengths: Array) -> Arrays:
        """logits (B, T, V) and loss () of several documents in each row."""
        return self(ids=ids, lengths=lengths)

    def start(self, rows: int) -> TextState:
        good = arguments.is_integer(rows) and rows > 0
        arguments.require(good, "rows", rows, "is not a number of rows", "give 1 or more")
        return language_model.start(self.layer, int(rows))

    def step(self, state: TextState, tokens: Array) -> tuple[Array, TextState]:
        """Append tokens (B, n), a prompt or its continuation. The old state is used up."""
        tokens = arguments.id_array("tokens", tokens, self.config.target_vocab)
        arguments.require(tokens.shape[1] > 0, "tokens.shape", tokens.shape, "is empty", "give one or more")
        arguments.same_batch("tokens", tokens, state.rows)
        counts = state.real.sum(axis=1) + self.layer.real(tokens).sum(axis=1)
        if self.config.ends_at_max_len:
            arguments.length_within("tokens", int(counts.max()), self.config.max_len)
        with np.errstate(over="ignore", invalid="ignore"):
            return language_model.step(self.layer, state, tokens)

    def reorder(self, state: TextState, rows: Array) -> TextState:
        """The state whose row i is the old row rows[i]; rows may repeat, drop and grow."""
        return language_model.reorder(state, arguments.row_numbers(rows, state.rows))

    def rewind(self, state: TextState, count: int) -> TextState:
        """The state without the last `count` tokens of every row."""
        good = arguments.is_integer(count) and 0 <= count <= state.length
        rule = f"is not within the {state.length} tokens read"
        arguments.require(good, "count", count, rule, "take back fewer")
        return language_model.rewind(state, int(count))


class CompleteOperation(TextComponent):
    """prompt (B, P), padded on the left, to new tokens (B, K, L) and scores (B, K)."""

    def run(self, rng: Random | None, *, prompt: Array, max_len: int, **options: Any) -> Outputs:
        """The generator of dropout is left aside: what is written does not depend on the mode."""
        ids = self.ids("prompt", prompt)
        tokens, scores = generate(self.layer, ids, max_len=max_len, **options)
        return {"tokens": tokens, "scores": scores.astype(self.dtype)}, None


class LanguageModelLoss(Component[CrossEntropy]):
    """logits (B, T, V) and ids (B, T): the logits at t are asked for the id at t + 1."""

    def __init__(self, config: Config, dtype: DType, rng: Random) -> None:
        arguments.rate("label_smoothing", config.label_smoothing)
        super().__init__(CrossEntropy(config.pad_id, config.label_smoothing), dtype)

    def run(self, rng: Random | None, *, logits: Array, ids: Array) -> Outputs:
        logits = arguments.real_array("logits", logits, self.dtype, rank=3)
        labels = arguments.labels(ids, logits)
        loss, cache = self.layer.forward(logits[:, :-1], labels[:, 1:])
        return {"loss": loss}, (cache, logits.shape)

    def back(self, cotangent: Cotangent, cache: Cache) -> dict[str, Array]:
        """The last position is asked nothing, so its gradient is zero."""
        judged, shape = cache
        dlogits = np.zeros(shape, self.dtype)
        dlogits[:, :-1] = self.layer.backward(cotangent("loss"), judged)
        return {"logits": dlogits}
