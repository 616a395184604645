"""torch's own attention behind the contract: grouped scaled_dot_product_attention, and flex_attention.

    attest run --impl tests/foreign/torch_attention.py --milestone M8 --open

Two backends compute self-attention. `flex` runs uncompiled, as torch does without a compiler.
"""

import functools
import math

import pluggy
import torch
from torch import nn
from torch.nn import functional
from torch.nn.attention import flex_attention as flex

from attest.adapters.torch import TorchComponent

hookimpl = pluggy.HookimplMarker("attest")


class SelfAttention(nn.Module):
    """Linear maps around torch's attention. Shapes: x (B, T, D), H query heads, G key heads."""

    def __init__(self, config, attend):
        super().__init__()
        self.config, self.attend = config, attend
        D, d = config.d_model, config.d_head
        for name in ("num_heads", "kv_heads"):
            if not isinstance(getattr(config, name), int) or getattr(config, name) < 1:
                raise ValueError(f"{name}={getattr(config, name)!r} must be a whole number of at least 1")
        if config.num_heads % config.kv_heads:
            raise ValueError(f"num_kv_heads={config.kv_heads} does not divide num_heads={config.num_heads}")
        if config.window is not None and (not isinstance(config.window, int) or config.window < 1):
            raise ValueError(f"window={config.window!r} must be a whole number of at least 1")
        bias = config.bias if config.qkv_bias is None else config.qkv_bias
        self.query = nn.Linear(D, config.num_heads * d, bias)
        self.key = nn.Linear(D, config.kv_heads * d, bias)
        self.value = nn.Linear(D, config.kv_heads * d, bias)
        self.output = nn.Linear(config.num_heads * d, D, config.bias)

    def forward(self, x, mask=None, positions=None, causal=False):
        B, T, _ = x.shape
        heads = [
            m(x).view(B, T, -1, self.config.d_head).transpose(1, 2)
            for m in (self.query, self.key, self.value)
        ]
        allowed = self.allowed(x, mask, positions, causal)
        mixed = self.attend(*heads, allowed, self.config)
        return self.output(mixed.transpose(1, 2).reshape(B, T, -1))

    def allowed(self, x, mask, positions, causal):
        """(B, T, T): everything that hides, in one mask."""
        B, T, _ = x.shape
        shape = (1, T, T)
        allowed = torch.ones(B, T, T, dtype=torch.bool, device=x.device)
        if mask is not None:
            if (
                (mask.ndim == 2 and mask.shape != (T, T))
                or mask.shape[-1] != T
                or mask.shape[0] not in (1, B, T)
            ):
                raise ValueError(f"mask={tuple(mask.shape)} does not fit {shape}")
            allowed = allowed & mask
        places = torch.arange(T, device=x.device)[None] if positions is None else positions
        if places.shape[0] not in (1, B) or places.shape[1] != T:
            raise ValueError(f"positions={tuple(places.shape)} must be ({B}, {T})")
        distance = places[:, :, None] - places[:, None, :]
        if causal:
            allowed = allowed & torch.ones(T, T, dtype=torch.bool, device=x.device).tril()
        if self.config.window is not None:
            allowed = allowed & (distance >= 0) & (distance < self.config.window)
        return allowed


def scale_of(q, config):
    return config.attention_scale or 1 / math.sqrt(q.shape[-1])


def by_sdpa(q, k, v, allowed, config):
    return functional.scaled_dot_product_attention(
        q, k, v, attn_mask=allowed[:, None], scale=scale_of(q, config), enable_gqa=True
    )


def by_flex(q, k, v, allowed, config):
    def seen(score, b, h, t, s):
        return torch.where(allowed[b, t, s], score, -float("inf"))

    return flex.flex_attention(q, k, v, score_mod=seen, scale=scale_of(q, config), enable_gqa=True)


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


class TorchAttention:
    name = "torch_attention"
    description = "torch.nn.functional.scaled_dot_product_attention and flex_attention"
    dtypes = ("float32", "float64")
    backends = ("sdpa", "flex")
    supports = {  # noqa: RUF012
        "num_kv_heads": "any",
        "head_width": "any",
        "window": "any",
        "attention_scale": "any",
        "qkv_bias": "any",
    }

    def self_attention(self, config):
        attend = by_flex if dict(config.options).get("backend") == "flex" else by_sdpa
        return TorchComponent(SelfAttention(config, attend), config)

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
    return [TorchAttention()]
