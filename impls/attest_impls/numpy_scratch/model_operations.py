"""The whole model and its generator as operations: ids checked, then the model.

Shapes: B batch, S source length, T target length, n new tokens, D width, V target vocabulary, K results.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from attest.contract import Array, Arrays, Config

from . import arguments, decoding
from .component import Component, Cotangent, Outputs
from .generation import generate
from .layers import Cache, DType, Random
from .model import Transformer
from .multi_head import MultiHeadAttention


class ModelComponent(Component[Transformer]):
    """A transformer of its own, and what its ids must be."""

    def __init__(self, config: Config, dtype: DType, rng: Random) -> None:
        arguments.transformer(config)
        super().__init__(Transformer(config, dtype, rng), dtype)
        self.config = config

    def buffers(self) -> Arrays:
        return {"positions": self.layer.source_embedding.positions.copy()}

    def ids(self, name: str, value: Array) -> Array:
        """`source` or `target`: of at least one column and at most max_len, inside its vocabulary."""
        ids = arguments.id_array(name, value, getattr(self.config, f"{name}_vocab"))
        arguments.require(ids.shape[1] > 0, f"{name}.shape", ids.shape, "is empty", "give at least one id")
        arguments.length_within(name, ids.shape[1], self.config.max_len)
        return ids

    def checked(self, source: Array, target: Array) -> tuple[Array, Array]:
        """Both, of one batch."""
        source, target = self.ids("source", source), self.ids("target", target)
        arguments.same_batch("target", target, len(source))
        return source, target


class TransformerOperation(ModelComponent):
    """source (B, S) and target (B, T) to logits (B, T, V)."""

    def run(self, rng: Random | None, *, source: Array, target: Array) -> Outputs:
        logits, cache = self.layer.forward(*self.checked(source, target), rng)
        return {"logits": logits}, cache

    def back(self, cotangent: Cotangent, cache: Cache) -> dict[str, Array]:
        self.layer.backward(cotangent("logits"), cache)
        return {}

    def attention_maps(self, *, source: Array, target: Array) -> Arrays:
        """The weights of every layer and head, read off what the forward pass keeps for its gradient."""
        source, target = self.checked(source, target)
        with np.errstate(over="ignore", invalid="ignore"):
            _, (encoded, decoded) = self.layer.forward(source, target, None)
        weights = MultiHeadAttention.weights
        (_, (encoders, _)), (_, (decoders, _), _) = encoded, decoded
        return {
            "encoder": np.stack([weights(attended) for _, attended, _, _ in encoders]),
            "decoder": np.stack([weights(attended) for _, attended, *_ in decoders]),
            "cross": np.stack([weights(crossed) for _, _, _, _, crossed, _, _ in decoders]),
        }

    def encode(self, *, source: Array) -> Arrays:
        """memory (B, S, D)."""
        ids = self.ids("source", source)
        memory, _ = self.guarded(lambda rng: self.layer.encode(ids, rng))
        return {"memory": memory}

    def decode(self, *, target: Array, memory: Array, source: Array) -> Arrays:
        """logits (B, T, V); `source` is there for its padding."""
        source, target = self.checked(source, target)
        memory = arguments.real_array("memory", memory, self.dtype, rank=3, width=self.config.d_model)
        fits, rule = memory.shape[:2] == source.shape, f"is not of source {source.shape}"
        arguments.require(fits, "memory.shape", memory.shape, rule, "match them")
        logits, _ = self.guarded(lambda rng: self.layer.decode(target, memory, source, rng))
        return {"logits": logits}

    def start(self, source: Array) -> decoding.State:
        """Run the encoder once: the state of an empty prefix, with room for max_len tokens."""
        return decoding.start(self.layer, self.ids("source", source), self.config.max_len)

    def step(self, state: decoding.State, tokens: Array) -> tuple[Array, decoding.State]:
        """Append tokens (B, n): logits (B, n, V) and the new state. The old one is used up."""
        tokens = arguments.id_array("tokens", tokens, self.config.target_vocab)
        arguments.require(tokens.shape[1] > 0, "tokens.shape", tokens.shape, "is empty", "give one or more")
        arguments.same_batch("tokens", tokens, state.rows)
        arguments.length_within("tokens", state.length + tokens.shape[1], state.capacity)
        return decoding.step(self.layer, state, tokens)

    def reorder(self, state: decoding.State, rows: Array) -> decoding.State:
        """The state whose row i is the old row rows[i]; rows may repeat, drop and grow."""
        return decoding.reorder(state, arguments.row_numbers(rows, state.rows))


class GeneratorOperation(ModelComponent):
    """source (B, S) to tokens (B, K, L) and scores (B, K)."""

    def run(self, rng: Random | None, *, source: Array, max_len: int, **options: Any) -> Outputs:
        """The generator of dropout is left aside: what is written does not depend on the mode."""
        writer = decoding.TransformerWriter(self.layer)
        tokens, scores = generate(writer, self.ids("source", source), max_len=max_len, **options)
        return {"tokens": tokens, "scores": scores.astype(self.dtype)}, None
