"""Defects of the training loop. Each dies by a few steps against the reference, not by failing to learn."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from attest.contract import Arrays
from attest.judging.catalogue import defect
from attest.reference.tape import Array
from attest.reference.training.loss import Shift
from attest.reference.training.trainer import ReferenceTrainer


@defect("M5.9")
class no_shift(Shift):
    """The decoder reads what it is asked for."""

    def __call__(self, target: Array) -> tuple[Array, Array]:
        return target[:, 1:], target[:, 1:]


@defect("M5.9")
class shifted_twice(Shift):
    """The labels are two positions ahead of the input."""

    def __call__(self, target: Array) -> tuple[Array, Array]:
        pad = np.full_like(target[:, :1], self.config.pad_id)
        return target[:, :-1], np.concatenate([target[:, 2:], pad], 1)


@defect("M5.9")
class double_start(Shift):
    """A second BOS is put before the target that has one."""

    def __call__(self, target: Array) -> tuple[Array, Array]:
        start = np.full_like(target[:, :1], self.config.bos_id)
        return np.concatenate([start, target[:, :-1]], 1), target


@defect("M5.9")
class pad_as_start(Shift):
    """The decoder starts from padding and not from BOS."""

    def __call__(self, target: Array) -> tuple[Array, Array]:
        read, labels = super().__call__(target)
        start = np.full_like(read[:, :1], self.config.pad_id)
        return np.concatenate([start, read[:, 1:]], 1), labels


@defect("M5.9")
class end_never_asked(Shift):
    """EOS among the labels counts as padding."""

    def __call__(self, target: Array) -> tuple[Array, Array]:
        read, labels = super().__call__(target)
        return read, np.where(labels == self.config.eos_id, self.config.pad_id, labels)


@defect("M5.9")
class end_is_read(Shift):
    """The last column is cut off for its place, and the end of shorter rows is turned into padding."""

    def __call__(self, target: Array) -> tuple[Array, Array]:
        read, labels = super().__call__(target)
        return read, np.where(read == self.config.eos_id, self.config.eos_id, labels)


@defect("M5.6")
class clip_after_step(ReferenceTrainer):
    """The gradients are clipped when they have been used."""

    def update(self, found: dict[str, Array], rate: float) -> None:
        self.apply(found, rate)
        self.parts.clipping.clip(found)


@defect("M5.6")
class rate_of_the_next_step(ReferenceTrainer):
    """The schedule moves on before the step."""

    def next_rate(self) -> float:
        super().next_rate()
        return self.parts.schedule(self.steps + 1)


@defect("M5.6")
class norm_after_clipping(ReferenceTrainer):
    """The norm reported is the one after clipping."""

    def accumulate(self, batches: Sequence[Arrays]) -> dict[str, float]:
        report = super().accumulate(batches)
        return report | {"norm": min(report["norm"], self.config.clip_norm)}


@defect("M5.6")
class loss_after_the_step(ReferenceTrainer):
    """The loss reported is the one of the new parameters."""

    def accumulate(self, batches: Sequence[Arrays]) -> dict[str, float]:
        report = super().accumulate(batches)
        return report | {"loss": self.mean_loss([self.batch_loss(batch) for batch in batches])}


@defect("M5.6")
class embeddings_not_trained(ReferenceTrainer):
    """The embeddings are left out of the optimiser."""

    def apply(self, found: dict[str, Array], rate: float) -> None:
        kept = {name: value for name, value in self.model.parameters().items() if "embedding" in name}
        super().apply(found, rate)
        self.model.load({**self.model.values, **kept})


@defect("M5.10b", "M5.6")
class steps_on_a_copy(ReferenceTrainer):
    """The optimiser holds copies of the parameters, and the model never changes."""

    def apply(self, found: dict[str, Array], rate: float) -> None:
        self.parts.adam.adam_step(self.model.values, self.moments, found, rate)


@defect("M5.10", "M5.6")
class no_zero_grad(ReferenceTrainer):
    """Gradients of all steps pile up."""

    def collect(self, new: dict[str, Array]) -> dict[str, Array]:
        held = getattr(self, "held", None)
        self.held = new if held is None else {name: held[name] + g for name, g in new.items()}
        return self.held


@defect("M5.10")
class stays_in_eval(ReferenceTrainer):
    """After the first evaluation training goes on without dropout."""

    def training_seed(self) -> tuple[int, ...] | None:
        return None if hasattr(self, "evaluated") else super().training_seed()

    def evaluate(self, batches: Iterable[Arrays]) -> dict[str, float]:
        self.evaluated = True
        return super().evaluate(batches)


@defect("M5.10")
class never_in_train_mode(ReferenceTrainer):
    """The loop never calls train, so the model stays in eval mode."""

    def training_seed(self) -> tuple[int, ...] | None:
        return None


@defect("M5.10")
class the_same_noise_every_step(ReferenceTrainer):
    """The generator is seeded again before each step, and the same units are dropped for ever."""

    def training_seed(self) -> tuple[int, ...] | None:
        return (self.config.seed,)


@defect("M5.10")
class evaluation_leaves_eval(ReferenceTrainer):
    """The model is in eval mode after an evaluation whatever it was before."""

    def evaluate(self, batches: Iterable[Arrays]) -> dict[str, float]:
        seen = super().evaluate(batches)
        self.model.eval()
        return seen


@defect("M5.10")
class evaluation_leaves_train(ReferenceTrainer):
    """The model is in train mode after an evaluation whatever it was before."""

    def evaluate(self, batches: Iterable[Arrays]) -> dict[str, float]:
        seen = super().evaluate(batches)
        self.model.train(self.config.seed)
        return seen


@defect("M5.3b")
class accumulates_means(ReferenceTrainer):
    """Every batch weighs the same, however few its tokens."""

    def batch_weights(self, tokens: Sequence[int]) -> list[float]:
        return [1.0 / len(tokens)] * len(tokens)

    def mean_loss(self, parts: Sequence[tuple[float, int]]) -> float:
        return float(sum(loss * n for loss, n in parts) / max(sum(n for _, n in parts), 1))


@defect("M5.3b")
class accumulates_sums(ReferenceTrainer):
    """The means of the batches are added up and not averaged."""

    def weighted_sum(self, weights: list[float], found: list[dict[str, Array]]) -> dict[str, Array]:
        return super().weighted_sum([1.0] * len(found), found)


@defect("M5.3b")
class accumulation_clips_each_batch(ReferenceTrainer):
    """Every batch's gradient is clipped before they are added up."""

    def weighted_sum(self, weights: list[float], found: list[dict[str, Array]]) -> dict[str, Array]:
        return super().weighted_sum(weights, [self.parts.clipping.clip(g) for g in found])


