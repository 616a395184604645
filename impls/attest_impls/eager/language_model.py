"""The decoder-only language model of today in one file: GPT-2 and Llama are two settings of its config.

Read it from top to bottom: what a query may see, attention with grouped heads, the layer, the stack, the
model. model.py has what the paper of 2017 has already: attention itself, feed-forward, norms, the residual
connection. positions.py has the kinds of positions. arguments.py decides what may be passed, before it is.

    ids (B, T)
        |
    embedding   [+ positions]   [norm]
        |
    +-- decoder ---------------------------+
    | self-attention, past only            |  N layers
    | feed-forward                         |
    +--------------------------------------+
        |
    [norm]
        |
    projection
        |
    logits (B, T, V): what follows each token

There is one way through the model. It reads new tokens behind those in a `Past`; to read a whole text is to
read it behind a past without a token.

Shapes at the line ends:

    B  batch                              D  width of the model, d_model
    T  length of the queries: new tokens  H  number of query heads
    S  length of the keys: past and new   G  number of key and value heads
    V  size of the vocabulary             d  width of a head, D / H unless head_width is given
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from attest.contract import Config

from .masks import causal_mask, padding_mask, right_aligned, window_mask, without_unseen
from .model import FeedForward, Linear, Residual, Stack, TokenEmbedding, attention
from .norms import NORMS, RMSNorm
from .positions import RelativeBias, Rotary, added_positions, alibi_bias


@dataclass(frozen=True)
class Sight:
    """Where queries stand, which keys they may see, what is added to their scores. All layers share it."""

    positions: Tensor  # (B or 1, T)
    allowed: Tensor  # (B or 1, T, S)
    bias: Tensor | None  # (B or 1, H, T, S)


def sight(
    config: Config,
    relative: RelativeBias | None,
    positions: Tensor,
    key_positions: Tensor,
    mask: Tensor | None,
    causal: bool,
) -> Sight:
    """For queries at positions (B or 1, T) and keys at (B or 1, S). A key is seen if nothing forbids it."""
    T, S = positions.shape[1], key_positions.shape[1]
    allowed = torch.ones(1, T, S, dtype=torch.bool, device=positions.device)
    if causal:
        allowed = allowed & causal_mask(T, S, positions.device)
    if config.window is not None:
        allowed = allowed & window_mask(positions, key_positions, config.window, config.window_sides)
    if mask is not None:
        allowed = allowed & mask
    return Sight(positions, allowed, score_bias(config, relative, positions, key_positions, causal))


def score_bias(
    config: Config, relative: RelativeBias | None, positions: Tensor, key_positions: Tensor, causal: bool
) -> Tensor | None:
    """What the config's kind of positions adds to the scores (B or 1, H, T, S), where it adds something."""
    if config.positions == "alibi":
        return alibi_bias(config.num_heads, positions, key_positions)
    return None if relative is None else relative(positions, key_positions, causal)


def relative_bias(config: Config) -> RelativeBias | None:
    """The table of relative positions where they are asked for. A stack has one, which its layers share."""
    return RelativeBias(config) if config.positions == "relative" else None


def counted(x: Tensor) -> Tensor:
    """Positions of x (B, T, D) that nobody gave: 0, 1, 2 ..."""
    return torch.arange(x.shape[1], device=x.device)[None]  # (1, T)


@dataclass
class KeysValues:
    """What one layer keeps of the tokens it has read. G heads, not H: that is what grouping saves."""

    k: Tensor  # (B, G, S, d), turned already: a key never moves
    v: Tensor  # (B, G, S, d)

    def append(self, k: Tensor, v: Tensor) -> None:
        self.k, self.v = torch.cat([self.k, k], 2), torch.cat([self.v, v], 2)


class Sinks(nn.Module):
    """A learned score for each head: a query that finds little to read gives it weight (arXiv 2508.10925)."""

    def __init__(self, heads: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.zeros(heads))


