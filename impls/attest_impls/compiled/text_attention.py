"""Self-attention of decoder-only models with torch's fused kernel, in eager's layers.

Shapes: B batch, H query heads, G key heads, T queries, S keys, D width, d width of a head.
"""

from __future__ import annotations

import math
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from attest.contract import Config
from attest_impls.eager.language_model import KeysValues, SelfAttention, SelfAttentionAlone, Sight
from attest_impls.eager.masks import without_unseen
from attest_impls.eager.model import attention
from attest_impls.eager.norms import widened
from attest_impls.eager.positions import RelativeBias


class TextAttention(SelfAttention):
    """eager's attention, read by one fused kernel. It returns no weights, which that kernel never holds.

    `clean`: what is hidden holds no junk, as in a model that makes its inputs from ids. `by_sums`: of one
    query on a CPU the kernel takes longer than two sums.
    """

    def __init__(self, plain: SelfAttention) -> None:
        nn.Module.__init__(self)
        self.__dict__.update(plain.__dict__)  # all that it has, its parameters among it
        self.drops, self.clean, self.by_sums = plain.dropout > 0, False, False

    def forward(self, x: Tensor, sight: Sight, past: KeysValues | None = None) -> tuple[Tensor, None]:
        shown = x if self.clean else without_unseen(x, sight.allowed[..., -x.shape[1] :])
        k, v = self.keys_values(shown, sight.positions)
        if past is not None:
            past.append(k, v)
            k, v = past.k, past.v
        q = self.turned(self.query_norm(self.split(self.query(x))), sight.positions)  # (B, H, T, d)
        return self.output(self.mixed(q, k, v, sight).transpose(1, 2).flatten(2)), None  # (B, T, D)

    def mixed(self, q: Tensor, k: Tensor, v: Tensor, sight: Sight) -> Tensor:
        """Attention (B, H, T, d) of q to k and v (B, G, S, d); zeros from a query that sees nothing."""
        allowed = sight.allowed[:, None]  # (B or 1, 1, T, S)
        if self.cap is not None or self.sinks is not None:
            return self.mixed_as_written(q, k, v, allowed, sight.bias)
        if self.by_sums and q.shape[2] == 1 and q.device.type == "cpu" and not torch.is_grad_enabled():
            return self.mixed_by_one(q, k, v, allowed, sight.bias)
        k, v = (each.repeat_interleave(self.group, 1) for each in (k, v))  # (B, H, S, d)
        rate = self.dropout if self.drops and self.training else 0.0
        if sight.bias is None:
            return F.scaled_dot_product_attention(
                q, k, v, attn_mask=allowed, dropout_p=rate, scale=self.scale
            )
        # Finite: a query that sees nothing gets a mean, which the last line takes away, and not nan.
        added = torch.where(allowed, sight.bias.to(q.dtype), torch.finfo(q.dtype).min)
        heads = F.scaled_dot_product_attention(q, k, v, attn_mask=added, dropout_p=rate, scale=self.scale)
        return torch.where(allowed.any(-1, keepdim=True), heads, 0.0)

    def mixed_as_written(
        self, q: Tensor, k: Tensor, v: Tensor, allowed: Tensor, bias: Tensor | None
    ) -> Tensor:
        """The same with scores that the kernel cannot bend: eager's formula, whose loops inductor fuses."""
        k, v = (each.repeat_interleave(self.group, 1) for each in (k, v))  # (B, H, S, d)
        rate = self.dropout if self.drops and self.training else 0.0
        sinks = None if self.sinks is None else self.sinks.weight[:, None, None]  # (H, 1, 1)
        return attention(q, k, v, allowed, False, rate, self.scale, bias, self.cap, sinks)[0]

    def mixed_by_one(self, q: Tensor, k: Tensor, v: Tensor, allowed: Tensor, bias: Tensor | None) -> Tensor:
        """The same for one query, as two sums that inductor fuses: a key head is read once for its group."""
        dtype, k, v = v.dtype, widened(k), widened(v)
        grouped = widened(q[:, :, 0]).unflatten(1, (-1, self.group)).unsqueeze(3)  # (B, G, H / G, 1, d)
        scores = (grouped * k[:, :, None]).sum(-1)  # (B, G, H / G, S)
        scores = scores / math.sqrt(self.width) if self.scale is None else scores * self.scale
        if bias is not None:
            scores = scores + bias[:, :, 0].unflatten(1, (-1, self.group)).to(scores.dtype)
        seen = allowed[:, :, None, 0]  # (B or 1, 1, 1, S)
        weights = torch.where(seen, torch.where(seen, scores, torch.finfo(scores.dtype).min).softmax(-1), 0.0)
        heads = (weights[..., None] * v[:, :, None]).sum(-2)  # (B, G, H / G, d)
        return heads.flatten(1, 2)[:, :, None].to(dtype)  # (B, H, 1, d)


class TextAttentionAlone(TextAttention):
    """The attention by itself, with the table of relative positions that is its own."""

    config: Config
    relative: RelativeBias | None

    def seeing(self, x: Tensor, sight: Sight) -> Tensor:
        return self.forward(x, sight)[0]


def fused(plain: Any) -> TextAttention:
    """The fused form of an attention of eager's."""
    return TextAttentionAlone(plain) if isinstance(plain, SelfAttentionAlone) else TextAttention(plain)
