"""Feed-forward, norm, and the encoder and decoder layers made of them (the paper's sections 3.1 and 3.3).

Shapes: B batch, T length (queries), S length of the memory (keys), D width (d_model).
"""

from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch import Tensor, nn

from attest.contract import Config

from .arguments import LAYER, check_config, check_mask, check_same_batch, check_some, check_width
from .attention import Linear, MultiHeadAttention, causal_mask
from .norm import LayerNorm

Sublayer = Callable[[Tensor], Tensor]


class FeedForward(nn.Module):
    """W2 act(W1 x + b1) + b2, the same at every position. GELU is the exact one, x Phi(x)."""

    def __init__(self, config: Config) -> None:
        super().__init__()
        check_config(config, "d_model", "inner_width", "activation", "bias")
        self.d_model = config.d_model
        self.inner = Linear(config.d_model, config.inner_width, config.bias)
        self.outer = Linear(config.inner_width, config.d_model, config.bias)
        self.activation = torch.relu if config.activation == "relu" else nn.functional.gelu

    def forward(self, x: Tensor) -> Tensor:
        check_width("x", x, self.d_model)
        return self.outer(self.activation(self.inner(x)))


class Residual(nn.Module):
    """What both layers share: how a sublayer f is joined to the stream x.

    post-norm (the paper)   x -> norm(x + f(x))      every layer rescales the stream. The gradient passes
                                                     through N norms on its way down, which is why deep
                                                     post-norm stacks need a warm-up.
    pre-norm                x -> x + f(norm(x))      the stream itself is never normalised: the identity runs
                                                     from bottom to top, the gradient reaches every layer
                                                     undiminished, and one norm after the stack is needed.
    """

    def __init__(self, config: Config) -> None:
        super().__init__()
        check_config(config, *LAYER)
        self.d_model, self.norm_first = config.d_model, config.norm == "pre"
        self.dropout = nn.Dropout(config.dropout)

    def join(self, x: Tensor, norm: LayerNorm, sublayer: Sublayer) -> Tensor:
        if self.norm_first:
            return x + self.dropout(sublayer(norm(x)))
        return norm(x + self.dropout(sublayer(x)))


class EncoderLayer(Residual):
    """Self-attention, then feed-forward."""

    def __init__(self, config: Config) -> None:
        super().__init__(config)
        self.self_attention = MultiHeadAttention(config)
        self.feed_forward = FeedForward(config)
        self.norm0, self.norm1 = LayerNorm(config), LayerNorm(config)

    def forward(self, x: Tensor, mask: Tensor | None = None) -> Tensor:
        check_encoder(x, mask, self.d_model)
        x = self.join(x, self.norm0, lambda y: self.self_attention(y, y, mask)[0])
        return self.join(x, self.norm1, self.feed_forward)


class DecoderLayer(Residual):
    """Causal self-attention, attention to the encoder's memory, then feed-forward."""

    def __init__(self, config: Config) -> None:
        super().__init__(config)
        self.self_attention = MultiHeadAttention(config)
        self.cross_attention = MultiHeadAttention(config)
        self.feed_forward = FeedForward(config)
        self.norm0, self.norm1, self.norm2 = (LayerNorm(config) for _ in range(3))

    def forward(
        self, x: Tensor, memory: Tensor, mask: Tensor | None = None, memory_mask: Tensor | None = None
    ) -> Tensor:
        check_decoder(x, memory, mask, memory_mask, self.d_model)
        return self.reading(x, memory, with_past_only(x, mask), memory_mask)

    def reading(self, x: Tensor, memory: Tensor, past: Tensor, memory_mask: Tensor | None) -> Tensor:
        """The same with a mask that hides the future already, so that a stack makes it once."""
        return self.sublayers(
            x,
            lambda y: self.self_attention(y, y, past)[0],
            lambda y: self.cross_attention(y, memory, memory_mask)[0],
        )

    def sublayers(self, x: Tensor, read_past: Sublayer, read_memory: Sublayer) -> Tensor:
        """The order of things, whether keys and values are computed now or come from a cache."""
        x = self.join(x, self.norm0, read_past)
        x = self.join(x, self.norm1, read_memory)
        return self.join(x, self.norm2, self.feed_forward)


class Stack(nn.Module):
    """N layers with weights of their own, named "0", "1" ...; one norm at the end if they are pre-norm."""

    def __init__(self, config: Config, build: Callable[[Config], nn.Module], depth: str) -> None:
        super().__init__()
        check_config(config, *LAYER, depth)
        self.d_model, self.depth = config.d_model, getattr(config, depth)
        for i in range(self.depth):
            self.add_module(str(i), build(config))
        self.norm = LayerNorm(config) if config.norm == "pre" else nn.Identity()

    def layers(self) -> Iterator[Any]:
        return (self._modules[str(i)] for i in range(self.depth))


class Encoder(Stack):
    """Every position reads every position that `mask` allows."""

    def __init__(self, config: Config) -> None:
        super().__init__(config, EncoderLayer, "num_encoder_layers")

    def forward(self, x: Tensor, mask: Tensor | None = None) -> Tensor:
        check_encoder(x, mask, self.d_model)
        for layer in self.layers():
            x = layer(x, mask)
        return self.norm(x)


class Decoder(Stack):
    """Every layer reads the past of its own input and the whole memory."""

    def __init__(self, config: Config) -> None:
        super().__init__(config, DecoderLayer, "num_decoder_layers")

    def forward(
        self, x: Tensor, memory: Tensor, mask: Tensor | None = None, memory_mask: Tensor | None = None
    ) -> Tensor:
        check_decoder(x, memory, mask, memory_mask, self.d_model)
        past = with_past_only(x, mask)
        for layer in self.layers():
            x = layer.reading(x, memory, past, memory_mask)
        return self.norm(x)


def with_past_only(x: Tensor, mask: Tensor | None) -> Tensor:
    """`mask` with the future of each position of x hidden on top."""
    past = causal_mask(x.shape[1], x.shape[1], x.device)
    return past if mask is None else past & mask


def check_encoder(x: Tensor, mask: Tensor | None, width: int) -> None:
    check_width("x", x, width)
    check_some("x", x.shape[1])
    if mask is not None:
        check_mask("mask", mask, x.shape[0], x.shape[1], x.shape[1])


def check_decoder(
    x: Tensor, memory: Tensor, mask: Tensor | None, memory_mask: Tensor | None, width: int
) -> None:
    check_encoder(x, mask, width)
    check_width("memory", memory, width)
    check_same_batch("memory", memory, "x", x)
    check_some("memory", memory.shape[1])
    if memory_mask is not None:
        check_mask("memory_mask", memory_mask, x.shape[0], x.shape[1], memory.shape[1])
