"""The models that are timed: sizes in the words of the config, and the random weights that everyone gets.

Two kinds: the encoder-decoder of 2017, and a decoder-only model with rotary positions, grouped heads, a gate.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache, cached_property

import numpy as np

from attest.contract import Array, Config
from attest.families import family_named
from attest.reference.oracle import random_parameters

NEVER = -1e4  # projection bias of a token that must not be chosen
FIRST_WORD = 3  # below stand padding, BOS and EOS
FLOAT32 = 4  # bytes


@dataclass(frozen=True, kw_only=True)
class Shape:
    """An encoder-decoder."""

    name: str
    vocab: int
    d_model: int
    num_heads: int
    layers: int
    d_ff: int
    source: int
    max_len: int

    operation = "transformer"

    @cached_property
    def config(self) -> Config:
        return Config(
            d_model=self.d_model,
            num_heads=self.num_heads,
            d_ff=self.d_ff,
            num_encoder_layers=self.layers,
            num_decoder_layers=self.layers,
            source_vocab=self.vocab,
            target_vocab=self.vocab,
            max_len=self.max_len,
        )

    @property
    def bytes_per_token(self) -> int:
        """Weights that a cached step of one row must read: the decoder and the projection, in float32."""
        d = self.d_model
        layer = 6 * d * d + 2 * d * self.d_ff  # keys and values of the memory are there already
        return FLOAT32 * (self.layers * layer + d * self.vocab)

    @property
    def says(self) -> str:
        return (
            f"vocabulary {self.vocab}, d_model {self.d_model}, {self.num_heads} heads, "
            f"{self.layers}+{self.layers} layers, d_ff {self.d_ff}, source {self.source}"
        )


@dataclass(frozen=True, kw_only=True)
class TextShape:
    """A decoder-only model as Llama is. All sizes differ, so that no library can confuse two of them."""

    name: str
    vocab: int
    d_model: int
    num_heads: int
    num_kv_heads: int
    layers: int
    d_ff: int
    prompt: int
    long_prompt: int
    max_len: int

    operation = "language_model"

    @cached_property
    def config(self) -> Config:
        return family_named("llama").config(
            d_model=self.d_model,
            num_heads=self.num_heads,
            num_kv_heads=self.num_kv_heads,
            d_ff=self.d_ff,
            num_decoder_layers=self.layers,
            target_vocab=self.vocab,
            max_len=self.max_len,
            tie=False,
        )

    @property
    def bytes_per_token(self) -> int:
        """Weights that a cached step of one row must read, in float32: all but the table of embeddings."""
        d, shared = self.d_model, self.d_model * self.num_kv_heads // self.num_heads
        layer = 2 * d * d + 2 * d * shared + 3 * d * self.d_ff
        return FLOAT32 * (self.layers * layer + d * self.vocab)

    @property
    def says(self) -> str:
        return (
            f"vocabulary {self.vocab}, d_model {self.d_model}, {self.num_heads} heads, "
            f"{self.num_kv_heads} key heads, {self.layers} layers, d_ff {self.d_ff} with a gate"
        )


AnyShape = Shape | TextShape

BASE = Shape(name="base", vocab=8000, d_model=512, num_heads=8, layers=6, d_ff=2048, source=32, max_len=512)
SMALL = Shape(name="small", vocab=50, d_model=32, num_heads=4, layers=1, d_ff=64, source=6, max_len=64)
# The model and the lengths of M5.4, the task on which implementations are trained; the same in every run.
TASK = Shape(name="task", vocab=13, d_model=64, num_heads=4, layers=2, d_ff=256, source=8, max_len=64)
TEXT = TextShape(
    name="text",
    vocab=8000,
    d_model=512,
    num_heads=8,
    num_kv_heads=4,
    layers=8,
    d_ff=1408,
    prompt=32,
    long_prompt=512,
    max_len=640,
)
SMALL_TEXT = TextShape(
    name="small_text",
    vocab=320,  # llama.cpp wants a token for each byte
    d_model=64,  # heads of 16: the least that ONNX Runtime computes
    num_heads=4,
    num_kv_heads=2,
    layers=1,
    d_ff=88,
    prompt=6,
    long_prompt=20,
    max_len=64,
)
SHAPES = {shape.name: shape for shape in (BASE, SMALL, TASK, TEXT, SMALL_TEXT)}


@cache
def parameters(shape: AnyShape) -> dict[str, Array]:
    """Random weights under which no row ends early."""
    made = random_parameters(shape.operation, shape.config, np.random.default_rng(0))
    if "projection.bias" in made:
        made["projection.bias"][:FIRST_WORD] = NEVER
    else:
        # Their logits are 0, and among thousands of other random logits some are larger.
        made["projection.weight"][:FIRST_WORD] = 0.0
    return {name: value.astype(np.float32) for name, value in made.items()}
