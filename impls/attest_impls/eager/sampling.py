"""From logits to what may come next: temperature, then top-k, then top-p.

Shapes: B rows, V vocabulary.
"""

import math

import torch
from torch import Tensor

GREEDY_BELOW = 1e-6


def next_token_distribution(
    logits: Tensor, temperature: float = 1.0, top_k: int | None = None, top_p: float | None = None
) -> Tensor:
    """`distribution` of logits that are looked at: they are (B, V) and finite where they are highest."""
    _check_logits(logits)
    return distribution(logits, temperature, top_k, top_p)


def distribution(
    logits: Tensor, temperature: float = 1.0, top_k: int | None = None, top_p: float | None = None
) -> Tensor:
    """Probabilities (B, V) in float64. Temperature 0 leaves the likeliest token alone, the first of equals.

    top_k keeps the k likeliest, top_p the smallest set of the likeliest that reaches p: a token stays if the
    sum before it is below p, so the one that crosses p stays.
    """
    logits = logits.double()
    if temperature < GREEDY_BELOW:
        return torch.nn.functional.one_hot(logits.argmax(-1), logits.shape[-1]).double()
    # The maximum goes first, so that a small temperature cannot overflow.
    scaled = (logits - logits.amax(-1, keepdim=True)) / temperature
    if top_k is None and top_p is None:
        return scaled.softmax(-1)
    ordered, ids = scaled.sort(dim=-1, descending=True, stable=True)
    if top_k is not None:
        ordered[:, top_k:] = -math.inf
    p = ordered.softmax(-1)
    if top_p is not None and top_p < 1:
        p = torch.where(p.cumsum(-1) - p < top_p, p, 0.0)
        p = p / p.sum(-1, keepdim=True)
    return torch.zeros_like(p).scatter(-1, ids, p)


def _check_logits(logits: Tensor) -> None:
    if logits.ndim != 2 or not logits.shape[-1] or not logits.is_floating_point():
        raise ValueError(f"logits shape={tuple(logits.shape)} is not (B, V); give the last position's logits")
    best = logits.amax(-1) if logits.shape[0] else logits.new_zeros(1)
    check_sound(torch.isfinite(best))


def check_sound(sound: Tensor) -> None:
    """Whether the largest logit of each row was finite."""
    if not bool(sound.all()):
        raise ValueError(
            "logits=nan or infinite at their maximum give no distribution; look for the cause upstream"
        )
