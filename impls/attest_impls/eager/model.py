"""The Transformer of "Attention Is All You Need" (https://arxiv.org/abs/1706.03762) in one file.

Read it from top to bottom: attention, many heads, feed-forward, embeddings and positions, the residual
connection, the layers of encoder and decoder, the two stacks, the model. Each class computes its formula and
nothing else. norms.py has the norms, and arguments.py decides what may be passed, before it is.

    source (B, S)                   target (B, T)
         |                                |
     embedding                        embedding
         |                                |
    +-- encoder -----+              +-- decoder -----------------+
    | self-attention |  N layers    | self-attention, past only  |  N layers
    | feed-forward   |              | cross-attention            |
    +----------------+              | feed-forward               |
         |                          +----------------------------+
         |                             ^             |
         +----- memory (B, S, D) ------+         projection
                                                     |
                                              logits (B, T, V)

Shapes at the line ends:

    B  batch                    D  width of the model, d_model
    T  length of the queries    H  number of heads
    S  length of the keys       d  width of a head, D / H
    V  size of the vocabulary   F  inner width of the feed-forward network, d_ff

In self-attention S = T. A mask is True where a query may attend to a key; masks.py makes them.
"""

import math
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn

from attest.contract import Config

from .masks import causal_mask, left_aligned, padding_mask, without_unseen
from .norms import NORMS, widened
from .positions import RelativeBias, added_positions


def attention(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    mask: Tensor | None = None,
    causal: bool = False,
    dropout: float = 0.0,
    scale: float | None = None,
    bias: Tensor | None = None,
    cap: float | None = None,
    sinks: Tensor | None = None,
) -> tuple[Tensor, Tensor]:
    """softmax(q k^T / sqrt(d)) v (section 3.2.1): the output, and the weights as they are before dropout.

    Later models have a `scale` of their own in place of 1 / sqrt(d), bend scores that come near a `cap`, add
    a `bias` to them, or let one score more, a head's `sinks`, take weight that goes to no value.

    Why sqrt(d): a score is a sum of d products. If q and k have unit variance, its variance is d. Divided by
    sqrt(d) it is 1, and the softmax does not start out saturated, where its gradient vanishes.

    Why a finite fill: a query that sees no key has only hidden scores. Filled with -inf, their softmax is
    0 / 0, and so is its gradient. Filled with the lowest number it is finite, and the second `where` makes
    the hidden weights exactly zero. The output of such a query is zero.
    """
    T, S = q.shape[-2], k.shape[-2]
    allowed = causal_mask(T, S, q.device) if causal else torch.ones(T, S, dtype=torch.bool, device=q.device)
    if mask is not None:
        allowed = allowed & mask  # (..., T, S)
    k, v = without_unseen(k, allowed), without_unseen(v, allowed)
    scores = widened(q) @ widened(k).transpose(-2, -1)  # (..., T, S)
    scores = scores / math.sqrt(q.shape[-1]) if scale is None else scores * scale
    if cap is not None:
        scores = cap * torch.tanh(scores / cap)
    if bias is not None:
        scores = scores + bias.to(scores.dtype)
    scores = torch.where(allowed, scores, torch.finfo(scores.dtype).min)  # (..., T, S)
    if sinks is not None:
        scores = torch.cat([scores, sinks.to(scores.dtype).expand(*scores.shape[:-1], 1)], -1)
    weights = torch.where(allowed, scores.softmax(-1)[..., :S], 0.0)  # (..., T, S)
    return nn.functional.dropout(weights, dropout).to(v.dtype) @ v, weights  # (..., T, d), (..., T, S)


class Linear(nn.Linear):
    """y = x W^T + b. It starts with weights that keep the variance of a signal (Xavier) and with b = 0."""

    def reset_parameters(self) -> None:
        nn.init.xavier_uniform_(self.weight)
        if self.bias is not None:
            nn.init.zeros_(self.bias)


class QKVProjection(nn.Module):
    """Three learned maps of one input: what it asks, what it offers to be found by, what it then gives."""

    def __init__(self, config: Config) -> None:
        super().__init__()
        D = config.d_model
        self.query, self.key, self.value = (Linear(D, D, config.bias) for _ in range(3))

    def forward(self, x: Tensor) -> dict[str, Tensor]:
        return {"q": self.query(x), "k": self.key(x), "v": self.value(x)}  # each (B, T, D)


