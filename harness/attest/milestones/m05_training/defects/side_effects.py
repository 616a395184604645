"""Defects of what the model, its optimiser and its trainer leave behind with the caller.

Shapes: source (B, S), target (B, T) = BOS ... EOS pad.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from attest.contract import Arrays
from attest.judging.catalogue import defect
from attest.reference.component import ReferenceComponent
from attest.reference.models.transformer import ReferenceTransformer
from attest.reference.tape import Array
from attest.reference.training.trainer import ReferenceOptimizer, ReferenceTrainer


@defect("M5.14")
class padding_marked_in_the_batch(ReferenceTrainer):
    """Padding among the labels becomes -100, as a library wants it, in the caller's target."""

    def inputs_and_labels(self, batch: Arrays) -> tuple[dict[str, Array], Array]:
        inputs, labels = super().inputs_and_labels({name: np.array(ids) for name, ids in batch.items()})
        target = batch["target"][:, 1:]
        target[target == self.config.pad_id] = -100
        return inputs, labels


@defect("M5.14")
class evaluation_sorts_the_batch(ReferenceTrainer):
    """Rows are brought in order of their length where they lie."""

    def batch_loss(self, batch: Arrays) -> tuple[float, int]:
        found = super().batch_loss(batch)
        order = np.argsort((batch["source"] != self.config.pad_id).sum(1))
        for ids in batch.values():
            ids[...] = ids[order][::-1]
        return found


@defect("M5.14")
class training_seeds_everybody(ReferenceTrainer):
    """Each step seeds numpy's global generator."""

    def training_seed(self) -> tuple[int, ...] | None:
        np.random.seed(self.draws)
        return super().training_seed()


@defect("M5.14")
class optimiser_takes_the_callers_arrays(ReferenceOptimizer):
    """load keeps the arrays it is given, and steps write into them."""

    def load(self, parameters: Arrays) -> None:
        super().load(parameters)
        self.values = {name: np.asarray(value, dtype=self.dtype) for name, value in parameters.items()}

    def step(self, gradients: Arrays, rate: float) -> None:
        held = self.values
        super().step(gradients, rate)
        for name, value in self.values.items():
            held[name][...] = value
        self.values = held


@defect("M5.14")
class optimiser_shows_its_own_arrays(ReferenceOptimizer):
    """parameters gives what the next step writes into."""

    def parameters(self) -> dict[str, Array]:
        super().parameters()
        return self.values


@defect("M5.14")
class clips_the_callers_gradients(ReferenceOptimizer):
    """A step scales the gradients it was given where they lie."""

    def step(self, gradients: Arrays, rate: float) -> None:
        super().step(gradients, rate)
        for g in gradients.values():
            g *= 0.5


@defect("M5.14")
class parameters_are_the_live_ones(ReferenceTransformer):
    """parameters gives views of the values that training changes."""

    def parameters(self) -> dict[str, Array]:
        return self.values

    def load(self, parameters: Arrays) -> None:
        held = self.values
        super().load({name: np.array(value) for name, value in parameters.items()})
        for name, value in self.values.items():
            held[name][...] = value
        self._values = held


@defect("M5.14")
class model_takes_the_callers_weights(ReferenceTransformer):
    """load keeps the arrays it is given."""

    def load(self, parameters: Arrays) -> None:
        super().load(parameters)
        self._values = {name: np.asarray(parameters[name], dtype=self.dtype) for name in self.shapes()}

    def scope(self, gradient: bool = False) -> Any:
        self._scope = None
        return super().scope(gradient)


@defect("M5.14")
class labels_marked_in_place(ReferenceComponent):
    """The loss turns padding among the caller's labels into -100."""

    def __call__(self, **inputs: Any) -> dict[str, Array]:
        seen = super().__call__(**inputs)
        if "labels" in inputs:
            inputs["labels"][inputs["labels"] == self.config.pad_id] = -100
        return seen


@defect("M5.14")
class target_padded_in_place(ReferenceTransformer):
    """The end of a target is turned into padding where it lies."""

    def __call__(self, **inputs: Any) -> dict[str, Array]:
        seen = super().__call__(**inputs)
        inputs["target"][:, -1] = self.config.pad_id
        return seen
