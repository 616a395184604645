"""The kernels as functions of torch tensors, with gradients, and a layer with grouped heads around them."""

import math

import kernels
import torch
import triton
from torch import Tensor, nn

BLOCKS = {"QUERIES": 32, "KEYS": 32}


class Attend(torch.autograd.Function):
    """q (B, H, T, d), k (B, G, S, d), v (B, G, S, e), mask (B, H, T, S) or None; H is a multiple of G."""

    @staticmethod
    def forward(ctx, q, k, v, mask, causal, precision):
        q, k, v = q.contiguous(), k.contiguous(), v.contiguous()
        kept = q if mask is None else mask.to(torch.uint8).contiguous()
        out = q.new_empty(*q.shape[:-1], v.shape[-1])
        level = torch.empty(q.shape[:-1], dtype=torch.float32, device=q.device)
        ctx.sizes = {
            "G": q.shape[1] // k.shape[1],
            "MASKED": mask is not None,
            "CAUSAL": causal,
            "PRECISION": precision,
            "WIDTH": max(16, triton.next_power_of_2(q.shape[-1])),
            "VALUES": max(16, triton.next_power_of_2(v.shape[-1])),
            **BLOCKS,
        }
        kernels.forward[_grid(q, "QUERIES")](q, k, v, kept, out, level, *_lengths(q, k, v), **ctx.sizes)
        ctx.save_for_backward(q, k, v, kept, out, level)
        return out

    @staticmethod
    def backward(ctx, pulled):
        q, k, v, kept, out, level = ctx.saved_tensors
        pulled, lengths = pulled.contiguous(), _lengths(q, k, v)
        centre = (pulled.float() * out.float()).sum(-1)
        dq, dk, dv = torch.empty_like(q), torch.empty_like(k), torch.empty_like(v)
        given = (q, k, v, kept, pulled, level, centre)
        kernels.backward_queries[_grid(q, "QUERIES")](*given, dq, *lengths, **ctx.sizes)
        kernels.backward_keys[_grid(k, "KEYS")](*given, dk, dv, *lengths, **ctx.sizes)
        return dq, dk, dv, None, None, None


def _lengths(q: Tensor, k: Tensor, v: Tensor) -> tuple:
    return q.shape[2], k.shape[2], q.shape[3], v.shape[3], 1 / math.sqrt(q.shape[3])


def _grid(x: Tensor, block: str) -> tuple[int, int]:
    return triton.cdiv(x.shape[2], BLOCKS[block]), x.shape[0] * x.shape[1]


def attend(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    mask: Tensor | None = None,
    causal: bool = False,
    precision: str = "ieee",
) -> Tensor:
    """Attention of any leading axes; the mask is True where a query may look."""
    if q.shape[:-2] != k.shape[:-2] or k.shape[:-1] != v.shape[:-1] or q.shape[-1] != k.shape[-1]:
        raise ValueError(f"q {tuple(q.shape)}, k {tuple(k.shape)} and v {tuple(v.shape)} do not fit together")
    if k.shape[-2] == 0:
        raise ValueError(f"k {tuple(k.shape)} has no keys; give at least one")
    lead, scores = q.shape[:-2], (*q.shape[:-1], k.shape[-2])
    if mask is not None:
        if mask.dtype != torch.bool or mask.dim() > len(scores):
            raise ValueError(f"mask {mask.dtype} {tuple(mask.shape)} does not fit {scores}; give booleans")
        try:
            mask = mask.expand(scores)
        except RuntimeError:
            raise ValueError(f"mask {tuple(mask.shape)} does not fit the scores {scores}") from None
        mask = mask.reshape(1, -1, *scores[-2:])
    q, k, v = (x.reshape(1, -1, *x.shape[-2:]) for x in (q, k, v))
    return Attend.apply(q, k, v, mask, causal, precision).reshape(*lead, *scores[-2:-1], v.shape[-1])


class GroupedHeads(nn.Module):
    """Self-attention of H query heads that read G key heads, over x (B, T, D)."""

    def __init__(self, width: int, heads: int, key_heads: int, head_width: int, bias: bool, precision: str):
        super().__init__()
        if heads % key_heads:
            raise ValueError(f"num_kv_heads={key_heads} does not divide num_heads={heads}")
        self.heads, self.key_heads, self.precision = heads, key_heads, precision
        self.query = nn.Linear(width, heads * head_width, bias)
        self.key = nn.Linear(width, key_heads * head_width, bias)
        self.value = nn.Linear(width, key_heads * head_width, bias)
        self.output = nn.Linear(heads * head_width, width, bias)

    def forward(self, x, mask=None, positions=None, causal=False):
        B, T, _ = x.shape
        q = self.query(x).unflatten(-1, (self.heads, -1)).transpose(1, 2)
        k, v = (m(x).unflatten(-1, (self.key_heads, -1)).transpose(1, 2) for m in (self.key, self.value))
        if mask is not None:
            if mask.shape[-1] != T or mask.dim() not in (2, 3):
                raise ValueError(f"mask {tuple(mask.shape)} does not fit {T} keys; give (T, T) or (B, T, T)")
            mask = (mask[None] if mask.dim() == 2 else mask)[:, None].expand(B, self.heads, T, T)
        heads = Attend.apply(q, k, v, mask, causal, self.precision)
        return self.output(heads.transpose(1, 2).flatten(2))
