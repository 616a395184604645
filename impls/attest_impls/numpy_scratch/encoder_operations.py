"""Models with an encoder alone, hidden tokens and the loss over them as operations: arguments checked first.

Shapes: B batch, T tokens, V vocabulary, C classes, K special ids.
"""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np

from attest.contract import Array, Arrays, Config

from . import arguments
from .component import Component, Cotangent, Outputs
from .encoder_models import Classifier, MaskedLanguageModel
from .layers import Cache, DType, Random
from .loss import CrossEntropy

RATE = 0.15
HIDDEN, REPLACED = 0.8, 0.1  # of the chosen tokens; the others stay as they are


class EncoderOperation(Component[Any]):
    """ids (B, T), and segments where they are embedded, to logits."""

    model: ClassVar[Any]

    def __init__(self, config: Config, dtype: DType, rng: Random) -> None:
        arguments.encoder_model(config)
        self.check(config)
        super().__init__(type(self).model(config, dtype, rng), dtype)
        self.config = config

    def check(self, config: Config) -> None:
        """What this model alone reads."""

    def buffers(self) -> Arrays:
        table = self.layer.sinusoids
        return {} if table is None else {"positions": table.copy()}

    def ids(self, value: Array) -> Array:
        """At least one column, inside the vocabulary, and no longer than positions that end."""
        ids = arguments.id_array("ids", value, self.config.source_vocab)
        arguments.require(ids.shape[1] > 0, "ids.shape", ids.shape, "is empty", "give at least one id")
        if self.config.ends_at_max_len:
            arguments.length_within("ids", ids.shape[1], self.config.max_len)
        return ids

    def run(self, rng: Random | None, *, ids: Array, segments: Array | None = None) -> Outputs:
        ids = self.ids(ids)
        if segments is not None:
            kinds = self.config.segments
            arguments.require(kinds > 0, "segments", kinds, "are not embedded", "leave them out")
            segments = arguments.id_array("segments", segments, kinds)
            fits, rule = segments.shape == ids.shape, f"is not of ids {ids.shape}"
            arguments.require(fits, "segments.shape", segments.shape, rule, "match them")
        logits, cache = self.layer.forward(ids, rng, segments)
        return {"logits": logits}, cache

    def back(self, cotangent: Cotangent, cache: Cache) -> dict[str, Array]:
        self.layer.backward(cotangent("logits"), cache)
        return {}


class MaskedLanguageModelOperation(EncoderOperation):
    """ids (B, T) to logits (B, T, V)."""

    model = MaskedLanguageModel

    def check(self, config: Config) -> None:
        special = ("mask_id",) if config.pad_id is None else ("pad_id", "mask_id")
        arguments.special_ids(config, "source_vocab", special)
        scale = config.projection_scale
        good = arguments.is_number(scale) and scale > 0
        arguments.require(good, "projection_scale", scale, "is not positive", "try 1")


class ClassifierOperation(EncoderOperation):
    """ids (B, T) to logits (B, C)."""

    model = Classifier

    def check(self, config: Config) -> None:
        arguments.one_of("pooling", config.pooling, ("mean", "first", "last"))
        classes = config.num_classes
        good = arguments.is_integer(classes) and classes > 1
        arguments.require(good, "num_classes", classes, "is no number of classes", "give two or more")


class MaskedLoss(Component[CrossEntropy]):
    """logits (B, T, V) against the ids before they were hidden, where a token was chosen."""

    def __init__(self, config: Config, dtype: DType, rng: Random) -> None:
        arguments.rate("label_smoothing", config.label_smoothing)
        super().__init__(CrossEntropy(None, config.label_smoothing), dtype)
        self.pad_id = config.pad_id

    def run(self, rng: Random | None, *, logits: Array, ids: Array, masked: Array, chosen: Array) -> Outputs:
        logits = arguments.real_array("logits", logits, self.dtype, rank=3)
        ids, _ = arguments.labels(ids, logits), arguments.labels(masked, logits)
        marks = np.asarray(chosen)
        fits, rule = marks.shape == ids.shape, f"is not that of ids {ids.shape}"
        arguments.require(fits, "chosen.shape", marks.shape, rule, "give one mark for each id")
        asked = (marks != 0) & (ids != self.pad_id)
        loss, cache = self.layer.forward(logits[asked], ids[asked])
        return {"loss": loss}, (cache, asked, logits.shape)

    def back(self, cotangent: Cotangent, cache: Cache) -> dict[str, Array]:
        """Where nothing was asked the gradient is zero."""
        judged, asked, shape = cache
        dlogits = np.zeros(shape, self.dtype)
        dlogits[asked] = self.layer.backward(cotangent("loss"), judged)
        return {"logits": dlogits}


def mask_tokens(
    ids: Array, mask_id: int, vocabulary: int, special: Array, seed: int, rate: float = RATE
) -> Array:
    """(2, B, T): the ids with some of them hidden, and 1 where a token was chosen."""
    arguments.require(arguments.is_integer(vocabulary) and vocabulary > 0, "vocabulary", vocabulary,
                      "is no number of ids", "give 1 or more")  # fmt: skip
    inside = arguments.is_integer(mask_id) and 0 <= mask_id < vocabulary
    arguments.require(inside, "mask_id", mask_id, "is no id", f"give 0 to {vocabulary - 1}")
    share = arguments.is_number(rate) and 0 <= rate <= 1
    arguments.require(share, "rate", rate, "is outside [0, 1]", "give a share of the tokens")
    ids = arguments.id_array("ids", ids, vocabulary)
    never = np.append(np.asarray(special, np.int64), mask_id)
    known = bool(((never >= 0) & (never < vocabulary)).all())
    arguments.require(known, "special", never.tolist(), "are not all ids", f"give 0 to {vocabulary - 1}")
    rng = np.random.default_rng(seed)
    ordinary = np.setdiff1d(np.arange(vocabulary), never)
    # Every token draws all three numbers, so that what becomes of one does not depend on the others.
    picked, lot = rng.random(ids.shape), rng.random(ids.shape)
    other = rng.choice(ordinary if len(ordinary) else never, ids.shape)
    chosen = np.isin(ids, ordinary) & (picked < rate)
    become = np.where(lot < HIDDEN, mask_id, np.where(lot < HIDDEN + REPLACED, other, ids))
    return np.stack([np.where(chosen, become, ids), chosen]).astype(np.int64)
