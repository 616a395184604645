"""From the contract's masks (True = may attend) to those of torch.nn's modules (True = may not).

Shapes: B batch, H heads, T queries, S keys.
"""

import torch
from torch import Tensor


def causal(T: int, S: int, device: torch.device | str = "cpu") -> Tensor:
    return torch.ones(T, S, dtype=torch.bool, device=device).tril(S - T)


def for_module(mask: Tensor | None, x: Tensor, heads: int) -> tuple[Tensor | None, Tensor | None]:
    """An attention mask (T, S) or (B * H, T, S), or a key padding mask (B, S): never both."""
    if mask is None:
        return None, None
    B, T = x.shape[:2]
    if mask.ndim == 2:
        return ~mask, None
    if mask.shape[1] == 1:
        return None, ~mask[:, 0].expand(B, -1)
    return ~mask.expand(B, T, -1).repeat_interleave(heads, 0), None


def for_causal_module(mask: Tensor | None, x: Tensor, heads: int) -> tuple[Tensor, Tensor | None]:
    """The same with the future hidden on top."""
    past = causal(x.shape[1], x.shape[1], x.device)
    if mask is None:
        return ~past, None
    if mask.ndim == 3 and mask.shape[1] == 1:
        return ~past, ~mask[:, 0].expand(x.shape[0], -1)
    combined, _ = for_module(past & mask, x, heads)
    assert combined is not None
    return combined, None
