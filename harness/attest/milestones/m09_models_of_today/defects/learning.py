"""Defects that show in what a model learns, and in what it cannot have learned."""

from __future__ import annotations

import numpy as np

from attest.contract import CLASSIFYING, DECODER_ONLY, MASKED, Arrays
from attest.judging.catalogue import defect
from attest.reference.models.encoder_only import EncoderOnly
from attest.reference.parts.masks import Masks
from attest.reference.parts.where import Where
from attest.reference.scope import Scope
from attest.reference.tape import Array, Var
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


class _Copies(ReferenceTrainer):
    """The optimiser holds copies, and the model never changes."""

    operation = ""

    def apply(self, found: dict[str, Array], rate: float) -> None:
        if self.architecture.operation != self.operation:
            super().apply(found, rate)


@defect("M9.36")
class masked_steps_on_a_copy(_Copies):
    """The optimiser of a masked language model holds copies, and the model never changes."""

    operation = MASKED.operation


@defect("M9.36")
class hidden_symbols_seen_from_the_left(Masks):
    """What stands behind a token is hidden from it in encoders too."""

    def allowed(self, where: Where, T: int, S: int) -> Array | None:
        allowed = super().allowed(where, T, S)
        if where.place != "encoder" or T != S:
            return allowed
        return self.combine_masks(allowed, np.tri(T, S, dtype=bool))


@defect("M9.37")
class classifier_steps_on_a_copy(_Copies):
    """The optimiser of a classifier holds copies, and the model never changes."""

    operation = CLASSIFYING.operation


@defect("M9.37")
class words_read_apart(EncoderOnly):
    """Every token attends to itself alone, and the class is the mean of what single words say."""

    def encode(self, ids: Array, segments: Array | None, p: Scope) -> Var:
        T = ids.shape[1]
        where = self.parts.language_model.place(ids).but(place="encoder", mask=np.eye(T, dtype=bool)[None])
        x = self.parts.embedding.of_model(ids, p, where, segments)
        return self.parts.layers.encoder(x, p.at("encoder"), where)