@defect("M5.3b")
class accumulation_steps_each_batch(ReferenceTrainer):
    """An update for every batch."""

    def accumulate(self, batches: Sequence[Arrays]) -> dict[str, float]:
        reports = [super(accumulation_steps_each_batch, self).accumulate([batch]) for batch in batches]
        return reports[-1]


@defect("M5.8")
class logs_previous_rate(ReferenceTrainer):
    """The log shows the rate of the step before."""

    def log_entry(self, report: Mapping[str, float]) -> dict[str, Any]:
        return super().log_entry(report) | {"rate": self.parts.schedule(max(self.steps - 1, 1))}


@defect("M5.8")
class logs_next_rate(ReferenceTrainer):
    """The log shows the rate of the step to come."""

    def log_entry(self, report: Mapping[str, float]) -> dict[str, Any]:
        return super().log_entry(report) | {"rate": self.parts.schedule(self.steps + 1)}


@defect("M5.8")
class logs_every_step(ReferenceTrainer):
    """log_every is ignored."""

    def logs_now(self, log_every: int) -> bool:
        return True


@defect("M5.8")
class logs_from_zero(ReferenceTrainer):
    """The log counts steps from 0, and so logs one step after the due one."""

    def logs_now(self, log_every: int) -> bool:
        return (self.steps - 1) % log_every == 0


