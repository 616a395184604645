"""Where a token stands: sinusoids, learned rows, rotary angles, ALiBi's slopes, T5's buckets.

A kind of positions acts at one of three places:

    on the embeddings          sinusoidal, learned                 a row is added to each token
    on queries and keys        rotary                              pairs of features are turned
    on the scores              alibi, relative                     a bias is added to q k^T

Shapes:

    B  batch     T  length of the queries    d  width of a head
    H  heads     S  length of the keys       r  leading features of a head that are turned
"""

import math
from functools import lru_cache

import numpy as np
import torch
from torch import Tensor, nn

from attest.contract import Config

from .norms import widened
from .rotary_scaling import SCALINGS
from .settings import rotated_width


def sinusoids(length: int, width: int, dtype: torch.dtype) -> Tensor:
    """PE(p, 2i) = sin(p / 10000^(2i/D)) and PE(p, 2i+1) = cos(the same) (section 3.5).

    An odd width ends in a sine. Worked out in float64: in half precision positions 256 and 257 have the
    same angles.
    """
    pairs = np.arange(width) // 2
    angles = np.arange(length)[:, None] / 10000.0 ** (2 * pairs / width)
    table = np.where(np.arange(width) % 2 == 0, np.sin(angles), np.cos(angles))
    return torch.tensor(table, dtype=dtype)  # (length, D)


class PositionalEncoding(nn.Module):
    """Adds to each position its row of a fixed table. The table is a buffer: nothing here is learned."""

    table: Tensor

    def __init__(self, config: Config) -> None:
        super().__init__()
        table = sinusoids(config.max_len, config.d_model, getattr(torch, config.dtype))
        self.register_buffer("table", table, persistent=False)

    def forward(self, x: Tensor, start: int = 0) -> Tensor:
        """The first position of x is number `start`."""
        return x + self.table[start : start + x.shape[1]]  # (B, T, D)

    def at(self, x: Tensor, positions: Tensor) -> Tensor:
        """x (B, T, D) whose tokens stand at positions (B or 1, T)."""
        return x + self.table[positions]  # (B, T, D)


class LearnedPositions(nn.Module):
    """Adds to each position a row of its own, learned like any other weight. The table ends at max_len."""

    def __init__(self, config: Config) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.empty(config.max_len, config.d_model))
        nn.init.normal_(self.weight, std=0.02)  # as in https://arxiv.org/abs/1810.04805

    def forward(self, x: Tensor, start: int = 0) -> Tensor:
        """The first position of x is number `start`."""
        return x + self.weight[start : start + x.shape[1]]  # (B, T, D)

    def at(self, x: Tensor, positions: Tensor) -> Tensor:
        """x (B, T, D) whose tokens stand at positions (B or 1, T)."""
        return x + nn.functional.embedding(positions, self.weight)  # (B, T, D)


class NoRows(nn.Module):
    """Adds nothing to the embeddings: these positions act inside attention, or nowhere."""

    def __init__(self, config: Config) -> None:
        super().__init__()

    def forward(self, x: Tensor, start: int = 0) -> Tensor:
        return x

    def at(self, x: Tensor, positions: Tensor) -> Tensor:
        return x


def added_positions(config: Config) -> PositionalEncoding | LearnedPositions | NoRows:
    """What the config's kind of positions adds to the embeddings."""
    kinds = {"sinusoidal": PositionalEncoding, "learned": LearnedPositions}
    return kinds.get(config.positions, NoRows)(config)


class Rotary(nn.Module):
    """Turns pair i of a query or key at position p by the angle p * base^(-2i/r) (arXiv 2104.09864).

    Turning both vectors by the same angle leaves their scalar product as it is: a score depends on how far
    apart query and key are, not on where they stand.

    Which two features form pair i differs between models. A checkpoint of one kind computes nonsense under
    the other, with no error:

        halves         (i, i + r/2)      x0 x1 x2 | x3 x4 x5      pairs (x0 x3) (x1 x4) (x2 x5)
        interleaved    (2i, 2i + 1)      x0 x1  x2 x3  x4 x5      pairs (x0 x1) (x2 x3) (x4 x5)
    """

    def __init__(self, config: Config) -> None:
        super().__init__()
        self.base, self.fraction = config.rotary_base, config.rotary_fraction
        self.interleaved = config.rotary_pairing == "interleaved"
        self.slower = SCALINGS[config.rotary_scaling](config)

    def forward(self, x: Tensor, positions: Tensor) -> Tensor:
        """x (B, H, T, d) at positions (B or 1, T). Features beyond the fraction pass as they are."""
        r = rotated_width(x.shape[-1], self.fraction)
        angles, gain = self.angles(positions, r)
        cos, sin = ((gain * f(angles)).to(widened(x).dtype) for f in (torch.cos, torch.sin))
        a, b = self.pairs(widened(x[..., :r]))  # both (B, H, T, r/2)
        turned = self.joined(a * cos - b * sin, b * cos + a * sin)  # (B, H, T, r)
        return torch.cat([turned.to(x.dtype), x[..., r:]], -1)  # (B, H, T, d)

    def angles(self, positions: Tensor, r: int) -> tuple[Tensor, float]:
        """In float64: at position 100,000 a float32 angle is off by up to 0.004 of a radian. And the gain."""
        exponents = torch.arange(0, r, 2, device=positions.device, dtype=torch.float64) / r  # (r/2)
        frequencies, gain = self.slower(self.base**-exponents)
        return (positions[..., None] * frequencies)[:, None], gain  # (B or 1, 1, T, r/2)

    def pairs(self, x: Tensor) -> tuple[Tensor, Tensor]:
        if self.interleaved:
            return x[..., 0::2], x[..., 1::2]
        first, second = x.chunk(2, -1)
        return first, second

    def joined(self, first: Tensor, second: Tensor) -> Tensor:
        if self.interleaved:
            return torch.stack([first, second], -1).flatten(-2)
        return torch.cat([first, second], -1)


