"""Attention for long texts: in chunks of keys, with a kernel in place of the softmax, between chosen blocks.

The first and the third compute attention itself without ever holding all scores (T, S). The second is another
function, whose cost grows with T + S instead of T * S.

Shapes: B batch, H heads, T queries, S keys, d width of a head, c keys of a chunk, b queries of a block. The
values may have another width than queries and keys.
"""

import math

import torch
from torch import Tensor, nn

from attest.contract import Config

from .masks import causal_mask, without_unseen
from .model import attention
from .norms import widened


class ChunkedAttention(nn.Module):
    """softmax(q k^T / sqrt(d)) v, reading `chunk` keys at a time (arXiv 1805.02867; 2205.14135, section 3.1).

    Of the keys read so far three things are known: the highest score m, the sum of exp(score - m), and the
    sum of exp(score - m) * value. When a chunk brings a higher score m', both sums are multiplied by
    exp(m - m'), as if m' had been known from the start. The output is the second sum over the first.
    """

    def __init__(self, config: Config) -> None:
        super().__init__()
        self.chunk = config.chunk

    def forward(
        self, q: Tensor, k: Tensor, v: Tensor, mask: Tensor | None = None, causal: bool = False
    ) -> dict[str, Tensor]:
        """output, and log_sum_exp = m + log(sum): by it results of parts of the keys can be merged."""
        wide = widened(q)
        highest = wide.new_full((*q.shape[:-1], 1), torch.finfo(wide.dtype).min)  # (..., T, 1)
        total = torch.zeros_like(highest)  # (..., T, 1)
        mixture = wide.new_zeros(*q.shape[:-1], v.shape[-1])  # (..., T, d)
        for first in range(0, k.shape[-2], self.chunk):
            keys = slice(first, first + self.chunk)
            allowed = _allowed(q, k, mask, causal, keys)  # (..., T, c)
            some_k, some_v = (widened(without_unseen(x[..., keys, :], allowed)) for x in (k, v))
            scores = wide @ some_k.transpose(-2, -1) / math.sqrt(q.shape[-1])  # (..., T, c)
            scores = torch.where(allowed, scores, torch.finfo(wide.dtype).min)
            # No gradient passes through the highest score: it cancels in the quotient.
            higher = torch.maximum(highest, scores.detach().amax(-1, keepdim=True))  # (..., T, 1)
            powers = torch.where(allowed, torch.exp(scores - higher), 0.0)  # (..., T, c)
            shrink = torch.exp(highest - higher)  # (..., T, 1)
            total = total * shrink + powers.sum(-1, keepdim=True)
            mixture = mixture * shrink + powers @ some_v
            highest = higher
        seen = total > 0  # False for a query that sees no key: its output is 0
        total = torch.where(seen, total, 1.0)
        log_sum_exp = torch.where(seen, highest + total.log(), -math.inf).squeeze(-1)  # (..., T)
        return {"output": (mixture / total).to(q.dtype), "log_sum_exp": log_sum_exp}


def _allowed(q: Tensor, k: Tensor, mask: Tensor | None, causal: bool, keys: slice) -> Tensor:
    """What the queries may see of these keys."""
    T, S = q.shape[-2], k.shape[-2]
    numbers = torch.arange(S, device=q.device)[keys]  # (c)
    last = torch.arange(S - T, S, device=q.device)[:, None]  # (T, 1): the last key that each query may see
    allowed = numbers <= last if causal else torch.ones(T, len(numbers), dtype=torch.bool, device=q.device)
    return allowed if mask is None else allowed & mask.expand(*mask.shape[:-1], S)[..., keys]


class LinearAttention(nn.Module):
    """phi(q) (phi(k)^T v) / (phi(q) sum phi(k)), with phi = elu + 1 (arXiv 2006.16236, equations 4 to 12).

    A weight is phi(q) . phi(k), a plain product, so the sums over keys come first and are the same for every
    query. Causal, they grow key by key, and a query reads them as they are at its own: a recurrent network.
    """

    def __init__(self, config: Config) -> None:
        super().__init__()

    def forward(
        self, q: Tensor, k: Tensor, v: Tensor, mask: Tensor | None = None, causal: bool = False
    ) -> Tensor:
        """`mask` (B or 1, 1, S) hides keys from all queries."""
        shown = torch.ones_like(k[:1, :1, :, :1], dtype=torch.bool)  # (1, 1, S, 1)
        if mask is not None:
            shown = mask.reshape(-1, 1, k.shape[2], 1)  # (B or 1, 1, S, 1)
        k, v = torch.where(shown, k, 0.0), torch.where(shown, v, 0.0)  # 0 * nan is nan
        wide_q, wide_v = phi(widened(q)), widened(v)
        wide_k = torch.where(shown, phi(widened(k)), 0.0)
        if causal:
            products = (wide_k.unsqueeze(-1) * wide_v.unsqueeze(-2)).cumsum(2)  # (B, H, S, d, d)
            states, sums = (self.at_queries(x, q.shape[2]) for x in (products, wide_k.cumsum(2)))
        else:
            states = (wide_k.transpose(-2, -1) @ wide_v).unsqueeze(2)  # (B, H, 1, d, d)
            sums = wide_k.sum(2, keepdim=True)  # (B, H, 1, d)
        mixture = (wide_q.unsqueeze(-2) @ states).squeeze(-2)  # (B, H, T, d)
        total = (wide_q * sums).sum(-1, keepdim=True)  # (B, H, T, 1)
        seen = total > 0
        return torch.where(seen, mixture / torch.where(seen, total, 1.0), 0.0).to(q.dtype)

    def at_queries(self, sums: Tensor, T: int) -> Tensor:
        """Running sums (B, H, S, ...) as each of T queries finds them: the last one finds them complete."""
        none = torch.zeros_like(sums[:, :, :1])  # before the first key
        S = sums.shape[2]
        last = torch.arange(S - T, S, device=sums.device).clamp(min=-1)  # the last key that each query sees
        return torch.cat([none, sums], 2)[:, :, last + 1]  # (B, H, T, ...)


def phi(x: Tensor) -> Tensor:
    """elu(x) + 1: x + 1 above zero, e^x below. Written so, because (e^x - 1) + 1 loses the digits of e^x."""
    return torch.exp(x.clamp(max=0)) + x.relu()


class BlockSparseAttention(nn.Module):
    """Attention between chosen blocks: `blocks[h, i, j]` lets block i of the queries see block j of the keys.

    blocks    1 .        block = 2    1 1 . .      a block of queries reads the keys of its
              1 1                     1 1 . .      visible blocks and no others; the last
                                      1 1 1 1      block of a length may be shorter
                                      1 1 1 1
    """

    def __init__(self, config: Config) -> None:
        super().__init__()
        self.block = config.block

    def forward(self, q: Tensor, k: Tensor, v: Tensor, blocks: Tensor, causal: bool = False) -> Tensor:
        T, S = q.shape[2], k.shape[2]
        each = blocks.repeat_interleave(self.block, 1).repeat_interleave(self.block, 2)
        allowed = each[:, :T, :S]  # (H or 1, T, S)
        if causal:
            allowed = allowed & causal_mask(T, S, q.device)
        heads = []
        for first in range(0, T, self.block):
            queries = slice(first, first + self.block)
            keys = allowed[:, queries].any(0).any(0)  # (S): those that some head reads
            some = allowed[:, queries][..., keys]  # (H or 1, b, keys)
            heads.append(attention(q[:, :, queries], k[:, :, keys], v[:, :, keys], some)[0])
        return torch.cat(heads, 2)  # (B, H, T, d)