@defect("M5.8")
class logs_running_mean(ReferenceTrainer):
    """The logged loss is the mean over the whole run."""

    def log_entry(self, report: Mapping[str, float]) -> dict[str, Any]:
        self.total: float = getattr(self, "total", 0.0) + report["loss"]
        return super().log_entry(report) | {"loss": self.total / self.steps}


@defect("M5.10c")
class noise_from_the_global_generator(ReferenceTrainer):
    """Dropout is drawn from the generator everybody uses."""

    def training_seed(self) -> tuple[int, ...] | None:
        return (int(np.random.randint(2**31)),)


@defect("M5.10c")
class trainers_share_their_noise(ReferenceTrainer):
    """One counter of draws for all trainers of the process."""

    drawn = [0]  # noqa: RUF012

    def training_seed(self) -> tuple[int, ...] | None:
        self.drawn[0] += 1
        return (self.config.seed, self.drawn[0])


@defect("M5.13")
class mean_of_batch_means(ReferenceTrainer):
    """Evaluation averages the losses of its batches."""

    def mean_loss(self, parts: Sequence[tuple[float, int]]) -> float:
        return float(np.mean([loss for loss, _ in parts]))


@defect("M5.6")
class a_step_counts_two_tokens(ReferenceTrainer):
    """A step on a single token divides by two."""

    def loss_and_gradients(self, batch: Arrays) -> tuple[float, int, dict[str, Array]]:
        loss, tokens, gradients = super().loss_and_gradients(batch)
        factor = 0.5 if tokens == 1 else 1.0
        return factor * loss, tokens, {name: factor * g for name, g in gradients.items()}


@defect("M5.13")
class at_least_two_tokens(ReferenceTrainer):
    """Evaluation divides by two where there is a single token."""

    def mean_loss(self, parts: Sequence[tuple[float, int]]) -> float:
        return super().mean_loss(parts) / (2.0 if sum(tokens for _, tokens in parts) == 1 else 1.0)


@defect("M5.13")
class perplexity_of_smoothed_loss(ReferenceTrainer):
    """Perplexity is taken of the training objective."""

    def perplexity(self, loss: float) -> float:
        return math.exp(loss + self.config.label_smoothing)


@defect("M5.13")
class perplexity_in_bits(ReferenceTrainer):
    """2 to the power of a loss in nats."""

    def perplexity(self, loss: float) -> float:
        return float(2.0**loss)


@defect("M5.13")
class evaluation_smooths(ReferenceTrainer):
    """Evaluation takes the smoothed loss."""

    def evaluation_smoothing(self) -> float:
        return self.config.label_smoothing


@defect("M5.13")
class evaluation_updates(ReferenceTrainer):
    """A step is taken on every batch that is evaluated."""

    def batch_loss(self, batch: Arrays) -> tuple[float, int]:
        loss = super().batch_loss(batch)
        self.step(batch)
        return loss


@defect("M5.13")
class evaluation_with_dropout(ReferenceTrainer):
    """Evaluation forgets to switch dropout off."""

    def batch_loss(self, batch: Arrays) -> tuple[float, int]:
        self.model.seed = (self.config.seed, self.draws)
        return super().batch_loss(batch)


@defect("M5.13")
class evaluation_draws_noise(ReferenceTrainer):
    """Evaluation moves the random state of the training it watches."""

    def evaluate(self, batches: Iterable[Arrays]) -> dict[str, float]:
        self.draws += 1
        return super().evaluate(batches)


@defect("M5.13")
class evaluation_counts_as_a_step(ReferenceTrainer):
    """Evaluation moves the schedule on."""

    def evaluate(self, batches: Iterable[Arrays]) -> dict[str, float]:
        self.steps += 1
        return super().evaluate(batches)


@defect("M5.13")
class evaluates_the_first_batch_only(ReferenceTrainer):
    """Evaluation returns after one batch."""

    def evaluate(self, batches: Iterable[Arrays]) -> dict[str, float]:
        return super().evaluate(list(batches)[:1])
