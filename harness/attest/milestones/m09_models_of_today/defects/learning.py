"""Defects that show in what a language model learns, and in what it cannot have learned."""

from __future__ import annotations

import numpy as np

from attest.contract import DECODER_ONLY, Arrays
from attest.judging.catalogue import defect
from attest.reference.parts.masks import Masks
from attest.reference.parts.where import Where
from attest.reference.tape import Array
from attest.reference.training.trainer import ReferenceTrainer


@defect("M9.28")
class next_token_seen(Masks):
    """Every token of a whole sequence sees the one that follows."""

    def allowed(self, where: Where, T: int, S: int) -> Array | None:
        if not where.causal or T != S:
            return super().allowed(where, T, S)
        return self.combine_masks(where.mask, np.tri(T, S, 1, dtype=bool))


@defect("M9.28")
class evaluated_on_what_was_read(ReferenceTrainer):
    """The loss of a language model is taken against the ids that it reads: a copy is soon learned."""

    def inputs_and_labels(self, batch: Arrays) -> tuple[dict[str, Array], Array]:
        inputs, labels = super().inputs_and_labels(batch)
        return inputs, inputs["ids"] if self.architecture == DECODER_ONLY else labels


@defect("M9.29")
class text_steps_on_a_copy(ReferenceTrainer):
    """The optimiser of a language model holds copies, and the model never changes."""

    def apply(self, found: dict[str, Array], rate: float) -> None:
        if self.architecture != DECODER_ONLY:
            super().apply(found, rate)
