"""Defects of going through batches: fit that is not a row of steps, iterators, the longest target."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

import numpy as np

from attest.contract import Arrays
from attest.judging.catalogue import defect
from attest.reference.tape import Array
from attest.reference.training.trainer import ReferenceTrainer

OnLog = Callable[[dict[str, Any]], Any]


@defect("M5.8", "M5.11")
class fit_counts_from_one(ReferenceTrainer):
    """Every fit logs its own steps, whatever the trainer did before."""

    before = 0

    def fit(self, batches: Iterable[Arrays], log_every: int, on_log: OnLog) -> None:
        self.before = self.steps
        super().fit(batches, log_every, on_log)

    def logs_now(self, log_every: int) -> bool:
        return (self.steps - self.before) % log_every == 0

    def log_entry(self, report: Mapping[str, float]) -> dict[str, Any]:
        return super().log_entry(report) | {"step": self.steps - self.before}


@defect("M5.8")
class fit_drops_what_is_not_logged(ReferenceTrainer):
    """Batches are taken log_every at a time, and the last few are left over."""

    def fit(self, batches: Iterable[Arrays], log_every: int, on_log: OnLog) -> None:
        held = list(batches)
        super().fit(held[: len(held) - len(held) % log_every], log_every, on_log)


@defect("M5.8")
class fit_without_dropout(ReferenceTrainer):
    """step has dropout, and the loop that calls it switches to evaluation first."""

    fitting = False

    def fit(self, batches: Iterable[Arrays], log_every: int, on_log: OnLog) -> None:
        self.fitting = True
        super().fit(batches, log_every, on_log)
        self.fitting = False

    def training_seed(self) -> tuple[int, ...] | None:
        return None if self.fitting else super().training_seed()


@defect("M5.8")
class fit_begins_the_noise_again(ReferenceTrainer):
    """Every fit seeds the noise, and so drops what the last one dropped."""

    def fit(self, batches: Iterable[Arrays], log_every: int, on_log: OnLog) -> None:
        self.draws = 0
        super().fit(batches, log_every, on_log)


@defect("M5.8")
class fit_forgets_the_moments(ReferenceTrainer):
    """Every fit makes a new optimiser."""

    def fit(self, batches: Iterable[Arrays], log_every: int, on_log: OnLog) -> None:
        self.moments = type(self.moments)()
        super().fit(batches, log_every, on_log)


@defect("M5.8")
class fit_reads_its_batches_twice(ReferenceTrainer):
    """The batches are counted before they are used, and an iterator is then empty."""

    def fit(self, batches: Iterable[Arrays], log_every: int, on_log: OnLog) -> None:
        if any(True for _ in batches):
            super().fit(batches, log_every, on_log)


@defect("M5.13")
class evaluation_reads_its_batches_twice(ReferenceTrainer):
    """Tokens are counted first; an iterator is then empty, and the loss 0."""

    def evaluate(self, batches: Iterable[Arrays]) -> dict[str, float]:
        tokens = sum(np.size(batch["target"]) for batch in batches)
        return super().evaluate(batches if tokens else [])


@defect("M5.9")
class length_checked_before_the_shift(ReferenceTrainer):
    """A target of max_len + 1 columns is refused although the decoder reads max_len of them."""

    def inputs_and_labels(self, batch: Arrays) -> tuple[dict[str, Array], Array]:
        self.model.check_length("target", np.shape(batch["target"])[1])
        return super().inputs_and_labels(batch)
