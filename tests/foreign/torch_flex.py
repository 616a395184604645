"""torch's flex_attention behind the contract: self-attention, keys in blocks, block-sparse attention.

    attest run --impl tests/foreign/torch_flex.py --milestone M8 --open

It runs uncompiled, as torch does without a compiler: slowly, with all scores at once, and on the CPU without
a backward pass. So it is judged here; torch_nn has the fused scaled_dot_product_attention, and takes
flex_attention where it is run as torch_nn,backend=flex.
"""

import functools

import pluggy
import torch
from torch import nn
from torch.nn.attention import flex_attention as flex

from attest.adapters.torch import TorchComponent
from attest_impls.torch_nn import attention

hookimpl = pluggy.HookimplMarker("attest")


def chunked(module, q, k, v, mask=None, causal=False):
    """flex_attention takes (B, H, T, d) and returns its log-sum-exp."""
    leading, T, S = q.shape[:-2], q.shape[-2], k.shape[-2]
    if k.shape[:-2] != leading or v.shape[:-1] != k.shape[:-1]:
        raise ValueError(f"k={tuple(k.shape)} and v={tuple(v.shape)} do not fit q={tuple(q.shape)}")
    allowed = torch.ones(T, S, dtype=torch.bool).tril(S - T) if causal else torch.ones(T, S, dtype=torch.bool)
    allowed = (allowed if mask is None else allowed & mask).expand(*leading, T, S).reshape(-1, T, S)
    flat = [x.reshape(-1, 1, *x.shape[-2:]) for x in (q, k, v)]

    def seen(score, b, h, t, s):
        return torch.where(allowed[b, t, s], score, -float("inf"))

    output, logs = flex.flex_attention(*flat, score_mod=seen, return_lse=True)
    return {"output": output.reshape(*leading, T, -1), "log_sum_exp": logs.reshape(*leading, T)}


def block_sparse(module, q, k, v, blocks, causal=False, block=1):
    H, T, S = q.shape[1], q.shape[2], k.shape[2]
    if (
        blocks.ndim != 3
        or blocks.shape[0] not in (1, H)
        or blocks.shape[1:] != (-(-T // block), -(-S // block))
    ):
        raise ValueError(f"blocks={tuple(blocks.shape)} does not fit")
    if len({len(x) for x in (q, k, v)}) > 1:
        raise ValueError("q, k and v must have one batch")
    per_head = blocks.expand(H, -1, -1)

    def seen(b, h, t, s):
        inside = per_head[h, t // block, s // block]
        return inside & (s <= t + S - T) if causal else inside

    mask = flex.create_block_mask(seen, None, H, T, S, device=q.device)
    return {"output": flex.flex_attention(q, k, v, block_mask=mask)}


class TorchFlex:
    name = "torch_flex"
    description = "torch.nn.attention.flex_attention, uncompiled"
    dtypes = ("float32", "float64")
    supports = attention.OPTIONS

    def self_attention(self, config):
        return TorchComponent(attention.SelfAttention(config.but(options=(("backend", "flex"),))), config)

    def chunked_attention(self, config):
        if not isinstance(config.chunk, int) or config.chunk < 1:
            raise ValueError(f"chunk={config.chunk!r} must be a whole number of at least 1")
        return TorchComponent(nn.Identity(), config, call=chunked)

    def block_sparse_attention(self, config):
        if not isinstance(config.block, int) or config.block < 1:
            raise ValueError(f"block={config.block!r} must be a whole number of at least 1")
        return TorchComponent(nn.Identity(), config, call=functools.partial(block_sparse, block=config.block))


@hookimpl
def attest_implementations():
    return [TorchFlex()]
