"""Defects of training masked language models and classifiers: what is asked, what counts, what is kept."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np

from attest.contract import CLASSIFYING, MASKED, Architecture, Arrays
from attest.judging.catalogue import defect
from attest.reference.component import ReferenceComponent
from attest.reference.models.encoder_only import EncoderOnly
from attest.reference.tape import Array, Var
from attest.reference.training.trainer import ReferenceTrainer

Asked = tuple[dict[str, Array], Array]


class _Trainer(ReferenceTrainer):
    """Wrong for one architecture alone: `wrong` says whether this is one of it."""

    wrong_for: tuple[Architecture, ...] = (MASKED, CLASSIFYING)

    @property
    def wrong(self) -> bool:
        return self.architecture in self.wrong_for


class _MaskedTrainer(_Trainer):
    wrong_for = (MASKED,)

    def inputs_and_labels(self, batch: Arrays) -> Asked:
        inputs, labels = super().inputs_and_labels(batch)
        return self.asked(inputs, labels) if self.wrong else (inputs, labels)

    def asked(self, inputs: dict[str, Array], labels: Array) -> Asked:
        return inputs, labels


class _ClassifierTrainer(_Trainer):
    wrong_for = (CLASSIFYING,)


@defect("M9.30")
class every_token_is_asked_for(_MaskedTrainer):
    """The loss of a batch is taken over all tokens, those included that nobody hid."""

    def asked(self, inputs: dict[str, Array], labels: Array) -> Asked:
        return inputs, np.where(labels == self.config.pad_id, inputs["ids"], labels)


@defect("M9.30")
class only_hidden_tokens_are_asked_for(_MaskedTrainer):
    """Chosen tokens that were replaced or left stay without a loss."""

    def asked(self, inputs: dict[str, Array], labels: Array) -> Asked:
        return inputs, np.where(inputs["ids"] == self.config.mask_id, labels, self.config.pad_id)


@defect("M9.30")
class tokens_are_chosen_once(_MaskedTrainer):
    """The places of the first batch of a shape are asked for in every later one of that shape."""

    def asked(self, inputs: dict[str, Array], labels: Array) -> Asked:
        if not hasattr(self, "_places"):
            self._places: dict[tuple[int, ...], Array] = {}
        places = self._places.setdefault(labels.shape, labels != self.config.pad_id)
        known = np.where(labels == self.config.pad_id, inputs["ids"], labels)
        return inputs, np.where(places, known, self.config.pad_id)


@defect("M9.30")
class hidden_tokens_shifted(_MaskedTrainer):
    """The labels are those of the token that follows, as for a language model."""

    def asked(self, inputs: dict[str, Array], labels: Array) -> Asked:
        return inputs, np.pad(labels[:, 1:], ((0, 0), (0, 1)), constant_values=self.config.pad_id or 0)


@defect("M9.30")
class labels_of_padding_counted(_MaskedTrainer):
    """Where nothing is asked the id of padding is: the mean is over all places."""

    def counted(self, labels: Array) -> Array:
        return np.ones(labels.shape, bool) if self.wrong else super().counted(labels)

    def loss_of(self, logits: Var, labels: Array, smoothing: float) -> Var:
        if not self.wrong:
            return super().loss_of(logits, labels, smoothing)
        losses = self.parts.loss.token_losses(logits, labels, smoothing)
        return self.parts.loss.reduce_losses(losses, self.counted(labels))


@defect("M9.30")
class head_not_trained(_MaskedTrainer):
    """What stands between encoder and projection is not given to the optimiser."""

    def apply(self, found: dict[str, Array], rate: float) -> None:
        kept = {n: x for n, x in self.model.parameters().items() if self.wrong and n.startswith("head.")}
        super().apply(found, rate)
        self.model.load({**self.model.values, **kept})


@defect("M9.30")
class hidden_tokens_seen_without_noise(_MaskedTrainer):
    """A masked language model is trained in evaluation mode."""

    def noisily(self, run: Callable[[], Any]) -> Any:
        return run() if self.wrong else super().noisily(run)


class _ByTokens(_Trainer):
    """A batch counts by what it reads."""

    def loss_and_gradients(self, batch: Arrays) -> tuple[float, int, dict[str, Array]]:
        loss, count, found = super().loss_and_gradients(batch)
        return loss, self.read(batch) if self.wrong else count, found

    def read(self, batch: Arrays) -> int:
        return int((np.asarray(batch["ids"]) != self.config.pad_id).sum())


@defect("M9.30a")
class hidden_batches_weighed_by_what_is_read(_ByTokens):
    """An accumulated batch counts by its real tokens, of which few are asked for."""

    wrong_for = (MASKED,)


@defect("M9.33a")
class classes_weighed_by_tokens(_ByTokens):
    """An accumulated batch counts by its real tokens, and not by its rows."""

    wrong_for = (CLASSIFYING,)


@defect("M9.30b")
class masked_models_start_loud(ReferenceComponent):
    """The projection of a masked language model is initialised ten times too wide."""

    def initial(self) -> dict[str, Array]:
        found = super().initial()
        loud = self.operation == MASKED.operation
        return {n: 10 * x if loud and n == "projection.weight" else x for n, x in found.items()}


class _Forgetful(_Trainer):
    """A run that is continued lacks something."""

    def load(self, directory: str) -> None:
        before = self.moments
        super().load(directory)
        self.moments = before if self.wrong else self.moments


@defect("M9.31")
class masked_runs_forget_the_moments(_Forgetful):
    """A run of a masked language model continues with moments of zero."""

    wrong_for = (MASKED,)


@defect("M9.34")
class classifier_runs_forget_the_moments(_Forgetful):
    """A run of a classifier continues with moments of zero."""

    wrong_for = (CLASSIFYING,)


@defect("M9.31")
class head_not_saved(_MaskedTrainer):
    """A checkpoint holds the encoder, as one for another task would; the head stays as it was built."""

    def load(self, directory: str) -> None:
        kept = {n: x for n, x in self.model.parameters().items() if self.wrong and n.startswith("head.")}
        super().load(directory)
        self.model.load({**self.model.values, **kept})


class _FromTheEnd(_Trainer):
    """A negative label counts from the end."""

    def given_labels(self, batch: Arrays) -> Array:
        if not self.wrong:
            return super().given_labels(batch)
        labels = np.asarray(batch["labels"])
        return super().given_labels({**batch, "labels": labels % self.architecture.num_classes(self.config)})


@defect("M9.31")
class hidden_labels_wrap(_FromTheEnd):
    """A label of -1 is the last token, and one beyond the vocabulary the first."""

    wrong_for = (MASKED,)


@defect("M9.34")
class classes_wrap(_FromTheEnd):
    """A label of -1 is the last class, and one beyond them the first."""

    wrong_for = (CLASSIFYING,)


class _MeanOfMeans(_Trainer):
    """The loss is averaged over batches."""

    def mean_loss(self, parts: Sequence[tuple[float, int]]) -> float:
        return float(np.mean([loss for loss, _ in parts])) if self.wrong else super().mean_loss(parts)


@defect("M9.32")
class hidden_tokens_averaged_by_batch(_MeanOfMeans):
    """The evaluated loss of a masked language model is a mean over batches."""

    wrong_for = (MASKED,)


@defect("M9.35")
class classes_averaged_by_batch(_MeanOfMeans):
    """The evaluated loss of a classifier is a mean over batches."""

    wrong_for = (CLASSIFYING,)


class _TaughtByEvaluation(_Trainer):
    """What should only be measured is learned."""

    def evaluate(self, batches: Iterable[Arrays]) -> dict[str, float]:
        held_out = list(batches)
        found = super().evaluate(held_out)
        if self.wrong:
            self.accumulate(held_out)
        return found


@defect("M9.32")
class hidden_tokens_learned_in_evaluation(_TaughtByEvaluation):
    """A masked language model is trained on what is held out."""

    wrong_for = (MASKED,)


@defect("M9.35")
class classes_learned_in_evaluation(_TaughtByEvaluation):
    """A classifier is trained on what is held out."""

    wrong_for = (CLASSIFYING,)


@defect("M9.33")
class class_of_padding_not_taught(_ClassifierTrainer):
    """Rows whose class has the number of padding are left out, as padding is among tokens."""

    def counted(self, labels: Array) -> Array:
        counted: Array = labels != self.config.pad_id
        return counted if self.wrong else super().counted(labels)


@defect("M9.33")
class rows_weighed_by_their_tokens(_ClassifierTrainer):
    """A row counts as often as it has tokens."""

    def loss_and_gradients(self, batch: Arrays) -> tuple[float, int, dict[str, Array]]:
        if not self.wrong:
            return super().loss_and_gradients(batch)
        ids, labels = np.asarray(batch["ids"]), np.asarray(batch["labels"])
        times = np.maximum((ids != self.config.pad_id).sum(axis=1), 1)
        return super().loss_and_gradients({"ids": ids.repeat(times, 0), "labels": labels.repeat(times)})


@defect("M9.33")
class encoder_frozen(_ClassifierTrainer):
    """Only the last linear map of a classifier is trained."""

    def apply(self, found: dict[str, Array], rate: float) -> None:
        kept = {n: x for n, x in self.model.parameters().items() if self.wrong and "projection" not in n}
        super().apply(found, rate)
        self.model.load({**self.model.values, **kept})


@defect("M9.33")
class padding_pooled_in_training(EncoderOnly):
    """The mean is over all columns while a classifier is trained, and over real tokens otherwise."""

    def shares(self, real: Array) -> Array:
        found = super().shares(real)
        if self.parts.noise is None or self.config.pooling != "mean":
            return found
        return np.full(found.shape, 1 / found.shape[1])


@defect("M9.34")
class classifiers_log_the_first_step(_ClassifierTrainer):
    """Steps 1, N + 1, 2 N + 1 of a classifier are logged."""

    def logs_now(self, log_every: int) -> bool:
        return self.steps % log_every == 1 % log_every if self.wrong else super().logs_now(log_every)


@defect("M9.35")
class classes_evaluated_with_smoothing(_ClassifierTrainer):
    """The evaluated loss of a classifier is smoothed."""

    def evaluation_smoothing(self) -> float:
        return self.config.label_smoothing if self.wrong else super().evaluation_smoothing()
