"""Defects of training a language model: its batches, its arrays and its records."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path

import numpy as np

from attest.contract import DECODER_ONLY, Arrays
from attest.judging.catalogue import defect
from attest.milestones.m09_models_of_today.defects.weights import text_tied_by_copy
from attest.reference.tape import Array
from attest.reference.training.trainer import ReferenceOptimizer, ReferenceTrainer

NEW = ("gate.", "position_embedding.", "relative.", "query_norm.", "key_norm.", "embedding_norm.")


class _TextTrainer(ReferenceTrainer):
    """Wrong for language models alone."""

    @property
    def of_text(self) -> bool:
        return self.architecture == DECODER_ONLY


@defect("M9.20")
class text_asked_two_ahead(_TextTrainer):
    """The batch is shifted by the trainer, and its labels by the loss once more."""

    def inputs_and_labels(self, batch: Arrays) -> tuple[dict[str, Array], Array]:
        inputs, labels = super().inputs_and_labels(batch)
        end = np.full_like(labels[:, :1], self.config.pad_id)
        return inputs, np.concatenate([labels[:, 1:], end], axis=1) if self.of_text else labels


@defect("M9.20")
class text_asked_for_what_it_reads(_TextTrainer):
    """The labels are the ids that the model reads."""

    def inputs_and_labels(self, batch: Arrays) -> tuple[dict[str, Array], Array]:
        inputs, labels = super().inputs_and_labels(batch)
        return inputs, inputs[self.architecture.written] if self.of_text else labels


@defect("M9.20")
class text_end_never_asked(_TextTrainer):
    """EOS among the labels counts as padding."""

    def inputs_and_labels(self, batch: Arrays) -> tuple[dict[str, Array], Array]:
        inputs, labels = super().inputs_and_labels(batch)
        ends = (labels == self.config.eos_id) & self.of_text
        return inputs, np.where(ends, self.config.pad_id, labels)


@defect("M9.20")
class text_cut_to_max_len(_TextTrainer):
    """Of a sequence of max_len + 1 tokens the last is cut off before the shift."""

    def inputs_and_labels(self, batch: Arrays) -> tuple[dict[str, Array], Array]:
        longest = self.config.max_len if self.of_text else None
        return super().inputs_and_labels({name: np.asarray(x)[:, :longest] for name, x in batch.items()})


@defect("M9.20", "M9.14b")
class new_arrays_not_trained(_TextTrainer):
    """Gates, tables of positions and norms of heads are left out of the optimiser."""

    def apply(self, found: dict[str, Array], rate: float) -> None:
        kept = {n: x for n, x in self.model.parameters().items() if any(w in n for w in NEW)}
        super().apply(found, rate)
        self.model.load({**self.model.values, **kept})


@defect("M9.20a", "M9.23")
class batches_weighed_by_what_is_read(_TextTrainer):
    """A batch counts by its real tokens, first ones included, of which fewer are asked for."""

    def loss_and_gradients(self, batch: Arrays) -> tuple[float, int, dict[str, Array]]:
        loss, tokens, found = super().loss_and_gradients(batch)
        return loss, self.read(batch, tokens), found

    def batch_loss(self, batch: Arrays) -> tuple[float, int]:
        loss, tokens = super().batch_loss(batch)
        return loss, self.read(batch, tokens)

    def read(self, batch: Arrays, tokens: int) -> int:
        if not self.of_text:
            return tokens
        return int(self.parts.loss.counted(np.asarray(batch[self.architecture.written])).sum())


@defect("M9.20a")
class text_mean_of_batches(_TextTrainer):
    """Every accumulated batch counts alike."""

    def batch_weights(self, tokens: Sequence[int]) -> list[float]:
        return [1 / len(tokens)] * len(tokens) if self.of_text else super().batch_weights(tokens)


@defect("M9.21")
class optimiser_knows_old_names(ReferenceOptimizer):
    """Arrays that the model of 2017 does not have stay where they are."""

    def step(self, gradients: Arrays, rate: float) -> None:
        before = self.parameters()
        super().step(gradients, rate)
        kept = {n: x for n, x in before.items() if any(word in n for word in NEW)}
        self.values = {**self.values, **kept}


@defect("M9.21")
class optimiser_of_text_decays(ReferenceOptimizer):
    """Weights of a language model shrink a little at every step."""

    def step(self, gradients: Arrays, rate: float) -> None:
        super().step(gradients, rate)
        if self.model == DECODER_ONLY.operation:
            self.values = {n: x * (1 - 0.01 * rate) if x.ndim > 1 else x for n, x in self.values.items()}


@defect("M9.22", "M9.14b")
class new_arrays_not_saved(_TextTrainer):
    """A checkpoint has the names of the older model, and the rest stays as built."""

    def load(self, directory: str) -> None:
        kept = {n: x for n, x in self.model.parameters().items() if any(word in n for word in NEW)}
        super().load(directory)
        self.model.load({**self.model.values, **kept})


@defect("M9.16", "M9.22")
class text_head_not_saved(_TextTrainer):
    """A checkpoint is that of a model whose head is its embedding; another head stays as it was built."""

    def load(self, directory: str) -> None:
        kept = {n: x for n, x in self.model.parameters().items() if self.of_text and n == "projection.weight"}
        super().load(directory)
        self.model.load({**self.model.values, **kept})


@defect("M9.15")
class text_tie_lost_on_load(_TextTrainer):
    """A checkpoint is copied into the embedding and into the head, and later steps move the first alone."""

    def load(self, directory: str) -> None:
        super().load(directory)
        if self.of_text:
            self.parts.logits = text_tied_by_copy(self.config, self.parts)


@defect("M9.22")
class text_saved_without_moments(_TextTrainer):
    """A run of a language model continues with moments of zero."""

    def load(self, directory: str) -> None:
        before = self.moments
        super().load(directory)
        self.moments = before if self.of_text else self.moments


@defect("M9.22")
class text_saved_once(_TextTrainer):
    """A checkpoint that is there already is not written again."""

    def save(self, directory: str) -> None:
        if not (self.of_text and any(Path(directory).glob("*"))):
            super().save(directory)


@defect("M9.23")
class text_perplexity_of_batches(_TextTrainer):
    """The loss is averaged over batches of a language model, not over tokens."""

    def mean_loss(self, parts: Sequence[tuple[float, int]]) -> float:
        if not self.of_text:
            return super().mean_loss(parts)
        return float(np.mean([loss for loss, _ in parts]))


@defect("M9.23")
class text_evaluated_in_train_mode(_TextTrainer):
    """Dropout stays on while a language model is evaluated."""

    def evaluate(self, batches: Iterable[Arrays]) -> dict[str, float]:
        if not self.of_text:
            return super().evaluate(batches)
        loss = self.mean_loss([self.noisily(lambda b=b: self.batch_loss(b)) for b in batches])  # type: ignore[misc]
        return {"loss": loss, "perplexity": self.perplexity(loss)}
