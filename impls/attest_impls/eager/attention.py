"""Attention: masks, scaled dot products, many heads (the paper's section 3.2).

Shapes: B batch, H heads, T queries, S keys, D width (d_model), d = D / H the width of a head.
"""

import torch
from torch import Tensor, nn

from attest.contract import Config

from .arguments import (
    check_attention,
    check_broadcasts,
    check_config,
    check_mask,
    check_same_batch,
    check_some,
    check_width,
)


def length_mask(lengths: Tensor, size: int) -> Tensor:
    """True for the first `lengths[b]` of `size` keys."""
    if lengths.ndim != 1 or lengths.is_floating_point() or lengths.dtype == torch.bool:
        raise ValueError(f"lengths shape={tuple(lengths.shape)} is not (B,) of integers; give one per row")
    if lengths.numel() and (int(lengths.min()) < 0 or int(lengths.max()) > size):
        raise ValueError(
            f"lengths={lengths.tolist()} leave [0, size={size}]; give the size of the longest row"
        )
    return (torch.arange(size, device=lengths.device) < lengths[:, None])[:, None]  # (B, 1, S)


def padding_mask(ids: Tensor, pad_id: int) -> Tensor:
    """True where a key is a real token."""
    if ids.ndim != 2:
        raise ValueError(f"ids shape={tuple(ids.shape)} is not (B, S); give one row of ids per sequence")
    return (ids != pad_id)[:, None]  # (B, 1, S)


def causal_mask(T: int, S: int, device: torch.device | str = "cpu") -> Tensor:
    """True up to the diagonal that ends at the last query and the last key: decoding resumes a prefix."""
    if T < 0 or S < 0:
        raise ValueError(f"T={T}, S={S} are not both lengths; give 0 or more")
    return torch.ones(T, S, dtype=torch.bool, device=device).tril(S - T)


def allowed_by_all(mask: Tensor | None, other: Tensor | None) -> Tensor | None:
    """Masks combine by AND: a key is seen if nothing forbids it."""
    if mask is None or other is None:
        return other if mask is None else mask
    return mask & other


def attend(
    q: Tensor, k: Tensor, v: Tensor, allowed: Tensor | None, dropout: float = 0.0
) -> tuple[Tensor, Tensor]:
    """softmax(q k^T / sqrt(d)) v, and the weights as they are before dropout.

    Dividing by sqrt(d) keeps the scores of unit-variance q and k at unit variance, so that softmax is not
    saturated from the start. The fill is finite and forbidden weights are then set to zero: a query that sees
    no key gets zeros, and its gradient is finite, where a fill of -inf makes both NaN. Low precision is
    widened for the scores: in bfloat16 one of 100 is off by up to 0.25, which its weight shows as e^0.25.
    """
    q, k = _wide(q), _wide(k)
    scores = (q * q.shape[-1] ** -0.5) @ k.transpose(-2, -1)  # (..., T, S)
    if allowed is None:
        weights = scores.softmax(-1)
    else:
        lowest = torch.finfo(scores.dtype).min
        weights = torch.where(allowed, torch.where(allowed, scores, lowest).softmax(-1), 0.0)
    used = nn.functional.dropout(weights, dropout) if dropout else weights
    return used.to(v.dtype) @ v, weights


def _wide(x: Tensor) -> Tensor:
    return x.float() if x.dtype in (torch.bfloat16, torch.float16) else x


def without_unseen(x: Tensor, allowed: Tensor) -> Tensor:
    """Zeros for what no query may see: 0 * nan is nan, so a zero weight alone does not hide it."""
    return torch.where(allowed.any(-2).unsqueeze(-1), x, 0.0)


def attention(
    q: Tensor, k: Tensor, v: Tensor, mask: Tensor | None = None, causal: bool = False
) -> tuple[Tensor, Tensor]:
    """Equation 1 for q (..., T, d), k (..., S, d), v (..., S, d_v); mask broadcasts to (..., T, S)."""
    check_attention(q, k, v)
    T, S = q.shape[-2], k.shape[-2]
    if mask is not None:
        check_broadcasts(mask, (*q.shape[:-1], S))
        mask = torch.atleast_2d(mask)
    allowed = allowed_by_all(mask, causal_mask(T, S, q.device) if causal else None)
    if allowed is not None:
        k, v = without_unseen(k, allowed), without_unseen(v, allowed)
    return attend(q, k, v, allowed)


