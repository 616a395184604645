"""Training by epochs over a finite data set, with the best model on the validation split kept."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from attest.boundary import JudgedImplementation
from attest.boundary.training import JudgedTrainer, finite_number
from attest.contract import Array
from attest.trained.digits import DigitOperations
from attest.trained.evaluation import answered

EPOCHS = 40
ENOUGH = 0.995  # of the validation questions: training stops there


@dataclass
class Training:
    """How it went, epoch by epoch, and the parameters of the best one."""

    losses: list[float] = field(default_factory=list)
    accuracies: list[float] = field(default_factory=list)
    best: int = 0  # its number, from 1
    parameters: dict[str, Array] = field(default_factory=dict)

    def note(self, loss: float, accuracy: float, parameters: dict[str, Array]) -> bool:
        """One more epoch; whether it is the best so far. Of equal ones the earliest stays."""
        self.losses.append(loss)
        self.accuracies.append(accuracy)
        if self.best and accuracy <= self.accuracies[self.best - 1]:
            return False
        self.best = len(self.accuracies)
        self.parameters = {name: np.array(value) for name, value in parameters.items()}
        return True


def train_by_epochs(
    impl: JudgedImplementation,
    task: DigitOperations,
    trainer: JudgedTrainer,
    *,
    epochs: int = EPOCHS,
    on_step: Callable[[int, dict[str, float]], Any] = lambda epoch, report: None,
    on_epoch: Callable[[Training, bool], Any] = lambda training, improved: None,
) -> Training:
    """To the last epoch, or until the validation accuracy is enough."""
    training = Training()
    for epoch in range(1, epochs + 1):
        losses = []
        for batch in task.epoch(epoch):
            report = trainer.step(batch)
            losses.append(finite_number(report["loss"], f"the loss of epoch {epoch}"))
            on_step(epoch, report)
        found = trainer.parameters()
        seen = answered(impl, task, trainer.config, found, task.splits["validation"])
        improved = training.note(float(np.mean(losses)), seen.accuracy, found)
        on_epoch(training, improved)
        if training.accuracies[-1] >= ENOUGH:
            break
    return training
