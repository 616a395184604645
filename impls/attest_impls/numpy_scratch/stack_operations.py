"""Encoder and decoder layers, and their stacks, as operations: arguments checked, then the layer.

Shapes: B batch, T target positions, S source positions, D width.
"""

from __future__ import annotations

from attest.contract import Array, Config

from . import arguments
from .blocks import Decoder, DecoderLayer, Encoder, EncoderLayer
from .component import Component, Cotangent, Outputs
from .layers import Cache, DType, Random


class EncoderOperation(Component[EncoderLayer | Encoder]):
    """x (B, S, D) through one encoder layer or a stack of them."""

    def __init__(self, layer: EncoderLayer | Encoder, width: int, dtype: DType) -> None:
        super().__init__(layer, dtype)
        self.width = width

    def run(self, rng: Random | None, *, x: Array, mask: Array | None = None) -> Outputs:
        x = arguments.keys("x", x, self.dtype, self.width)
        mask = arguments.batch_mask("mask", mask, len(x), x.shape[1], x.shape[1])
        output, cache = self.layer.forward(x, mask, rng)
        return {"output": output}, cache

    def back(self, cotangent: Cotangent, cache: Cache) -> dict[str, Array]:
        return {"x": self.layer.backward(cotangent("output"), cache)}


class DecoderOperation(Component[DecoderLayer | Decoder]):
    """x (B, T, D) and memory (B, S, D) through one decoder layer or a stack of them."""

    def __init__(self, layer: DecoderLayer | Decoder, width: int, dtype: DType) -> None:
        super().__init__(layer, dtype)
        self.width = width

    def run(
        self,
        rng: Random | None,
        *,
        x: Array,
        memory: Array,
        mask: Array | None = None,
        memory_mask: Array | None = None,
    ) -> Outputs:
        x = arguments.keys("x", x, self.dtype, self.width)
        memory = arguments.keys("memory", memory, self.dtype, self.width, len(x))
        B, T, S = len(x), x.shape[1], memory.shape[1]
        mask = arguments.batch_mask("mask", mask, B, T, T)
        memory_mask = arguments.batch_mask("memory_mask", memory_mask, B, T, S)
        output, cache = self.layer.forward(x, memory, mask, memory_mask, rng)
        return {"output": output}, cache

    def back(self, cotangent: Cotangent, cache: Cache) -> dict[str, Array]:
        dx, dmemory = self.layer.backward(cotangent("output"), cache)
        return {"x": dx, "memory": dmemory}


def encoder_layer(config: Config, dtype: DType, rng: Random) -> EncoderOperation:
    arguments.block(config)
    return EncoderOperation(EncoderLayer(config, dtype, rng), config.d_model, dtype)


def encoder(config: Config, dtype: DType, rng: Random) -> EncoderOperation:
    arguments.block(config)
    arguments.positive_sizes(config, "num_encoder_layers")
    return EncoderOperation(Encoder(config, dtype, rng), config.d_model, dtype)


def decoder_layer(config: Config, dtype: DType, rng: Random) -> DecoderOperation:
    arguments.block(config)
    return DecoderOperation(DecoderLayer(config, dtype, rng), config.d_model, dtype)


def decoder(config: Config, dtype: DType, rng: Random) -> DecoderOperation:
    arguments.block(config)
    arguments.positive_sizes(config, "num_decoder_layers")
    return DecoderOperation(Decoder(config, dtype, rng), config.d_model, dtype)