class SelfAttention(nn.Module):
    """H query heads read G key and value heads; H / G neighbours share one (arXiv 2305.13245).

    G = H: multi-head      G = 2: grouped         G = 1: multi-query

    q0  q1  q2  q3         q0  q1  q2  q3         q0  q1  q2  q3
    |   |   |   |           \\_/     \\_/            \\___\\_/___/
    k0  k1  k2  k3          k0      k1                 k0
    """

    def __init__(self, config: Config) -> None:
        super().__init__()
        D, H, G, d = config.d_model, config.num_heads, config.kv_heads, config.d_head
        bias = config.bias if config.qkv_bias is None else config.qkv_bias
        self.query, self.key, self.value = (Linear(D, heads * d, bias) for heads in (H, G, G))
        self.output = Linear(H * d, D, config.bias)
        self.query_norm, self.key_norm = (
            RMSNorm(config, d) if config.qk_norm else nn.Identity() for _ in range(2)
        )
        self.rotary = Rotary(config) if config.positions == "rotary" else None
        self.width, self.group = d, H // G
        self.scale, self.cap, self.dropout = config.attention_scale, config.score_cap, config.dropout
        self.sinks = Sinks(H) if config.sinks else None

    def forward(self, x: Tensor, sight: Sight, past: KeysValues | None = None) -> tuple[Tensor, Tensor]:
        """What x (B, T, D) reads of the past and of itself. The past grows by x."""
        new = sight.allowed[..., -x.shape[1] :]  # (B or 1, T, T)
        k, v = self.keys_values(without_unseen(x, new), sight.positions)
        if past is not None:
            past.append(k, v)
            k, v = past.k, past.v
        q = self.turned(self.query_norm(self.split(self.query(x))), sight.positions)  # (B, H, T, d)
        k, v = (each.repeat_interleave(self.group, 1) for each in (k, v))  # (B, G, S, d) -> (B, H, S, d)
        dropout = self.dropout if self.training else 0.0
        allowed = sight.allowed.unsqueeze(1)  # (B or 1, 1, T, S)
        sinks = None if self.sinks is None else self.sinks.weight[:, None, None]  # (H, 1, 1)
        heads, weights = attention(q, k, v, allowed, False, dropout, self.scale, sight.bias, self.cap, sinks)
        return self.output(heads.transpose(1, 2).flatten(2)), weights  # (B, T, D), (B, H, T, S)

    def keys_values(self, x: Tensor, positions: Tensor) -> tuple[Tensor, Tensor]:
        """Keys are normed, then turned: a norm after the turn would still see the same lengths, but its gain
        would weigh features that the turn has mixed. Values are neither."""
        k = self.turned(self.key_norm(self.split(self.key(x))), positions)
        return k, self.split(self.value(x))  # both (B, G, T, d)

    def turned(self, x: Tensor, positions: Tensor) -> Tensor:
        return x if self.rotary is None else self.rotary(x, positions)  # (B, H or G, T, d)

    def split(self, x: Tensor) -> Tensor:
        return x.unflatten(-1, (-1, self.width)).transpose(1, 2)  # (B, T, H d) -> (B, H, T, d)


class Layer(Residual):
    """Every position reads what it may see, then computes by itself. `parallel`: both from the same input.

    in turn     x -> x + attention(norm0(x)), then x -> x + feed_forward(norm1(x)), for norm = "pre"
    parallel    x -> x + attention(norm0(x)) + feed_forward(norm1(x))
    """

    def __init__(self, config: Config) -> None:
        super().__init__(config)
        self.parallel = config.parallel
        self.self_attention = SelfAttention(config)
        self.feed_forward = FeedForward(config)
        self.norm0, self.norm1 = (NORMS[config.norm_kind](config) for _ in range(2))

    def forward(self, x: Tensor, sight: Sight, past: KeysValues | None = None) -> Tensor:
        def attend(y: Tensor) -> Tensor:
            return self.self_attention(y, sight, past)[0]

        if self.parallel:
            fed = self.dropout(self.feed_forward(self.norm1(x)))  # (B, T, D)
            return x + self.dropout(attend(self.norm0(x))) + fed  # (B, T, D)
        x = self.join(x, self.norm0, attend)  # (B, T, D)
        return self.join(x, self.norm1, self.feed_forward)  # (B, T, D)


class Layers(Stack):
    """The layers, the norm behind them if they are pre-norm, and one table of relative positions for all."""

    def __init__(self, config: Config, depth: int) -> None:
        super().__init__(config, Layer, depth)

    def forward(self, x: Tensor, sight: Sight, past: Sequence[KeysValues | None]) -> Tensor:
        for layer, kept in zip(self.layers(), past, strict=True):
            x = layer(x, sight, kept)  # (B, T, D)
        return self.norm(x)  # (B, T, D)


class TextModel(nn.Module):
    """What every model of one text has: its tokens become vectors."""

    def __init__(self, config: Config, vocabulary: str) -> None:
        super().__init__()
        self.config = config
        self.scale = math.sqrt(config.d_model) if config.scale_embeddings else 1.0
        self.embedding = TokenEmbedding(config, vocabulary)
        self.position_embedding = added_positions(config)
        self.embedding_norm = NORMS[config.norm_kind](config) if config.embedding_norm else nn.Identity()
        self.dropout = nn.Dropout(config.dropout)

    def embed(self, ids: Tensor, positions: Tensor, segments: Tensor | None = None) -> Tensor:
        """Tokens (B, T) at positions (B, T), and what their segments (B, T, D) add where there are some."""
        x = self.embedding(ids) * self.scale  # (B, T, D)
        x = self.position_embedding.at(x if segments is None else x + segments, positions)  # (B, T, D)
        return self.dropout(self.embedding_norm(x))  # (B, T, D)

    def real(self, ids: Tensor) -> Tensor:
        return padding_mask(ids, self.config.pad_id)[:, 0]  # (B, T): False at padding


def positions_of(real: Tensor, before: int | Tensor = 0) -> Tensor:
    """How many real tokens stand before each, `before` of them in earlier steps. Padding counts for none."""
    return (before + real.cumsum(1) - 1).clamp(min=0)  # (B, T)