class MultiHeadAttention(nn.Module):
    """H attentions side by side, each in a subspace of width d (section 3.2.2).

    query (B, T, D)     key_value (B, S, D)
          |               |         |
        W_query         W_key    W_value        each D -> D; head h owns features h*d to (h+1)*d
          |               |         |
         q (B, H, T, d)   k         v           k and v are (B, H, S, d)
          +-------- attention ------+
                        |
                 heads (B, H, T, d)
                        |  side by side
                   (B, T, D)
                        |
                     W_output
    """

    def __init__(self, config: Config) -> None:
        super().__init__()
        D, inside = config.d_model, config.num_heads * config.d_head
        self.num_heads, self.dropout, self.scale = config.num_heads, config.dropout, config.attention_scale
        self.query, self.key, self.value = (Linear(D, inside, config.bias) for _ in range(3))
        self.output = Linear(inside, D, config.bias)

    def forward(
        self, query: Tensor, key_value: Tensor, mask: Tensor | None = None, bias: Tensor | None = None
    ) -> tuple[Tensor, Tensor]:
        """`mask` is (T, S) or (B or 1, T or 1, S), the same for all heads; `bias` (1, H, T, S)."""
        if mask is not None:
            # Before the maps: in their gradient, too, hidden junk would be multiplied by zero.
            key_value = without_unseen(key_value, mask)
            mask = mask.unsqueeze(-3)  # (..., 1, T, S)
        return self.read(query, *self.keys_values(key_value), mask, bias)

    def keys_values(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """What a sequence x (B, S, D) offers to be read. A decoder that goes on later keeps them."""
        return self.split(self.key(x)), self.split(self.value(x))  # both (B, H, S, d)

    def read(
        self, query: Tensor, k: Tensor, v: Tensor, mask: Tensor | None, bias: Tensor | None = None
    ) -> tuple[Tensor, Tensor]:
        """Attention of query (B, T, D) to keys and values (B, H, S, d)."""
        dropout = self.dropout if self.training else 0.0
        q = self.split(self.query(query))  # (B, H, T, d)
        heads, weights = attention(q, k, v, mask, False, dropout, self.scale, bias)
        return self.output(heads.transpose(1, 2).flatten(2)), weights  # (B, T, D), (B, H, T, S)

    def split(self, x: Tensor) -> Tensor:
        return x.unflatten(-1, (self.num_heads, -1)).transpose(1, 2)  # (B, T, D) -> (B, H, T, d)


# gelu is the exact one, x Phi(x); gelu_tanh approximates Phi
ACTIVATIONS: dict[str, Callable[[Tensor], Tensor]] = {
    "relu": torch.relu,
    "gelu": nn.functional.gelu,
    "silu": nn.functional.silu,
    "gelu_tanh": partial(nn.functional.gelu, approximate="tanh"),
}


class FeedForward(nn.Module):
    """W2 act(W1 x + b1) + b2, the same at every position (section 3.3).

    Later models have a gate: W2 (act(Wg x + bg) * (W1 x + b1)) + b2 (https://arxiv.org/abs/2002.05202).
    """

    def __init__(self, config: Config) -> None:
        super().__init__()
        self.gate = Linear(config.d_model, config.inner_width, config.bias) if config.gated else None
        self.inner = Linear(config.d_model, config.inner_width, config.bias)
        self.outer = Linear(config.inner_width, config.d_model, config.bias)
        self.activation = ACTIVATIONS[config.activation]

    def forward(self, x: Tensor) -> Tensor:
        inner = self.inner(x)  # (B, T, F)
        features = self.activation(inner) if self.gate is None else self.activation(self.gate(x)) * inner
        return self.outer(features)  # (B, T, F) -> (B, T, D)


class TokenEmbedding(nn.Embedding):
    """A learned row for each token (section 3.4). The padding row is zero and gets no gradient from here."""

    def __init__(self, config: Config, vocabulary: str = "source_vocab") -> None:
        super().__init__(getattr(config, vocabulary), config.d_model, padding_idx=config.pad_id)

    def reset_parameters(self) -> None:
        """Rows of norm about 1, so that sqrt(d_model) times a row has features of unit variance."""
        nn.init.normal_(self.weight, std=self.embedding_dim**-0.5)
        if self.padding_idx is not None:
            with torch.no_grad():
                self.weight[self.padding_idx].zero_()

    def forward(self, ids: Tensor) -> Tensor:
        return nn.functional.embedding(ids, self.weight, self.padding_idx)  # (B, T, D)


class InputEmbedding(TokenEmbedding):
    """dropout(tokens * sqrt(d_model) + positions).

    The factor lifts rows of norm 1 to the scale of the sinusoids, whose norm is sqrt(D / 2). Without it the
    positions drown the tokens. `scale_embeddings=False` leaves it out.
    """

    def __init__(self, config: Config, vocabulary: str = "source_vocab") -> None:
        super().__init__(config, vocabulary)
        self.scale = math.sqrt(config.d_model) if config.scale_embeddings else 1.0
        self.positions = added_positions(config)
        self.dropout = nn.Dropout(config.dropout)

    def forward(self, ids: Tensor, start: int = 0) -> Tensor:
        """The first of the ids stands at position number `start`."""
        return self.dropout(self.positions(super().forward(ids) * self.scale, start))  # (B, T, D)


Sublayer = Callable[[Tensor], Tensor]


class Residual(nn.Module):
    """What both kinds of layer share: how a sublayer f is joined to the stream x.

    post-norm (the paper)   x -> norm(x + f(x))    Every layer rescales the stream. On its way down the
                                                   gradient passes through every norm, which is why deep
                                                   post-norm stacks need a warm-up.
    pre-norm                x -> x + f(norm(x))    The stream itself is never normalised. The gradient
                                                   reaches every layer undiminished. One norm follows the
                                                   stack.
    """

    def __init__(self, config: Config) -> None:
        super().__init__()
        self.norm_first = config.norm == "pre"
        self.dropout = nn.Dropout(config.dropout)

    def join(self, x: Tensor, norm: nn.Module, sublayer: Sublayer) -> Tensor:
        if self.norm_first:
            return x + self.dropout(sublayer(norm(x)))  # (B, T, D)
        return norm(x + self.dropout(sublayer(x)))  # (B, T, D)


class EncoderLayer(Residual):
    """Every position reads the positions that `mask` allows, then computes by itself."""

    def __init__(self, config: Config) -> None:
        super().__init__(config)
        self.self_attention = MultiHeadAttention(config)
        self.feed_forward = FeedForward(config)
        self.norm0, self.norm1 = (NORMS[config.norm_kind](config) for _ in range(2))

    def forward(self, x: Tensor, mask: Tensor | None = None, bias: Tensor | None = None) -> Tensor:
        x = self.join(x, self.norm0, lambda y: self.self_attention(y, y, mask, bias)[0])  # (B, T, D)
        return self.join(x, self.norm1, self.feed_forward)  # (B, T, D)


class DecoderLayer(Residual):
    """Every position reads its own past, then the whole memory, then computes by itself."""

    def __init__(self, config: Config) -> None:
        super().__init__(config)
        self.self_attention = MultiHeadAttention(config)
        self.cross_attention = MultiHeadAttention(config)
        self.feed_forward = FeedForward(config)
        self.norm0, self.norm1, self.norm2 = (NORMS[config.norm_kind](config) for _ in range(3))

    def forward(
        self,
        x: Tensor,
        memory: Tensor,
        mask: Tensor | None = None,
        memory_mask: Tensor | None = None,
        bias: Tensor | None = None,
    ) -> Tensor:
        past = causal_mask(x.shape[1], x.shape[1], x.device)  # (T, T)
        if mask is not None:
            past = past & mask  # (B or 1, T, T)
        x = self.join(x, self.norm0, lambda y: self.self_attention(y, y, past, bias)[0])  # (B, T, D)
        x = self.join(x, self.norm1, lambda y: self.cross_attention(y, memory, memory_mask)[0])
        return self.join(x, self.norm2, self.feed_forward)  # (B, T, D)


class Stack(nn.Module):
    """Layers named "0", "1" ..., each with its own weights; a norm follows them if they are pre-norm.

    Relative positions are a bias on the scores of self-attention. The layers share one table of them.
    """

    def __init__(self, config: Config, build: Callable[[Config], nn.Module], depth: int) -> None:
        super().__init__()
        self.depth = depth
        for i in range(depth):
            self.add_module(str(i), build(config))
        self.norm = NORMS[config.norm_kind](config) if config.norm == "pre" else nn.Identity()
        self.relative = RelativeBias(config) if config.positions == "relative" else None

    def layers(self) -> Iterator[Any]:
        return (self.get_submodule(str(i)) for i in range(self.depth))

    def bias(self, T: int, S: int, causal: bool) -> Tensor | None:
        """For T queries, the last of which stands where the last of S keys stands."""
        if self.relative is None:
            return None
        keys = torch.arange(S, device=self.relative.weight.device)[None]  # (1, S)
        return self.relative(keys[:, S - T :], keys, causal)  # (1, H, T, S)


class Encoder(Stack):
    def __init__(self, config: Config) -> None:
        super().__init__(config, EncoderLayer, config.num_encoder_layers)

    def forward(self, x: Tensor, mask: Tensor | None = None) -> Tensor:
        bias = self.bias(x.shape[1], x.shape[1], causal=False)
        for layer in self.layers():
            x = layer(x, mask, bias)  # (B, T, D)
        return self.norm(x)  # (B, T, D)


class Decoder(Stack):
    """Every layer reads the same memory: the output of the whole encoder."""

    def __init__(self, config: Config) -> None:
        super().__init__(config, DecoderLayer, config.num_decoder_layers)

    def forward(
        self, x: Tensor, memory: Tensor, mask: Tensor | None = None, memory_mask: Tensor | None = None
    ) -> Tensor:
        bias = self.bias(x.shape[1], x.shape[1], causal=True)
        for layer in self.layers():
            x = layer(x, memory, mask, memory_mask, bias)  # (B, T, D)
        return self.norm(x)  # (B, T, D)


class Transformer(nn.Module):
    """From ids to logits. Masks are made from the ids: padding is never seen."""

    def __init__(self, config: Config) -> None:
        super().__init__()
        self.config = config
        if config.share_embeddings:
            self.embedding = InputEmbedding(config, "target_vocab")
            self.source_embedding = self.target_embedding = self.embedding
        else:
            self.source_embedding = InputEmbedding(config, "source_vocab")
            self.target_embedding = InputEmbedding(config, "target_vocab")
        self.encoder = Encoder(config)
        self.decoder = Decoder(config)
        self.projection = Linear(config.d_model, config.target_vocab, config.bias)
        if config.tie:
            # One array for both uses, and no factor on this side. Its padding row then does get a gradient:
            # as a class of the projection it is pushed down like any other.
            self.projection.weight = self.target_embedding.weight

    def forward(self, source: Tensor, target: Tensor) -> Tensor:
        return self.decode(target, self.encode(source), source)  # (B, T, V)

    def encode(self, source: Tensor) -> Tensor:
        """The memory: what the encoder makes of the source."""
        return self.encoder(self.source_embedding(source), self.seen(source))  # (B, S, D)

    def decode(self, target: Tensor, memory: Tensor, source: Tensor) -> Tensor:
        """Logits of what follows each position of the target."""
        x = self.target_embedding(target)  # (B, T, D)
        return self.logits(self.decoder(x, memory, self.seen(target), self.seen(source)))  # (B, T, V)

    def logits(self, x: Tensor) -> Tensor:
        return self.projection(x * self.config.projection_scale)  # (B, T, D) -> (B, T, V)

    def seen(self, ids: Tensor) -> Tensor:
        return padding_mask(ids, self.config.pad_id)  # (B, 1, S)

    def aligned(self, source: Tensor) -> Tensor:
        return left_aligned(source, self.config.pad_id)  # (B, S)

    def opening(self, source: Tensor) -> Tensor:
        """What the decoder reads before it writes."""
        return source.new_full((source.shape[0], 1), self.config.bos_id)  # (B, 1)
