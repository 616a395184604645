"""The reference's training loop, and the optimiser, schedule and clipping as components."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from attest.contract import ENCODER_DECODER, Architecture, Arrays, Config, float_dtype
from attest.contract.architectures import CLASSES, SHIFTED
from attest.contract.parameters import shapes
from attest.reference.assembly import Parts
from attest.reference.component import ReferenceComponent
from attest.reference.initial import initial_parameters
from attest.reference.tape import Array, Var, gradients, leaf
from attest.reference.training.optimisation import Moments
from attest.reference.validation import check_size

FILE = "reference.npz"


class ReferenceSchedule(ReferenceComponent):
    """`learning_rate`: a step, counted from 1, to a rate."""

    def __call__(self, step: int) -> float:  # type: ignore[override]
        self.parts.schedule.check_step(step)
        return self.parts.schedule(int(step))


class ReferenceClipping(ReferenceComponent):
    """`clip_gradients`: a mapping to a mapping of the same names."""

    def __call__(self, gradients: Arrays) -> dict[str, Array]:  # type: ignore[override]
        clipped = self.parts.clipping.clip(
            {name: np.asarray(g, dtype=np.float64) for name, g in gradients.items()}
        )
        return {name: np.array(g, dtype=self.dtype) for name, g in clipped.items()}


class ReferenceOptimizer:
    """Adam over any set of named arrays; those of the architecture's model until others are loaded."""

    def __init__(self, parts: Parts, config: Config, architecture: Architecture = ENCODER_DECODER) -> None:
        self.parts, self.dtype = parts, float_dtype(config.dtype)
        self.model = architecture.operation
        self.values: dict[str, Array] = {}
        self.moments = Moments()
        self._config: Config | None = config

    def parameters(self) -> dict[str, Array]:
        if self._config is not None:
            self.load(initial_parameters(self.model, self._config, shapes(self.model, self._config)))
        return {name: value.copy() for name, value in self.values.items()}

    def load(self, parameters: Arrays) -> None:
        self._config = None
        self.values = {name: np.array(value, dtype=self.dtype) for name, value in parameters.items()}
        self.moments = Moments()

    def step(self, gradients: Arrays, rate: float) -> None:
        self.parameters()
        moved = self.parts.adam.adam_step(self.values, self.moments, gradients, rate)
        self.values = {name: value.astype(self.dtype) for name, value in moved.items()}


