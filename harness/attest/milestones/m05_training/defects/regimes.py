"""Defects that show only in a long run, at a large size, with other special ids or in a second call.

Shapes: B batch, T target length, S source length, V vocabulary.
"""

from __future__ import annotations

import math
from collections.abc import Iterable

import numpy as np

from attest.contract import Arrays
from attest.judging.catalogue import defect
from attest.reference import ops
from attest.reference.models.encoder_decoder import EncoderDecoder
from attest.reference.models.transformer import ReferenceTransformer
from attest.reference.parts.embedding import Embedding
from attest.reference.parts.layers import Layers
from attest.reference.parts.where import Where
from attest.reference.scope import Scope
from attest.reference.tape import Array, Var
from attest.reference.training.loss import Loss
from attest.reference.training.optimisation import Adam, Clipping, Moments, Schedule
from attest.reference.training.trainer import ReferenceTrainer

LATE = 10  # a step


@defect("M5.6", "M5.9")
class label_zero_is_padding(ReferenceTrainer):
    """The trainer leaves out labels that are 0, whatever the id of padding is."""

    def inputs_and_labels(self, batch: Arrays) -> tuple[dict[str, Array], Array]:
        inputs, labels = super().inputs_and_labels(batch)
        return inputs, np.where(labels == 0, self.config.pad_id, labels)


@defect("M5.3b")
class accumulation_pads_with_zero(ReferenceTrainer):
    """Batches are joined with zeros where the shorter ones end, whatever the id of padding is."""

    def accumulate(self, batches: list[Arrays]) -> dict[str, float]:  # type: ignore[override]
        width = {name: max(batch[name].shape[1] for batch in batches) for name in batches[0]}
        joined = {
            name: np.concatenate([np.pad(b[name], ((0, 0), (0, w - b[name].shape[1]))) for b in batches])
            for name, w in width.items()
        }
        return super().accumulate([joined])


@defect("M5.3b")
class accumulation_clips_each_part(ReferenceTrainer):
    """The gradient of each of several batches is clipped, and then their sum."""

    def weighted_sum(self, weights: list[float], found: list[dict[str, Array]]) -> dict[str, Array]:
        if len(found) == 1:
            return super().weighted_sum(weights, found)
        shares = [{name: w * g for name, g in part.items()} for w, part in zip(weights, found)]
        return super().weighted_sum([1.0] * len(found), [self.parts.clipping.clip(part) for part in shares])


@defect("M5.6")
class gradients_kept_every_eighth_step(ReferenceTrainer):
    """Before every eighth step the gradients are not set to zero."""

    held: dict[str, Array] | None = None

    def collect(self, new: dict[str, Array]) -> dict[str, Array]:
        if self.held is not None and self.steps % 8 == 7:
            new = {name: self.held[name] + g for name, g in new.items()}
        self.held = new
        return new


@defect("M5.6")
class clipping_ends(ReferenceTrainer):
    """After ten steps gradients are no longer clipped."""

    def update(self, found: dict[str, Array], rate: float) -> None:
        if self.steps > LATE:
            self.apply(found, rate)
        else:
            super().update(found, rate)


@defect("M5.6", "M5.6b")
class second_moment_slows_down(Adam):
    """After ten steps the second beta is 0.999."""

    def adam_direction(self, name: str, g: Array, moments: Moments) -> Array:
        self.beta2 = 0.999 if moments.steps > LATE else Adam.beta2
        return super().adam_direction(name, g, moments)


@defect("M5.6a")
class many_arrays_clipped_apart(Clipping):
    """More than eight arrays are clipped one by one."""

    def clip(self, gradients: Arrays) -> dict[str, Array]:
        if len(gradients) <= 8:
            return super().clip(gradients)
        return {
            name: super(many_arrays_clipped_apart, self).clip({name: g})[name]
            for name, g in gradients.items()
        }


@defect("M5.13")
class evaluation_remembered(ReferenceTrainer):
    """The loss of batches that were evaluated before is given again."""

    remembered: dict[bytes, dict[str, float]]

    def evaluate(self, batches: Iterable[Arrays]) -> dict[str, float]:
        self.remembered = getattr(self, "remembered", {})
        batches = list(batches)
        key = b"".join(np.ascontiguousarray(ids).tobytes() for batch in batches for ids in batch.values())
        if key not in self.remembered:
            self.remembered[key] = super().evaluate(batches)
        return self.remembered[key]


@defect("M5.13")
class evaluation_remembered_by_list(ReferenceTrainer):
    """The loss of a list that was evaluated before is given again."""

    last: tuple[object, dict[str, float]] | None = None

    def evaluate(self, batches: Iterable[Arrays]) -> dict[str, float]:
        if self.last is None or self.last[0] is not batches:
            self.last = (batches, super().evaluate(batches))
        return self.last[1]


@defect("M5.10")
class decoder_trains_without_dropout(EncoderDecoder):
    """The decoder is never in train mode."""

    def decode(self, target: Array, memory: Var, source: Array, p: Scope) -> Var:
        self.parts.noise = None
        return super().decode(target, memory, source, p)


