"""Training of models with an encoder alone. A batch says by its labels what is asked; nothing is shifted.

    masked language model   ids (B, T) with tokens hidden   labels (B, T): what they were, pad_id elsewhere
    classifier              ids (B, T)                      labels (B,): the class of each text

Hiding tokens anew for every batch is up to whoever makes the batches: see masking.py.

Shapes: B batch, T length, V vocabulary, C classes.
"""

from collections.abc import Mapping
from typing import Any

import numpy as np
import torch
from torch import Tensor

from attest.contract import CLASSIFYING, MASKED, Arrays

from .arguments import check_inputs
from .checks import check_labels
from .masks import padding_mask
from .training import Trainer, token_losses


class MaskedLanguageModelTrainer(Trainer):
    """The loss is taken where a token was chosen, whether it was hidden, replaced or left."""

    architecture = MASKED

    def loss_of(self, streams: dict[str, Tensor], smoothing: float) -> Tensor:
        labels = self._labels(streams)
        logits = self.model.module(streams["ids"])["logits"]  # (B, T, V), of a classifier (B, C)
        return torch.where(self.counts(labels), token_losses(logits, labels, smoothing), 0.0).sum()

    def counts(self, labels: Tensor) -> Tensor:
        """Where something is asked."""
        return padding_mask(labels, self.config.pad_id)[:, 0]  # (B, T)

    def _labels(self, streams: dict[str, Tensor]) -> Tensor:
        return streams["labels"]

    def _count(self, streams: dict[str, Tensor]) -> int:
        return int(self.counts(self._labels(streams)).sum())

    def _tensors(self, batch: Arrays) -> dict[str, Tensor]:
        self._check(batch)
        given = self.model.tensors({name: np.asarray(batch[name]) for name in self.architecture.given})
        check_inputs(self.architecture.operation, self.config, ids=given["ids"])
        wanted = self.label_shape(given["ids"])
        check_labels(given["labels"], wanted, self.architecture.num_classes(self.config))
        return given

    def label_shape(self, ids: Tensor) -> torch.Size:
        return ids.shape

    def _check(self, batch: Mapping[str, Any]) -> None:
        if missing := set(self.architecture.given) - set(batch):
            raise ValueError(f"batch={sorted(batch)} lacks {sorted(missing)}; give ids and labels")


class ClassifierTrainer(MaskedLanguageModelTrainer):
    """The same with one label for a text. Every class counts, whatever number padding has among the ids."""

    architecture = CLASSIFYING

    def counts(self, labels: Tensor) -> Tensor:
        return torch.ones_like(labels, dtype=torch.bool)  # (B,)

    def label_shape(self, ids: Tensor) -> torch.Size:
        return ids.shape[:1]
