"""Loss and training loop (the paper's sections 5.3 and 5.4).

The loop is the same for every architecture. What differs is in `attest.contract.Architecture`: which streams
of ids a batch has, and which of them the model is asked to go on with.

Shapes: B batch, T length of what is written, V its vocabulary.
"""

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from attest.adapters.torch import TorchComponent, seeded
from attest.contract import DECODER_ONLY, ENCODER_DECODER, Architecture, Arrays, Config

from . import checkpoint
from .arguments import check_inputs
from .checks import check_ids
from .masks import padding_mask
from .mode import in_mode
from .optimisation import Adam, LearningRate, clip_factor, global_norm
from .settings import check_config


def token_losses(logits: Tensor, labels: Tensor, smoothing: float) -> Tensor:
    """Cross-entropy (B, T) with (1 - e) on the label plus e / V on every class."""
    log_probabilities = logits.log_softmax(-1)
    losses = -log_probabilities.gather(-1, labels.unsqueeze(-1)).squeeze(-1)
    if smoothing:
        losses = (1 - smoothing) * losses - smoothing * log_probabilities.mean(-1)
    return losses


def summed_loss(logits: Tensor, labels: Tensor, pad_id: int | None, smoothing: float) -> Tensor:
    """Over the labels that are not padding. A sum, so that several batches are divided once by all tokens."""
    counts = padding_mask(labels, pad_id)[:, 0]  # (B, T)
    return torch.where(counts, token_losses(logits, labels, smoothing), 0.0).sum()


class Loss(nn.Module):
    """The mean over labels that are not padding; 0 when all are."""

    def __init__(self, config: Config) -> None:
        super().__init__()
        self.pad_id, self.smoothing = config.pad_id, config.label_smoothing

    def forward(self, logits: Tensor, labels: Tensor) -> dict[str, Tensor]:
        tokens = padding_mask(labels, self.pad_id).sum().clamp(min=1)  # 0 / 0 is nan
        return {"loss": summed_loss(logits, labels, self.pad_id, self.smoothing) / tokens}


class TextLoss(Loss):
    """Of a language model: its logits at each token against the token that follows. The last one has none."""

    def forward(self, logits: Tensor, ids: Tensor) -> dict[str, Tensor]:  # type: ignore[override]
        return super().forward(logits[:, :-1], ids[:, 1:])


