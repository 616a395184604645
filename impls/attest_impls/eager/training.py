"""Loss and training loop (the paper's sections 5.3 and 5.4).

Shapes: B batch, S source length, T target length, V target vocabulary.
"""

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from attest.adapters.torch import TorchComponent, seeded
from attest.contract import Arrays, Config

from . import checkpoint
from .arguments import check_ids, check_inputs
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


def summed_loss(logits: Tensor, labels: Tensor, pad_id: int, smoothing: float) -> Tensor:
    """Over the labels that are not padding. A sum, so that several batches are divided once by all tokens."""
    return torch.where(labels != pad_id, token_losses(logits, labels, smoothing), 0.0).sum()


class Loss(nn.Module):
    """The mean over labels that are not padding; 0 when all are."""

    def __init__(self, config: Config) -> None:
        super().__init__()
        self.pad_id, self.smoothing = config.pad_id, config.label_smoothing

    def forward(self, logits: Tensor, labels: Tensor) -> dict[str, Tensor]:
        tokens = (labels != self.pad_id).sum().clamp(min=1)  # 0 / 0 is nan
        return {"loss": summed_loss(logits, labels, self.pad_id, self.smoothing) / tokens}


class Trainer:
    """Model, Adam, schedule and clipping. Dropout of step n is drawn from (seed, n): nothing else is random.

    So a run depends on its config and its batches alone, and a saved one continues to the bit.
    """

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
                source, target = self._tensors(batch)
                total += float(self.loss_of(source, target, smoothing=0.0))
                tokens += self._count(target)
        loss = total / max(tokens, 1)
        return {"loss": loss, "perplexity": math.exp(loss) if loss < 700 else math.inf}

    def save(self, directory: str) -> None:
        checkpoint.save(directory, self.model.module, self.optimizer, self.config, self.seed)

    def load(self, directory: str) -> None:
        self.seed = checkpoint.load(directory, self.model.module, self.optimizer)

    def loss_of(self, source: Tensor, target: Tensor, smoothing: float) -> Tensor:
        """The summed loss of a batch. BOS a b EOS: the decoder reads BOS a b and is asked for a b EOS."""
        logits = self.model.module(source, target[:, :-1])  # (B, T - 1, V)
        return summed_loss(logits, target[:, 1:], self.config.pad_id, smoothing)

    def _backward(self, batches: Sequence[tuple[Tensor, Tensor]]) -> float:
        """Leave in each parameter the gradient of the mean loss over all tokens of all batches; that loss."""
        total = 0.0
        tokens = max(1, sum(self._count(target) for _, target in batches))
        self.model.module.zero_grad()
        with in_mode(self.model.module, training=True), torch.enable_grad():
            for part, (source, target) in enumerate(batches):
                with seeded(self._noise(part), self.config.device):
                    loss = self.loss_of(source, target, self.config.label_smoothing) / tokens
                    loss.backward()
                total += loss.item()
        return total

    def _noise(self, part: int) -> int:
        words = np.random.SeedSequence((self.seed, self.steps, part)).generate_state(1, np.uint64)
        return int(words[0])

    def _tensors(self, batch: Arrays) -> tuple[Tensor, Tensor]:
        self._check(batch)
        made = self.model.tensors({name: np.asarray(batch[name]) for name in ("source", "target")})
        source, target = made["source"], made["target"]
        check_ids("target", target, self.config.target_vocab)
        check_inputs("transformer", self.config, source=source, target=target[:, :-1])
        return source, target

    def _count(self, target: Tensor) -> int:
        return int((target[:, 1:] != self.config.pad_id).sum())

    def _check(self, batch: Mapping[str, Any]) -> None:
        if missing := {"source", "target"} - set(batch):
            raise ValueError(f"batch={sorted(batch)} lacks {sorted(missing)}; give source and target ids")
        shape = np.shape(batch["target"])
        if len(shape) != 2 or shape[1] < 2:
            raise ValueError(
                f"target shape={shape} has nothing to predict; give BOS ... EOS, two ids or more"
            )

    def _check_fit(self, log_every: int, validation: Any, patience: int | None) -> None:
        if isinstance(log_every, bool) or int(log_every) != log_every or log_every < 1:
            raise ValueError(f"log_every={log_every} is not a number of steps; give 1 or more")
        if patience is not None and (validation is None or patience < 1):
            raise ValueError(f"patience={patience} needs validation batches and 1 or more; give both")