def alibi_slopes(num_heads: int) -> Tensor:
    """How fast each head's attention falls with distance (arXiv 2108.12409, section 3).

    For n = 2^k heads a geometric sequence from 2^(-8/n) down to 2^-8, whose ratio is its first term. Other
    numbers take the sequence of the power of two below, then every other slope of the one above:

        n = 4     1/4   1/16   1/64   1/256
        n = 6     1/4   1/16   1/64   1/256   1/2   1/8
    """
    n = 2 ** (num_heads.bit_length() - 1)
    slopes = [2.0 ** (-8 * (i + 1) / n) for i in range(n)]
    slopes += [2.0 ** (-4 * (2 * i + 1) / n) for i in range(num_heads - n)]
    return torch.tensor(slopes, dtype=torch.float64)  # (H)


def alibi_bias(num_heads: int, positions: Tensor, key_positions: Tensor) -> Tensor:
    """-slope * distance: 0 for the query's own position, the further away the lower."""
    distance = (positions[:, :, None] - key_positions[:, None, :]).abs()  # (B or 1, T, S)
    slopes = alibi_slopes(num_heads).to(positions.device)
    return -slopes[:, None, None] * distance[:, None]  # (B or 1, H, T, S)


class RelativeBias(nn.Module):
    """A learned number for each head and each bucket of distances (arXiv 1910.10683, section 2.1)."""

    def __init__(self, config: Config) -> None:
        super().__init__()
        self.buckets, self.distance = config.relative_buckets, config.relative_distance
        self.weight = nn.Parameter(torch.empty(self.buckets, config.num_heads))
        nn.init.normal_(self.weight, std=config.d_model**-0.5)

    def forward(self, positions: Tensor, key_positions: Tensor, causal: bool = False) -> Tensor:
        """For queries at positions (B, T) and keys at (B, S)."""
        offsets = key_positions[:, None, :] - positions[:, :, None]  # (B, T, S)
        buckets = relative_buckets(offsets, self.buckets, self.distance, causal)  # (B, T, S)
        return nn.functional.embedding(buckets, self.weight).permute(0, 3, 1, 2)  # (B, H, T, S)


def relative_buckets(offsets: Tensor, buckets: int, distance: int, causal: bool = False) -> Tensor:
    """The bucket of each offset, key position minus query position.

    Without `causal` half of the buckets are for keys behind the query: those of a positive offset. Near keys
    have a bucket each, far ones share: their limits grow geometrically up to `distance`, and the last bucket
    takes all beyond. With 8 buckets and a distance of 20, causal:

        distance    0  1  2  3 | 4  5 | 6 .. 8 | 9 .. 13 | 14 ...
        bucket      0  1  2  3 |   4  |    5   |    6    |    7
    """
    side = buckets if causal else buckets // 2
    far = (-offsets).clamp(min=0) if causal else offsets.abs()
    limits = torch.tensor(bucket_limits(side, distance), dtype=torch.int64, device=offsets.device)
    found = torch.bucketize(far, limits, right=True)  # how many buckets begin at this distance or before it
    return found if causal else found + side * (offsets > 0)


@lru_cache
def bucket_limits(side: int, distance: int) -> tuple[int, ...]:
    """Where buckets 1, 2 ... of one side begin.

    Of the k shared ones behind m exact ones, number j begins at m (distance / m)^(j / k). Logarithms of
    float64 put some whole distances on the wrong side of that: 10 for m = k = 5 and a distance of 160, where
    bucket 6 begins at 5 * 32^(1/5) = 10. In integers it is the first n with (n / m)^k >= (distance / m)^j.
    """
    m = side // 2
    k = side - m
    limits = list(range(1, m + 1))
    for j in range(1, k):
        n = max(m, math.floor(m * (distance / m) ** (j / k)) - 1)
        while n**k * m**j < distance**j * m**k:
            n += 1
        limits.append(n)
    return tuple(limits)
