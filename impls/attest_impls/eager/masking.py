"""What a masked language model is taught with: tokens that are hidden (arXiv 1810.04805, section 3.1).

Shapes: B batch, T length, V vocabulary, K special ids.
"""

import torch
from torch import Tensor

from .checks import check_masking
from .training import Loss, token_losses

RATE = 0.15
HIDDEN, RANDOM = 0.8, 0.1  # of the chosen tokens; the rest are left as they are


def mask_tokens(
    ids: Tensor, mask_id: int, vocabulary: int, special: Tensor, seed: int, rate: float = RATE
) -> Tensor:
    """(2, B, T): the ids with some of them hidden, and 1 where a token was chosen.

    Some chosen tokens stay visible, or become another one: the model must have an opinion on every token,
    since it cannot know which were chosen.
    """
    check_masking(ids, mask_id, vocabulary, special, rate)
    draw = torch.Generator().manual_seed(seed)
    never = torch.cat([special, special.new_tensor([mask_id])])
    ordinary = torch.tensor([i for i in range(vocabulary) if i not in never.tolist()] or [mask_id])
    chosen = ~torch.isin(ids, never) & (torch.rand(ids.shape, generator=draw, dtype=torch.float64) < rate)
    lot = torch.rand(ids.shape, generator=draw, dtype=torch.float64)  # (B, T)
    drawn = ordinary[torch.randint(len(ordinary), ids.shape, generator=draw)]  # (B, T)
    hidden, replaced = chosen & (lot < HIDDEN), chosen & (lot >= HIDDEN) & (lot < HIDDEN + RANDOM)
    masked = torch.where(hidden, mask_id, torch.where(replaced, drawn, ids))
    return torch.stack([masked, chosen.to(masked.dtype)])


class MaskedLoss(Loss):
    """The mean over the tokens that were chosen, against what they were; 0 when none was."""

    def forward(  # type: ignore[override]
        self, logits: Tensor, ids: Tensor, masked: Tensor, chosen: Tensor
    ) -> dict[str, Tensor]:
        asked = (chosen != 0) & (ids != self.pad_id)  # (B, T), whether hidden, replaced or left
        losses = torch.where(asked, token_losses(logits, ids, self.smoothing), 0.0)
        return {"loss": losses.sum() / asked.sum().clamp(min=1)}