@defect("M5.10")
class encoder_trains_without_dropout(EncoderDecoder):
    """The encoder is never in train mode."""

    def encode(self, source: Array, p: Scope) -> Var:
        noise, self.parts.noise = self.parts.noise, None
        try:
            return super().encode(source, p)
        finally:
            self.parts.noise = noise


@defect("M5.10")
class one_sublayer_trains_without_dropout(Layers):
    """The attention over the memory keeps all that it writes."""

    def decoder_layer(self, x: Var, memory: Var, p: Scope, where: Where) -> Var:
        own, cross, residual = p.at("self_attention"), p.at("cross_attention"), self.parts.residual
        x = residual(x, lambda y: self.decoder_self_attention(y, own, where), p.at("norm0"))
        noise, self.parts.noise = self.parts.noise, None
        x = residual(x, lambda y: self.cross_attention(y, memory, cross, where.across()), p.at("norm1"))
        self.parts.noise = noise
        return residual(x, lambda y: self.parts.feed_forward(y, p.at("feed_forward")), p.at("norm2"))


@defect("M5.10c")
class start_keeps_the_parity_of_the_seed(ReferenceTransformer):
    """Only two different models are ever started."""

    def initial(self) -> dict[str, Array]:
        kept, self.config = self.config, self.config.but(seed=self.config.seed % 2)
        try:
            return super().initial()
        finally:
            self.config = kept


@defect("M5.3", "M5.3a", "M5.7")
class classes_beyond_255_ignored(Loss):
    """The normaliser sums over the first 256 classes."""

    def token_losses(self, logits: Var, labels: Array, smoothing: float) -> Var:
        inside = np.arange(logits.shape[-1]) < 256
        return super().token_losses(ops.where(inside, logits, -30.0), labels, smoothing)


@defect("M5.1")
class fifth_decoder_layer_skipped(Layers):
    """The decoder runs four of its layers, and the sixth after them."""

    def decoder(self, x: Var, memory: Var, p: Scope, where: Where) -> Var:
        for i in range(self.config.num_decoder_layers):
            if i != 4:
                x = self.decoder_layer(x, memory, self.layer_scope(p, i), where.but(layer=i))
        return self.final_norm(x, p)


@defect("M5.1")
class memory_mask_ends_at_64(EncoderDecoder):
    """Cross-attention reads the first 64 positions of the memory."""

    def memory_mask(self, source: Array) -> Array:
        seen: Array = super().memory_mask(source) & (np.arange(source.shape[1]) < 64)
        return seen


@defect("M5.1")
class target_within_a_window(EncoderDecoder):
    """The target is read in a window of its last 64 positions, counted from the end."""

    def target_mask(self, target: Array) -> Array:
        first = target.shape[1] - 64
        seen: Array = super().target_mask(target) & (np.arange(target.shape[1]) >= first)
        return seen


@defect("M5.1")
class ids_read_as_bytes(EncoderDecoder):
    """Ids are kept in eight bits."""

    def target_input(self, target: Array, p: Scope, where: Where) -> Var:
        return super().target_input(target.astype(np.uint8).astype(np.int64), p, where)


@defect("M5.1")
class large_tables_in_half_precision(Embedding):
    """A table of more than 256 rows is kept in half precision."""

    def embed(self, ids: Array, table: Var) -> Var:
        rows = super().embed(ids, table)
        if table.shape[0] <= 256:
            return rows
        return ops.sub(rows, Var(rows.value - rows.value.astype(np.float16)))


@defect("M5.6")
class training_reads_source_padding(EncoderDecoder):
    """The mask over the memory is left out while training."""

    def memory_mask(self, source: Array) -> Array:
        seen = super().memory_mask(source)
        return seen if self.noise is None else np.ones_like(seen)


@defect("M5.6d")
class pad_row_blanked(ReferenceTrainer):
    """After every step the rows of padding are set to zero."""

    def apply(self, found: dict[str, Array], rate: float) -> None:
        super().apply(found, rate)
        values = self.model.parameters()
        for name in ("source_embedding.weight", "target_embedding.weight"):
            values[name][self.config.pad_id] = 0.0
        self.model.load(values)


@defect("M5.6d")
class tables_decay(ReferenceTrainer):
    """Every step takes a thousandth off the embeddings, padding included."""

    def apply(self, found: dict[str, Array], rate: float) -> None:
        super().apply(found, rate)
        less = {name: 0.999 * x for name, x in self.model.parameters().items() if "embedding" in name}
        self.model.load({**self.model.parameters(), **less})


@defect("M5.5")
class no_warm_up_gives_infinity(Schedule):
    """Without a warm-up the rate is divided by zero."""

    def __call__(self, step: int) -> float:
        return super().__call__(step) if self.config.warmup else math.inf


@defect("M5.5a")
class warm_up_0_refused(Schedule):
    """Warm-up 0 is refused."""

    def __call__(self, step: int) -> float:
        if not self.config.warmup:
            raise ZeroDivisionError("warmup=0; give at least 1")
        return super().__call__(step)
