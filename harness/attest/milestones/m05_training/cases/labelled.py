"""Batches of models with an encoder alone: ids, and labels beside them.

Shapes: ids (B, T); labels (B, T), padding where nothing is asked, or (B,), the class of each row.
"""

from __future__ import annotations

import numpy as np

from attest.contract import Architecture, Array, Config
from attest.contract.architectures import CLASSES

SHARE = 0.5  # of the tokens are chosen; more than a masked language model has, for the batches are small


def labelled(
    rng: np.random.Generator, ids: Array, words: Array, architecture: Architecture, config: Config
) -> dict[str, Array]:
    """A batch of these rows, which padding follows; `words` (B, T) are what some tokens become."""
    if architecture.labels == CLASSES:
        classes = rng.integers(0, architecture.num_classes(config), len(ids))
        return {architecture.written: ids, "labels": classes}
    chosen = (ids != config.pad_id) & (rng.random(ids.shape) < SHARE)
    chosen[0, 0] = True  # something is asked in every batch
    fate = rng.integers(0, 3, ids.shape)  # a third each is hidden, another id, and left
    become = np.where(fate == 0, config.mask_id, np.where(fate == 1, words, ids))
    labels: Array = np.where(chosen, ids, np.asarray(config.pad_id))
    return {architecture.written: np.where(chosen, become, ids), "labels": labels}


def with_one_label(batch: dict[str, Array], pad_id: int | None) -> dict[str, Array]:
    """The first row alone, and of its labels only the first that asks for something."""
    labels = batch["labels"][:1]
    if labels.ndim == 2:
        first = np.cumsum(labels != pad_id, axis=1) == 1
        labels = np.where(first, labels, np.asarray(pad_id))
    return {**{name: x[:1] for name, x in batch.items()}, "labels": labels}
