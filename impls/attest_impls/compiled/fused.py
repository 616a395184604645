"""Multi-head attention with one projection for Q, K and V and torch's fused kernel, in eager's layers.

Shapes: B batch, H heads, T queries, S keys, D width (d_model), d = D / H the width of a head.
"""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from attest_impls.eager.language_model import LanguageModel, SelfAttention
from attest_impls.eager.masks import without_unseen
from attest_impls.eager.model import MultiHeadAttention, Transformer

from . import cpu
from .cpu import few_rows
from .embedding import steady
from .text_attention import TextAttention, fused


class FusedAttention(MultiHeadAttention):
    """eager's attention with the three maps in one array (3D, D): one product when all read one input.

    `clean`: what is hidden holds no junk, as in a model that makes its inputs from ids.
    """

    def __init__(self, plain: MultiHeadAttention) -> None:
        nn.Module.__init__(self)
        self.d_model = plain.query.in_features
        self.num_heads, self.dropout = plain.num_heads, plain.dropout
        self.drops, self.clean = plain.dropout > 0, False
        maps = (plain.query, plain.key, plain.value)
        self.weight = nn.Parameter(torch.cat([m.weight for m in maps]).detach())
        has_bias = plain.query.bias is not None
        self.bias = nn.Parameter(torch.cat([m.bias for m in maps]).detach()) if has_bias else None
        self.output = plain.output

    def forward(
        self, query: Tensor, key_value: Tensor, mask: Tensor | None = None, bias: Tensor | None = None
    ) -> tuple[Tensor, None]:
        assert bias is None, "a bias on the scores belongs to positions that are not offered"
        allowed = None if mask is None else mask.unsqueeze(-3)  # (..., 1, T, S)
        if query is not key_value:
            return self.read(query, *self.keys_values(key_value), allowed)
        q, k, v = (self.split(x) for x in self.project(query, 0, 3).chunk(3, -1))
        return self.mixed(q, k, v, allowed), None

    def project(self, x: Tensor, first: int, last: int) -> Tensor:
        """Maps first to last of query, key, value."""
        rows = slice(first * self.d_model, last * self.d_model)
        return F.linear(x, self.weight[rows], None if self.bias is None else self.bias[rows])

    def keys_values(self, x: Tensor) -> tuple[Tensor, Tensor]:
        k, v = self.project(x, 1, 3).chunk(2, -1)
        return self.split(k), self.split(v)

    def read(
        self, query: Tensor, k: Tensor, v: Tensor, allowed: Tensor | None, bias: Tensor | None = None
    ) -> tuple[Tensor, None]:
        return self.mixed(self.split(self.project(query, 0, 1)), k, v, allowed), None

    def mixed(self, q: Tensor, k: Tensor, v: Tensor, allowed: Tensor | None) -> Tensor:
        """Attention and the output map; zeros from a query that sees nothing."""
        if allowed is not None and not self.clean:
            k, v = without_unseen(k, allowed), without_unseen(v, allowed)
        rate = self.dropout if self.drops and self.training else 0.0
        heads = F.scaled_dot_product_attention(q, k, v, attn_mask=allowed, dropout_p=rate)
        return self.output(heads.transpose(1, 2).flatten(2))  # (B, T, D)


class Dropout(nn.Dropout):
    """Every value a graph reads is a guard on it: the rate is read in training only."""

    def forward(self, x: Tensor) -> Tensor:
        return F.dropout(x, self.p) if self.training else x


def fuse(module: nn.Module, kernels: str = cpu.OFF) -> nn.Module:
    """Exchange every attention, dropout and table inside a module, or the module itself.

    `kernels`: what is chosen of the ways to compute that are for a CPU alone.
    """
    made = _exchanged(module)
    whole = isinstance(made, Transformer | LanguageModel)
    for part in made.modules():
        if isinstance(part, FusedAttention | TextAttention):
            part.clean = whole
        if isinstance(part, TextAttention):
            part.by_sums = cpu.helps(kernels)
    if isinstance(made, LanguageModel) and cpu.helps(kernels):
        few_rows.exchange(made)
    return made


def _exchanged(module: nn.Module) -> nn.Module:
    if isinstance(module, MultiHeadAttention):
        return FusedAttention(module)
    if isinstance(module, SelfAttention):
        module = fused(module)
    if isinstance(module, nn.Dropout):
        return Dropout(module.p) if module.p else nn.Identity()
    for name, child in list(module.named_children()):
        setattr(module, name, _exchanged(child))
    return steady(module)


def canonical_names(module: nn.Module) -> dict[str, str]:
    """Where the adapter finds query, key and value of every fused attention."""
    names = {}
    for prefix, child in module.named_modules():
        if not isinstance(child, FusedAttention):
            continue
        stem = f"{prefix}." if prefix else ""
        for i, part in enumerate(("query", "key", "value")):
            for kind in ("weight", "bias"):
                if getattr(child, kind) is not None:
                    names[f"{stem}{part}.{kind}"] = f"{stem}{kind}[{i}/3]"
    return names