@dataclass(frozen=True)
class Past:
    """What is kept of the tokens read so far. Padding is kept too, and never seen.

    Nothing is dropped, also where a window hides it by now: a past can be rewound by any number of tokens.
    """

    real: Tensor  # (B, S): False at padding
    positions: Tensor  # (B, S)
    layers: tuple[KeysValues, ...]

    @property
    def rows(self) -> int:
        return self.real.shape[0]

    @property
    def length(self) -> int:
        return self.real.shape[1]

    def positions_of(self, real: Tensor) -> Tensor:
        """Of tokens that come next."""
        return positions_of(real, self.real.sum(1, keepdim=True))  # (B, T)


class LanguageModel(TextModel):
    """From ids to logits."""

    def __init__(self, config: Config) -> None:
        super().__init__(config, "target_vocab")
        self.decoder = Layers(config, config.num_decoder_layers)
        bias = config.bias if config.head_bias is None else config.head_bias
        self.projection = Linear(config.d_model, config.target_vocab, bias)
        if config.tie:
            self.projection.weight = self.embedding.weight  # one array for both uses

    def forward(self, ids: Tensor) -> Tensor:
        return self.read(ids, self.start(ids.shape[0]))[0]  # (B, T, V)

    def read(self, ids: Tensor, past: Past) -> tuple[Tensor, Past]:
        """Logits (B, T, V) of ids (B, T) that come behind a past, and the past that includes them.

        The given past stays as it is.
        """
        real = self.real(ids)  # (B, T)
        positions = past.positions_of(real)  # (B, T)
        grown = Past(
            torch.cat([past.real, real], 1),  # (B, S)
            torch.cat([past.positions, positions], 1),  # (B, S)
            tuple(KeysValues(layer.k, layer.v) for layer in past.layers),
        )
        seen = sight(
            self.config, self.decoder.relative, positions, grown.positions, grown.real[:, None], causal=True
        )
        return self.logits(ids, seen, grown.layers), grown

    def logits(self, ids: Tensor, seen: Sight, past: Sequence[KeysValues | None]) -> Tensor:
        x = self.decoder(self.embed(ids, seen.positions), seen, past)  # (B, T, D)
        return self.projection(x * self.config.projection_scale)  # (B, T, V)

    def packed(self, ids: Tensor, lengths: Tensor) -> tuple[Tensor, Tensor]:
        """Logits (B, T, V) of rows that hold several documents, and which tokens go on in theirs, (B, T - 1).

        Document n of row b has lengths[b, n] tokens. It sees itself only, and its positions begin at 0.
        """
        ends = lengths.cumsum(1)  # (B, N)
        places = torch.arange(ids.shape[1], device=ids.device).expand_as(ids).contiguous()  # (B, T)
        document = torch.searchsorted(ends, places, right=True)  # (B, T); N behind the last one
        inside = document < lengths.shape[1]  # (B, T)
        begins = torch.cat([torch.zeros_like(ends[:, :1]), ends], 1).gather(1, document)  # (B, T)
        positions = torch.where(inside, places - begins, 0)  # (B, T)
        own = (document[:, :, None] == document[:, None, :]) & (inside & self.real(ids))[:, None]  # (B, T, T)
        seen = sight(self.config, self.decoder.relative, positions, positions, own, causal=True)
        goes_on = (document[:, 1:] == document[:, :-1]) & inside[:, 1:]  # (B, T - 1)
        return self.logits(ids, seen, [None] * self.decoder.depth), goes_on

    def start(self, rows: int) -> Past:
        """A past without a token."""
        config, table = self.config, self.embedding.weight
        none = table.new_zeros(rows, config.kv_heads, 0, config.d_head)  # (B, G, 0, d)
        empty = torch.zeros(rows, 0, dtype=torch.int64, device=table.device)  # (B, 0)
        layers = tuple(KeysValues(none, none) for _ in range(config.num_decoder_layers))
        return Past(empty.bool(), empty, layers)

    def aligned(self, prompt: Tensor) -> Tensor:
        return right_aligned(prompt, self.config.pad_id)  # (B, T)

    def opening(self, prompt: Tensor) -> Tensor:
        """What it reads before it writes: the prompt that it goes on with."""
        return prompt  # (B, T)


class SelfAttentionAlone(SelfAttention):
    """The attention by itself, with a table of relative positions of its own."""

    def __init__(self, config: Config) -> None:
        super().__init__(config)
        self.config, self.relative = config, relative_bias(config)

    def forward(  # type: ignore[override]
        self, x: Tensor, mask: Tensor | None = None, positions: Tensor | None = None, causal: bool = False
    ) -> tuple[Tensor, Tensor]:
        places = counted(x) if positions is None else positions
        return super().forward(x, sight(self.config, self.relative, places, places, mask, causal))


class CausalLayer(Layer):
    """A layer by itself, in the same way. It sees its own past only."""

    def __init__(self, config: Config) -> None:
        super().__init__(config)
        self.config, self.relative = config, relative_bias(config)

    def forward(  # type: ignore[override]
        self, x: Tensor, mask: Tensor | None = None, positions: Tensor | None = None
    ) -> Tensor:
        places = counted(x) if positions is None else positions
        return super().forward(x, sight(self.config, self.relative, places, places, mask, causal=True))
