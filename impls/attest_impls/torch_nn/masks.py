"""From the contract's masks (True = may attend) to those of torch.nn's modules (True = may not)."""

import torch
from torch import Tensor


def causal(T: int, S: int, device: torch.device | str = "cpu") -> Tensor:
    return torch.ones(T, S, dtype=torch.bool, device=device).tril(S - T)


def inverted_attention_mask(mask: Tensor | None, batch: int, queries: int, heads: int) -> Tensor | None:
    """(T, S) stays two-dimensional; (B or 1, T or 1, S) becomes torch's (B * H, T, S)."""
    if mask is None:
        return None
    if mask.ndim == 2:
        return ~mask
    return ~mask.expand(batch, queries, mask.shape[-1]).repeat_interleave(heads, 0)
