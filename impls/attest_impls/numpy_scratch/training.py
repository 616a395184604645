"""The training loop (sections 5.3 and 5.4): shift, loss, gradient, clipping, rate, update.

Shapes: B batch, S source length, T target length, V target vocabulary.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from attest.contract import Array, Arrays, Config

from . import arguments, checkpoint
from .component import check_names
from .encoder_operations import ClassifierOperation, MaskedLanguageModelOperation
from .layers import DType, Random
from .loss import CrossEntropy
from .model_operations import TransformerOperation
from .optimisation import Adam, ClipGradients, LearningRate, global_norm
from .text_operations import LanguageModelOperation


class Optimizer:
    """Adam over the parameters of a model, as the contract calls it."""

    operation: Callable[..., Any] = TransformerOperation

    def __init__(self, config: Config, dtype: DType, rng: Random) -> None:
        self.model = type(self).operation(config, dtype, rng)
        self.adam = Adam(self.model.layer.all_params())

    def parameters(self) -> Arrays:
        found: Arrays = self.model.parameters()
        return found

    def load(self, parameters: Arrays) -> None:
        """Set the parameters and forget the moments."""
        self.model.load(parameters)
        self.adam.forget()

    def step(self, gradients: Arrays, rate: float) -> None:
        check_names(gradients, self.adam.values)
        given = {name: np.asarray(g, self.model.dtype) for name, g in gradients.items()}
        self.adam.step(given, rate)


class Trainer:
    """Model, loss, Adam, schedule and clipping.

    The dropout of a step is drawn from (seed, number of the step), and nothing else is random. So a run
    depends on its config and its batches alone, and to continue it needs no more than these two numbers
    beside parameters and moments.
    """

    operation: Callable[..., Any] = TransformerOperation

    def __init__(self, config: Config, dtype: DType, rng: Random) -> None:
        arguments.rate("label_smoothing", config.label_smoothing)
        self.model, self.config, self.seed = type(self).operation(config, dtype, rng), config, config.seed
        self.learning_rate = LearningRate(config)
        self.clip = ClipGradients(config)
        self.loss = CrossEntropy(self.ignored, config.label_smoothing)
        self.adam = Adam(self.model.layer.all_params())

    @property
    def ignored(self) -> int | None:
        """The label that stands for none."""
        return self.config.pad_id

    @property
    def steps(self) -> int:
        """Updates made so far."""
        return self.adam.count

    def step(self, batch: Arrays) -> dict[str, float]:
        """One update: `loss` before it, `rate` used, `norm` of the gradient before clipping."""
        return self.accumulate([batch])

    def accumulate(self, batches: Sequence[Arrays]) -> dict[str, float]:
        """One update from several batches, equal to the one from their concatenation."""
        arguments.require(len(batches) > 0, "batches", [], "gives no gradient", "give at least one")
        parts = [self._shifted(batch) for batch in batches]
        count = sum(int(self.loss.real(labels).sum()) for _, labels in parts)
        layer = self.model.layer
        layer.zero_grads()
        total = 0.0
        for part, (streams, labels) in enumerate(parts):
            rng = np.random.default_rng((self.seed, self.steps, part))
            logits, passed = layer.forward(*streams, rng)  # (B, T - 1, V)
            loss, judged = self.loss.forward(logits, labels, count)
            layer.backward(self.loss.backward(1.0, judged), passed)
            total += float(loss)
        gradients = layer.all_grads()
        norm, rate = global_norm(gradients), self.learning_rate(self.steps + 1)
        self.adam.step(gradients, rate, self.clip.factor(norm))
        return {"loss": total, "rate": rate, "norm": norm}

    def fit(
        self, batches: Iterable[Arrays], log_every: int, on_log: Callable[[dict[str, float]], object]
    ) -> None:
        """`step` through the batches; a log after every `log_every`-th step of this trainer."""
        good = arguments.is_integer(log_every) and log_every >= 1
        arguments.require(good, "log_every", log_every, "is not a number of steps", "give 1 or more")
        for batch in batches:
            report = self.step(batch)
            if self.steps % log_every == 0:
                on_log({"step": self.steps, "loss": report["loss"], "rate": report["rate"]})

    def evaluate(self, batches: Iterable[Arrays]) -> dict[str, float]:
        """Loss per token without smoothing or dropout, and its exponential. Nothing is changed."""
        plain, total, count = CrossEntropy(self.ignored), 0.0, 0
        for batch in batches:
            streams, labels = self._shifted(batch)
            logits, _ = self.model.layer.forward(*streams, None)  # (B, T - 1, V)
            total += float(plain.forward(logits, labels, count=1)[0])  # divided by 1: the sum
            count += int(plain.real(labels).sum())
        loss = total / max(count, 1)
        return {"loss": loss, "perplexity": math.exp(loss) if loss < 700 else math.inf}

    def save(self, directory: str) -> None:
        checkpoint.save(directory, self.adam.state(), {"steps": self.steps, "seed": self.seed})

    def load(self, directory: str) -> None:
        """Continue the saved run, whatever seed this trainer was built with."""
        numbers = checkpoint.load(directory, self.adam.state(), ("steps", "seed"))
        self.adam.count, self.seed = numbers["steps"], numbers["seed"]

    def _shifted(self, batch: Mapping[str, Array]) -> tuple[tuple[Array, ...], Array]:
        """What the model reads, and its labels: of BOS a b EOS it reads BOS a b and is asked a b EOS."""
        for name in ("source", "target"):
            arguments.require(name in batch, "batch", sorted(batch), f"lacks {name}", "give both")
        whole = self._written("target", batch)
        source, target = self.model.checked(batch["source"], whole[:, :-1])
        return (source, target), whole[:, 1:]

    def _written(self, name: str, batch: Mapping[str, Array]) -> Array:
        """The ids (B, T) that the model learns to write."""
        whole = arguments.id_array(name, batch[name], self.config.target_vocab)
        remedy = "give BOS ... EOS, two ids or more"
        arguments.require(whole.shape[1] > 1, f"{name}.shape", whole.shape, "has nothing to predict", remedy)
        return whole


class TextOptimizer(Optimizer):
    """The same over the parameters of a language model."""

    operation = LanguageModelOperation


class TextTrainer(Trainer):
    """The same for a language model: a batch is `ids` alone."""

    operation = LanguageModelOperation

    def _shifted(self, batch: Mapping[str, Array]) -> tuple[tuple[Array, ...], Array]:
        arguments.require("ids" in batch, "batch", sorted(batch), "lacks ids", "give them")
        whole = self._written("ids", batch)
        return (self.model.ids("ids", whole[:, :-1]),), whole[:, 1:]


class MaskedTrainer(Trainer):
    """Of a masked language model: a batch is `ids` and `labels`, padding where nothing is asked."""

    operation: Callable[..., Any] = MaskedLanguageModelOperation

    def _shifted(self, batch: Mapping[str, Array]) -> tuple[tuple[Array, ...], Array]:
        """Nothing is shifted: the labels are given."""
        for name in ("ids", "labels"):
            arguments.require(name in batch, "batch", sorted(batch), f"lacks {name}", "give both")
        ids = self.model.ids(batch["ids"])
        return (ids,), self._given(np.asarray(batch["labels"]), ids)

    def _given(self, labels: Array, ids: Array) -> Array:
        labels = arguments.id_array("labels", labels, self.config.source_vocab)
        fits, rule = labels.shape == ids.shape, f"is not of ids {ids.shape}"
        arguments.require(fits, "labels.shape", labels.shape, rule, "give one for each id")
        return labels


class ClassifierTrainer(MaskedTrainer):
    """Of a classifier: a label for each text, and each counts."""

    operation = ClassifierOperation

    @property
    def ignored(self) -> int | None:
        """None: a class may have the number that padding has among ids."""
        return None

    def _given(self, labels: Array, ids: Array) -> Array:
        fits, rule = labels.shape == (len(ids),), f"is not of {len(ids)} texts"
        arguments.require(fits, "labels.shape", labels.shape, rule, "give one for each text")
        return arguments.id_array("labels", labels[:, None], self.config.num_classes)[:, 0]
