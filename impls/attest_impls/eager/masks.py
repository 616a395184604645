"""Masks: True where a query may attend to a key. They combine by `&`: a key is seen if no mask forbids it.

Shapes: B batch, T queries, S keys.
"""

import torch
from torch import Tensor


def length_mask(lengths: Tensor, size: int) -> Tensor:
    """Shows the first `lengths[b]` of `size` keys."""
    return (torch.arange(size, device=lengths.device) < lengths[:, None])[:, None]  # (B, 1, S)


def padding_mask(ids: Tensor, pad_id: int) -> Tensor:
    """Shows the keys that are real tokens."""
    return (ids != pad_id)[:, None]  # (B, 1, S)


def causal_mask(T: int, S: int, device: torch.device | str = "cpu") -> Tensor:
    """Hides the future. The last query sees the last key, also when there are more keys than queries.

    T = S = 4    1 . . .      T = 2, S = 4    1 1 1 .      two new queries, after two
                 1 1 . .                      1 1 1 1      whose keys are in the cache
                 1 1 1 .
                 1 1 1 1
    """
    return torch.ones(T, S, dtype=torch.bool, device=device).tril(S - T)  # (T, S)


def without_unseen(x: Tensor, mask: Tensor) -> Tensor:
    """x (..., S, width) with zeros at the keys that no query may see.

    A weight of zero does not hide what is not a number: 0 * nan is nan.
    """
    return torch.where(mask.any(-2).unsqueeze(-1), x, 0.0)  # (..., S, width)