class Attention(nn.Module):
    """The function above as a module, for the places that want one."""

    def forward(
        self, q: Tensor, k: Tensor, v: Tensor, mask: Tensor | None = None, causal: bool = False
    ) -> tuple[Tensor, Tensor]:
        return attention(q, k, v, mask, causal)


class Linear(nn.Linear):
    """y = x W^T + b, started so that signals keep their variance (Xavier) and with zero bias."""

    def reset_parameters(self) -> None:
        nn.init.xavier_uniform_(self.weight)
        if self.bias is not None:
            nn.init.zeros_(self.bias)

    def forward(self, x: Tensor) -> Tensor:
        return self._of_one_row(x) if self._has_one_row(x) else super().forward(x)

    def _has_one_row(self, x: Tensor) -> bool:
        """Whether x is a single row of a decoding step, in the precision for which this was measured."""
        if torch.compiler.is_compiling() or torch.is_grad_enabled() or x.dtype != torch.float32:
            return False
        return x.device.type == "cpu" and x.numel() == x.shape[-1] == self.in_features

    def _of_one_row(self, x: Tensor) -> Tensor:
        """The row twice: BLAS reads the weights at half the speed when it is given a single vector."""
        twice = x.reshape(1, -1).repeat(2, 1).t()  # (in, 2)
        if self.bias is None:
            y = self.weight @ twice
        else:
            y = torch.addmm(self.bias.unsqueeze(1), self.weight, twice)
        return y[:, 0].reshape(*x.shape[:-1], -1)


class QKVProjection(nn.Module):
    """Three learned maps of one input."""

    def __init__(self, config: Config) -> None:
        super().__init__()
        check_config(config, "d_model", "bias")
        self.d_model = config.d_model
        self.query, self.key, self.value = (
            Linear(config.d_model, config.d_model, config.bias) for _ in range(3)
        )

    def forward(self, x: Tensor) -> dict[str, Tensor]:
        check_width("x", x, self.d_model)
        return {"q": self.query(x), "k": self.key(x), "v": self.value(x)}


class MultiHeadAttention(nn.Module):
    """H attentions side by side in subspaces of width d, joined and mixed by one more map (section 3.2.2).

    Head h owns rows h*d to (h+1)*d of the three projections, each of which reads all D features.
    """

    def __init__(self, config: Config) -> None:
        super().__init__()
        check_config(config, "d_model", "num_heads", "dropout", "bias")
        self.d_model, self.num_heads, self.dropout = config.d_model, config.num_heads, config.dropout
        self.query, self.key, self.value, self.output = (
            Linear(config.d_model, config.d_model, config.bias) for _ in range(4)
        )

    def forward(self, query: Tensor, key_value: Tensor, mask: Tensor | None = None) -> tuple[Tensor, Tensor]:
        self._check(query, key_value, mask)
        if mask is not None:
            key_value = without_unseen(key_value, mask)
        return self.read(query, *self.keys_values(key_value), over_heads(mask))

    def keys_values(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """What a sequence offers to be read: keys and values (B, H, S, d)."""
        return self._split(self.key(x)), self._split(self.value(x))

    def read(self, query: Tensor, k: Tensor, v: Tensor, allowed: Tensor | None) -> tuple[Tensor, Tensor]:
        """Attention of a query (B, T, D) to keys and values that are there already."""
        dropout = self.dropout if self.training else 0.0
        heads, weights = attend(self._split(self.query(query)), k, v, allowed, dropout)
        return self.output(heads.transpose(1, 2).flatten(2)), weights  # (B, T, D), (B, H, T, S)

    def _split(self, x: Tensor) -> Tensor:
        return x.unflatten(-1, (self.num_heads, -1)).transpose(1, 2)  # (B, T, D) -> (B, H, T, d)

    def _check(self, query: Tensor, key_value: Tensor, mask: Tensor | None) -> None:
        check_width("query", query, self.d_model)
        check_width("key_value", key_value, self.d_model)
        check_same_batch("key_value", key_value, "query", query)
        check_some("key_value", key_value.shape[1])
        if mask is not None:
            check_mask("mask", mask, query.shape[0], query.shape[1], key_value.shape[1])


def over_heads(mask: Tensor | None) -> Tensor | None:
    """(T, S) or (B, T, S) to a form that every head shares: (..., 1, T, S)."""
    return None if mask is None else mask.unsqueeze(-3)
