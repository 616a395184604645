"""torch's memory-efficient attention, which exists for CUDA only, by plain operations in float64.

Shapes: q (B, H, T, d), k (B, H, S, d), v (B, H, S, e).
"""

import math

import torch

LIBRARY = torch.library.Library("aten", "IMPL", "CUDA")
ROUND = 32  # the lengths of the log of sums are rounded up to it


def scores(q, k, bias, causal, scale):
    found = (q.double() @ k.double().mT) * (scale or 1 / math.sqrt(q.shape[-1]))
    if bias is not None:
        found = found + bias.double()
    if causal:
        ahead = torch.ones(found.shape[-2:], dtype=torch.bool, device=found.device).triu(1)
        found = found.masked_fill(ahead, -math.inf)
    return found


def kept(weights, rate, seed):
    """What dropout multiplies by; the same for the same seed."""
    if not rate:
        return 1.0
    drawn = torch.rand(weights.shape, generator=torch.Generator().manual_seed(int(seed)))
    return (drawn >= rate).to(weights.device, weights.dtype) / (1 - rate)


def in_memory_order(x):
    """The kernel writes (B, T, H, d)."""
    return x.transpose(1, 2).contiguous().transpose(1, 2)


def forward(q, k, v, bias, wants_sums, dropout=0.0, causal=False, *, scale=None):
    seed = int(torch.randint(2**31, ())) if dropout else 0
    found = scores(q, k, bias, causal, scale)
    sums = found.logsumexp(-1)
    blind = sums.isneginf()
    weights = torch.where(blind[..., None], 0.0, (found - sums.masked_fill(blind, 0.0)[..., None]).exp())
    out = (weights * kept(weights, dropout, seed)) @ v.double()
    T = q.shape[2]
    held = torch.full((*q.shape[:2], -(-T // ROUND) * ROUND if wants_sums else 0), math.inf, device=q.device)
    if wants_sums:
        held[..., :T] = sums.masked_fill(blind, math.inf).float()
    zero = torch.zeros((), dtype=torch.int64, device=q.device)
    return in_memory_order(out.to(q.dtype)), held, zero + seed, zero


def backward(pulled, q, k, v, bias, out, sums, seed, offset, dropout, asked, causal=False, *, scale=None):
    weights = (scores(q, k, bias, causal, scale) - sums[..., : q.shape[2], None].double()).exp()
    g, mask = pulled.double(), kept(weights, dropout, seed)
    slopes = weights * ((g @ v.double().mT) * mask - (g * out.double()).sum(-1, keepdim=True))
    factor = scale or 1 / math.sqrt(q.shape[-1])
    found = ((slopes @ k.double()) * factor, (slopes.mT @ q.double()) * factor, (weights * mask).mT @ g)
    moved = [in_memory_order(x.to(q.dtype)) for x in found]
    return (*moved, slopes.to(q.dtype) if asked[3] else None)


LIBRARY.impl("_scaled_dot_product_efficient_attention", forward)
LIBRARY.impl("_scaled_dot_product_efficient_attention_backward", backward)