class Trainer:
    """Model, Adam, schedule and clipping. Dropout of step n is drawn from (seed, n): nothing else is random.

    So a run depends on its config and its batches alone, and a saved one continues to the bit.
    """

    architecture: Architecture = ENCODER_DECODER

    def __init__(self, model: TorchComponent, config: Config) -> None:
        check_config("trainer", config)
        self.model, self.config, self.seed = model, config, config.seed
        self.learning_rate = LearningRate(config)
        self.optimizer = Adam(model.module.parameters())

    @property
    def steps(self) -> int:
        """Updates made so far."""
        return self.optimizer.steps

    def step(self, batch: Arrays) -> dict[str, float]:
        return self.accumulate([batch])

    def accumulate(self, batches: Sequence[Arrays]) -> dict[str, float]:
        """One update from several batches, the same as from one batch that holds all their rows."""
        if not batches:
            raise ValueError("batches=[] gives no gradient; give at least one batch")
        loss = self._backward([self._tensors(batch) for batch in batches])
        gradients = [torch.zeros_like(p) if p.grad is None else p.grad for p in self.optimizer.parameters]
        norm = global_norm(gradients)
        for g in gradients:
            g.mul_(clip_factor(norm, self.config.clip_norm))
        rate = self.learning_rate(self.steps + 1)
        self.optimizer.step(gradients, rate)
        return {"loss": loss, "rate": rate, "norm": float(norm)}

    def fit(
        self,
        batches: Iterable[Arrays],
        log_every: int,
        on_log: Callable[[dict[str, Any]], Any] | None = None,
        *,
        validation: Sequence[Arrays] | None = None,
        patience: int | None = None,
    ) -> None:
        """Step through the batches; with `validation` and `patience`, stop early.

        Validation loss is taken whenever a log is due and stands in it as `validation`; training stops when
        it has not improved `patience` times in a row.
        """
        self._check_fit(log_every, validation, patience)
        best, worse = math.inf, 0
        for batch in batches:
            report = self.step(batch)
            if self.steps % log_every:
                continue
            entry = {"step": self.steps, "loss": report["loss"], "rate": report["rate"]}
            if validation is not None:
                entry["validation"] = self.evaluate(validation)["loss"]
                worse = 0 if entry["validation"] < best else worse + 1
                best = min(best, entry["validation"])
            if on_log is not None:
                on_log(entry)
            if patience is not None and worse >= patience:
                return

    @torch.no_grad()
    def evaluate(self, batches: Iterable[Arrays]) -> dict[str, float]:
        """Loss per token without smoothing or dropout. Nothing is changed, the mode included."""
        total, tokens = 0.0, 0
        with in_mode(self.model.module, training=False):
            for batch in batches:
                streams = self._tensors(batch)
                total += float(self.loss_of(streams, smoothing=0.0))
                tokens += self._count(streams)
        loss = total / max(tokens, 1)
        return {"loss": loss, "perplexity": math.exp(loss) if loss < 700 else math.inf}

    def save(self, directory: str) -> None:
        checkpoint.save(directory, self.model.module, self.optimizer, self.config, self.seed)

    def load(self, directory: str) -> None:
        self.seed = checkpoint.load(directory, self.model.module, self.optimizer)

    def loss_of(self, streams: dict[str, Tensor], smoothing: float) -> Tensor:
        """The summed loss of a batch. BOS a b EOS: the model reads BOS a b and is asked for a b EOS."""
        logits = self.model.module(**self.architecture.inputs(streams))  # (B, T - 1, V)
        return summed_loss(logits, self._labels(streams), self.config.pad_id, smoothing)

    def _labels(self, streams: dict[str, Tensor]) -> Tensor:
        return streams[self.architecture.written][:, 1:]  # (B, T - 1)

    def _backward(self, batches: Sequence[dict[str, Tensor]]) -> float:
        """Leave in each parameter the gradient of the mean loss over all tokens of all batches; that loss."""
        total = 0.0
        tokens = max(1, sum(self._count(streams) for streams in batches))
        self.model.module.zero_grad()
        with in_mode(self.model.module, training=True), torch.enable_grad():
            for part, streams in enumerate(batches):
                with seeded(self._noise(part), self.config.device):
                    loss = self.loss_of(streams, self.config.label_smoothing) / tokens
                    loss.backward()
                total += loss.item()
        return total

    def _noise(self, part: int) -> int:
        words = np.random.SeedSequence((self.seed, self.steps, part)).generate_state(1, np.uint64)
        return int(words[0])

    def _tensors(self, batch: Arrays) -> dict[str, Tensor]:
        kind = self.architecture
        self._check(batch)
        streams = self.model.tensors({name: np.asarray(batch[name]) for name in kind.streams})
        check_ids(kind.written, streams[kind.written], kind.vocabulary(kind.written, self.config))
        check_inputs(kind.operation, self.config, **kind.inputs(streams))
        return streams

    def _count(self, streams: dict[str, Tensor]) -> int:
        return int(padding_mask(self._labels(streams), self.config.pad_id).sum())

    def _check(self, batch: Mapping[str, Any]) -> None:
        names, written = self.architecture.streams, self.architecture.written
        if missing := set(names) - set(batch):
            wanted = " and ".join(names)
            raise ValueError(f"batch={sorted(batch)} lacks {sorted(missing)}; give {wanted} ids")
        shape = np.shape(batch[written])
        if len(shape) != 2 or shape[1] < 2:
            raise ValueError(
                f"{written} shape={shape} has nothing to predict; give BOS ... EOS, two ids or more"
            )

    def _check_fit(self, log_every: int, validation: Any, patience: int | None) -> None:
        if isinstance(log_every, bool) or int(log_every) != log_every or log_every < 1:
            raise ValueError(f"log_every={log_every} is not a number of steps; give 1 or more")
        if patience is not None and (validation is None or patience < 1):
            raise ValueError(f"patience={patience} needs validation batches and 1 or more; give both")


class LanguageModelTrainer(Trainer):
    """The same for a batch of texts: each is read without its last token and asked for without its first."""

    architecture = DECODER_ONLY