class ReferenceTrainer:
    """Model, Adam, schedule and clipping. Each method is one thing that a training loop gets wrong."""

    def __init__(
        self, model: ReferenceComponent, config: Config, architecture: Architecture = ENCODER_DECODER
    ) -> None:
        self.model, self.config, self.parts = model, config, model.parts
        self.architecture = architecture
        self.moments = Moments()
        self.steps = 0  # updates made: the schedule's place
        self.seed, self.draws = config.seed, 0  # noisy passes made: the random state

    def step(self, batch: Arrays) -> dict[str, float]:
        return self.accumulate([batch])

    def accumulate(self, batches: Sequence[Arrays]) -> dict[str, float]:
        """One update from several batches, each weighted by its tokens."""
        parts = [self.loss_and_gradients(batch) for batch in batches]
        weights = self.batch_weights([tokens for _, tokens, _ in parts])
        loss = sum(w * part[0] for w, part in zip(weights, parts))
        collected = self.collect(self.weighted_sum(weights, [part[2] for part in parts]))
        rate = self.next_rate()
        self.update(collected, rate)
        return {"loss": float(loss), "rate": rate, "norm": self.parts.clipping.global_norm(collected)}

    def weighted_sum(self, weights: list[float], found: list[dict[str, Array]]) -> dict[str, Array]:
        return {name: np.sum([w * g[name] for w, g in zip(weights, found)], axis=0) for name in found[0]}

    def batch_weights(self, tokens: Sequence[int]) -> list[float]:
        """Each batch's share of the counted tokens."""
        return [count / max(sum(tokens), 1) for count in tokens]

    def loss_and_gradients(self, batch: Arrays) -> tuple[float, int, dict[str, Array]]:
        """The mean loss of one batch in training mode, its counted tokens, and the gradients."""
        inputs, labels = self.inputs_and_labels(batch)
        p = self.model.scope(gradient=True)
        with np.errstate(all="ignore"):
            logits = self.noisily(lambda: self.model.outputs(self.model.operation, p, inputs))["logits"]
            loss = self.loss_of(logits, labels, self.config.label_smoothing)
            found = gradients([(loss, np.ones(()))], list(p.values.values()))
        return float(loss.value), int(self.counted(labels).sum()), dict(zip(p.values, found))

    def loss_of(self, logits: Var, labels: Array, smoothing: float) -> Var:
        """The mean over the labels that count."""
        if self.architecture.labels != CLASSES:
            return self.parts.loss(logits, labels, smoothing)
        losses = self.parts.loss.token_losses(logits, labels, smoothing)
        return self.parts.loss.reduce_losses(losses, self.counted(labels))

    def counted(self, labels: Array) -> Array:
        """Which labels count: ids that are no padding, and every class, one with padding's number too."""
        if self.architecture.labels == CLASSES:
            return np.ones(labels.shape, bool)
        return self.parts.loss.counted(labels)

    def inputs_and_labels(self, batch: Arrays) -> tuple[dict[str, Array], Array]:
        """What the model reads and what it is asked for."""
        streams = {name: np.asarray(batch[name]) for name in self.architecture.streams}
        if self.architecture.labels != SHIFTED:
            return self.model.accept(streams), self.given_labels(batch)
        written = self.architecture.written
        ids = streams[written]
        self.model.check_ids(written, ids, self.architecture.vocabulary(written, self.config))
        read, labels = self.parts.shift(ids)
        return self.model.accept({**streams, written: read}), labels

    def given_labels(self, batch: Arrays) -> Array:
        """(B, T) ids or (B,) classes, once they are such."""
        labels, ids = np.asarray(batch["labels"]), np.asarray(batch[self.architecture.written])
        wanted = ids.shape[:1] if self.architecture.labels == CLASSES else ids.shape
        if labels.shape != wanted:
            raise ValueError(f"labels.shape={labels.shape} is not {wanted}; give a label for each")
        classes = self.architecture.num_classes(self.config)
        if labels.size and not (labels.min() >= 0 and labels.max() < classes):
            raise ValueError(
                f"labels reach from {labels.min()} to {labels.max()}; stay within 0 to {classes - 1}"
            )
        return labels

    def noisily(self, run: Callable[[], Any]) -> Any:
        """In training mode, with new noise for every pass; afterwards the mode is as before."""
        before, self.model.seed = self.model.seed, self.training_seed()
        self.draws += 1
        try:
            return run()
        finally:
            self.model.seed = before

    def training_seed(self) -> tuple[int, ...] | None:
        return (self.seed, self.draws)

    def collect(self, new: dict[str, Array]) -> dict[str, Array]:
        """What the update uses: this step's gradients and nothing of the step before."""
        return new

    def next_rate(self) -> float:
        self.steps += 1
        return self.parts.schedule(self.steps)

    def update(self, found: dict[str, Array], rate: float) -> None:
        """Clip, then step."""
        self.apply(self.parts.clipping.clip(found), rate)

    def apply(self, found: dict[str, Array], rate: float) -> None:
        self.model.load(self.parts.adam.adam_step(self.model.values, self.moments, found, rate))

    def fit(self, batches: Iterable[Arrays], log_every: int, on_log: Callable[[dict[str, Any]], Any]) -> None:
        check_size("log_every", log_every)
        for batch in batches:
            report = self.step(batch)
            if self.logs_now(log_every):
                on_log(self.log_entry(report))

    def logs_now(self, log_every: int) -> bool:
        return self.steps % log_every == 0

    def log_entry(self, report: Mapping[str, float]) -> dict[str, Any]:
        return {"step": self.steps, "loss": report["loss"], "rate": report["rate"]}

    def evaluate(self, batches: Iterable[Arrays]) -> dict[str, float]:
        """Per token, without smoothing or noise; nothing is changed."""
        before, self.model.seed = self.model.seed, None
        try:
            loss = self.mean_loss([self.batch_loss(batch) for batch in batches])
        finally:
            self.model.seed = before
        return {"loss": loss, "perplexity": self.perplexity(loss)}

    def batch_loss(self, batch: Arrays) -> tuple[float, int]:
        """Mean loss and counted tokens of one batch."""
        inputs, labels = self.inputs_and_labels(batch)
        with np.errstate(all="ignore"):
            logits = self.model.outputs(self.model.operation, self.model.scope(), inputs)["logits"]
            loss = self.loss_of(leaf(logits.value), labels, self.evaluation_smoothing())
        return float(loss.value), int(self.counted(labels).sum())

    def evaluation_smoothing(self) -> float:
        return 0.0

    def mean_loss(self, parts: Sequence[tuple[float, int]]) -> float:
        """Weighted by tokens, so that it does not depend on how the data are cut into batches."""
        weights = self.batch_weights([tokens for _, tokens in parts])
        return float(sum(w * loss for w, (loss, _) in zip(weights, parts)))

    def perplexity(self, loss: float) -> float:
        return math.exp(loss)

    def save(self, directory: str) -> None:
        """Parameters, both moments, the three counters and the seed of the noise."""
        Path(directory).mkdir(parents=True, exist_ok=True)
        arrays = {f"parameter/{name}": value for name, value in self.model.values.items()}
        arrays |= {f"first/{name}": value for name, value in self.moments.first.items()}
        arrays |= {f"second/{name}": value for name, value in self.moments.second.items()}
        counters = {"steps": self.steps, "draws": self.draws, "adam": self.moments.steps, "seed": self.seed}
        np.savez(Path(directory) / FILE, counters=np.array(json.dumps(counters)), **arrays)  # type: ignore[arg-type]

    def load(self, directory: str) -> None:
        with np.load(Path(directory) / FILE, allow_pickle=False) as held:
            saved = {name: held[name] for name in held.files}
        counters = json.loads(str(saved.pop("counters")))
        self.check_checkpoint(_under(saved, "parameter/"))
        self.model.load(_under(saved, "parameter/"))
        self.restore_optimizer(Moments(counters["adam"], _under(saved, "first/"), _under(saved, "second/")))
        self.restore_schedule(counters["steps"])
        self.restore_seed(counters["seed"])
        self.restore_random(counters["draws"])

    def check_checkpoint(self, parameters: Mapping[str, Array]) -> None:
        """Names and shapes are the model's own; nothing has been copied yet."""
        wanted = self.model.shapes()
        for name in sorted({*wanted, *parameters}):
            held = parameters[name].shape if name in parameters else None
            if held != wanted.get(name):
                own = wanted.get(name)
                raise ValueError(f"the checkpoint has {name}={held}, the model {own}; load one of this model")

    def restore_optimizer(self, moments: Moments) -> None:
        self.moments = moments

    def restore_schedule(self, steps: int) -> None:
        self.steps = steps

    def restore_seed(self, seed: int) -> None:
        self.seed = seed

    def restore_random(self, draws: int) -> None:
        self.draws = draws


def _under(saved: Mapping[str, Array], prefix: str) -> dict[str, Array]:
    return {name.removeprefix(prefix): value for name, value in saved.items() if name.startswith(prefix)}
