"""Masks: True where a query may attend to a key. They combine by `&`: a key is seen if no mask forbids it.

Shapes: B batch, T queries, S keys.
"""

import torch
from torch import Tensor


def length_mask(lengths: Tensor, size: int) -> Tensor:
    """Shows the first `lengths[b]` of `size` keys."""
    return (torch.arange(size, device=lengths.device) < lengths[:, None])[:, None]  # (B, 1, S)


def padding_mask(ids: Tensor, pad_id: int | None) -> Tensor:
    """Shows the keys that are real tokens: all of them where no id means padding."""
    real = torch.ones_like(ids, dtype=torch.bool) if pad_id is None else ids != pad_id
    return real[:, None]  # (B, 1, S)


def causal_mask(T: int, S: int, device: torch.device | str = "cpu") -> Tensor:
    """Hides the future. The last query sees the last key, also when there are more keys than queries.

    T = S = 4    1 . . .      T = 2, S = 4    1 1 1 .      two new queries, after two
                 1 1 . .                      1 1 1 1      whose keys are in the cache
                 1 1 1 .
                 1 1 1 1
    """
    return torch.ones(T, S, dtype=torch.bool, device=device).tril(S - T)  # (T, S)


def window_mask(positions: Tensor, key_positions: Tensor, window: int, sides: str = "before") -> Tensor:
    """Shows a query at position p the keys at positions p - window + 1 to p; `both` as many behind it.

    window = 2    1 . . .    both    1 1 . .
                  1 1 . .            1 1 1 .
                  . 1 1 .            . 1 1 1
                  . . 1 1            . . 1 1
    """
    distance = positions[:, :, None] - key_positions[:, None, :]  # (B, T, S)
    ahead = distance > -window if sides == "both" else distance >= 0
    return ahead & (distance < window)  # (B, T, S)


def without_unseen(x: Tensor, mask: Tensor) -> Tensor:
    """x (..., S, width) with zeros at the keys that no query may see.

    A weight of zero does not hide what is not a number: 0 * nan is nan.
    """
    return torch.where(mask.any(-2).unsqueeze(-1), x, 0.0)  # (..., S, width)


def left_aligned(ids: Tensor, pad_id: int | None) -> Tensor:
    """Padding before a text goes behind it: positions count from the first real token."""
    leading = padding_mask(ids, pad_id)[:, 0].long().argmax(-1, keepdim=True)  # (B, 1)
    index = torch.arange(ids.shape[1], device=ids.device) + leading
    return ids.gather(1, index % ids.shape[1])  # (B, S)


def right_aligned(ids: Tensor, pad_id: int | None) -> Tensor:
    """Padding wherever it stands goes before the text: the last token is the one to go on from."""
    order = padding_mask(ids, pad_id)[:, 0].long().argsort(dim=-1, stable=True)  # (B, S)
    return ids.gather(1, order)  # (B, S)
