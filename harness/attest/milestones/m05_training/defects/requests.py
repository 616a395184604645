"""Defects of refusing what training is given."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

import numpy as np

from attest.contract import Arrays
from attest.judging.catalogue import defect
from attest.reference.component import ReferenceComponent
from attest.reference.tape import Array
from attest.reference.training.optimisation import Schedule
from attest.reference.training.trainer import ReferenceTrainer


@defect("M5.12b")
class schedule_has_a_step_zero(Schedule):
    """Step 0 and those before it get the rate of step 1."""

    def check_step(self, step: int) -> None:
        super().check_step(max(1, step))

    def __call__(self, step: int) -> float:
        return super().__call__(max(1, step))


@defect("M5.12b")
class checkpoint_is_read_as_far_as_it_fits(ReferenceTrainer):
    """Arrays that the model lacks are passed over, those of another shape are cut."""

    def check_checkpoint(self, parameters: Mapping[str, Array]) -> None:
        pass


@defect("M5.12b")
class checkpoint_is_checked_while_it_is_copied(ReferenceTrainer):
    """The first arrays are in the model when a later one turns out not to fit."""

    def check_checkpoint(self, parameters: Mapping[str, Array]) -> None:
        own = self.model.values
        for name in own:
            if name in parameters and parameters[name].shape == own[name].shape:
                own[name][...] = parameters[name]
        super().check_checkpoint(parameters)


@defect("M5.12b")
class log_interval_of_zero_is_silence(ReferenceTrainer):
    """log_every below 1 means that nothing is logged."""

    def fit(self, batches: Iterable[Arrays], log_every: int, on_log: Callable[[dict[str, Any]], Any]) -> None:
        super().fit(batches, max(1, log_every), on_log if log_every >= 1 else lambda entry: None)


@defect("M5.12b")
class interval_is_checked_after_the_first_step(ReferenceTrainer):
    """The parameters have moved when log_every is refused."""

    def fit(self, batches: Iterable[Arrays], log_every: int, on_log: Callable[[dict[str, Any]], Any]) -> None:
        batches = list(batches)
        if log_every < 1:
            self.step(batches[0])
        super().fit(batches, log_every, on_log)


@defect("M5.12b")
class nothing_to_predict_is_a_step(ReferenceTrainer):
    """A target of one column, which leaves no label, gives a report and no update."""

    def step(self, batch: Arrays) -> dict[str, float]:
        if "target" in batch and np.shape(batch["target"])[1] == 1:
            return {"loss": 0.0, "rate": 0.0}
        return super().step(batch)


@defect("M5.12c")
class labels_as_far_as_they_go(ReferenceComponent):
    """The loss of fewer labels than logits is that of the logits which have one."""

    def accept(self, inputs: Mapping[str, Any]) -> dict[str, Any]:
        given = dict(inputs)
        if self.operation == "loss" and np.ndim(given["logits"]) == 3 and np.ndim(given["labels"]) == 2:
            B, T = np.shape(given["labels"])
            given["logits"] = np.asarray(given["logits"])[:B, :T]
        return super().accept(given)


@defect("M5.3")
class labels_in_the_order_of_memory(ReferenceComponent):
    """Labels are read in the order of their memory, whatever their strides say."""

    def accept(self, inputs: Mapping[str, Any]) -> dict[str, Any]:
        given = super().accept(inputs)
        return {n: x.ravel(order="K").reshape(x.shape) if n == "labels" else x for n, x in given.items()}
