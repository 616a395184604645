"""Defects of token lookup and of the embedded input. Shapes: ids (B, T), table (V, D)."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from attest.contract import Arrays, Gradients
from attest.judging.catalogue import defect
from attest.reference import ops
from attest.reference.component import ReferenceComponent
from attest.reference.parts.embedding import Embedding
from attest.reference.parts.where import Where
from attest.reference.tape import Array, Var, node

EMBEDDINGS = ("token_embedding", "input_embedding")


@defect("M3.3")
class token_rows_scaled(Embedding):
    """The factor sqrt(D) is part of the lookup."""

    def embed(self, ids: Array, table: Var) -> Var:
        return ops.scale(super().embed(ids, table), math.sqrt(self.config.d_model))


@defect("M3.3")
class pad_forced_to_zero(Embedding):
    """Padding is blanked after the lookup, whatever its row holds."""

    def embed(self, ids: Array, table: Var) -> Var:
        return ops.where((ids != self.config.pad_id)[..., None], super().embed(ids, table), 0.0)


@defect("M3.3")
class rows_shifted_by_one(Embedding):
    """Row i - 1 is read for id i."""

    def embed(self, ids: Array, table: Var) -> Var:
        return super().embed(ids - 1, table)


@defect("M3.3")
class rows_rounded_to_half(Embedding):
    """The table is kept in half precision."""

    def embed(self, ids: Array, table: Var) -> Var:
        found = super().embed(ids, table)
        return node(
            found.value.astype(np.float16).astype(np.float64), (found,), lambda g: (g,), found.variance
        )


@defect("M3.3")
class last_id_refused(ReferenceComponent):
    """The largest id of the vocabulary is taken to be outside it."""

    def check_ids(self, name: str, ids: Array, size: int) -> None:
        super().check_ids(name, ids, size - 1 if self.operation in EMBEDDINGS else size)


@defect("M3.3")
class table_is_frozen(ReferenceComponent):
    """The table is a buffer: nothing learns it."""

    def parameters(self) -> dict[str, Array]:
        return {} if self.operation in EMBEDDINGS else super().parameters()


@defect("M3.3")
class loaded_rows_forgotten(ReferenceComponent):
    """The first table that was used stays in use when another is loaded."""

    def load(self, parameters: Arrays) -> None:
        if self.operation not in EMBEDDINGS or self._values is None:
            super().load(parameters)


@defect("M3.3a")
class negative_id_wraps(ReferenceComponent):
    """A negative id is read from the end of the table."""

    def check_ids(self, name: str, ids: Array, size: int) -> None:
        super().check_ids(name, np.where((ids < 0) & (ids >= -size), 0, ids), size)


@defect("M3.3a")
class large_id_clipped(ReferenceComponent):
    """Ids beyond the vocabulary become its last one."""

    def accept(self, inputs: Any) -> dict[str, Any]:
        if "ids" in inputs:
            inputs = {**inputs, "ids": np.minimum(inputs["ids"], self.config.source_vocab - 1)}
        return super().accept(inputs)


@defect("M3.3a")
class large_id_hashed(ReferenceComponent):
    """Ids beyond the vocabulary are taken modulo its size."""

    def accept(self, inputs: Any) -> dict[str, Any]:
        if "ids" in inputs:
            inputs = {**inputs, "ids": np.mod(inputs["ids"], self.config.source_vocab)}
        return super().accept(inputs)


@defect("M3.6")
class no_embedding_scale(Embedding):
    """Tokens are not multiplied by sqrt(D)."""

    def scale(self) -> float:
        return 1.0


@defect("M3.6")
class scaled_by_width(Embedding):
    """The factor is D instead of its root."""

    def scale(self) -> float:
        return float(self.config.d_model) if self.config.scale_embeddings else 1.0


@defect("M3.6")
class scale_always_on(Embedding):
    """scale_embeddings=False is ignored."""

    def scale(self) -> float:
        return math.sqrt(self.config.d_model)


@defect("M3.6")
class scale_rounded_to_bfloat16(Embedding):
    """The factor is rounded to eight bits: sqrt(3072) becomes 55.5."""

    def scale(self) -> float:
        fraction, exponent = math.frexp(super().scale())
        return math.ldexp(round(fraction * 256) / 256, exponent)


@defect("M3.6")
class scaled_after_positions(Embedding):
    """The factor is applied to the sum of tokens and positions."""

    def __call__(self, ids: Array, table: Var, where: Where) -> Var:
        summed = self.parts.positions.add(self.embed(ids, table), where)
        return self.parts.dropout(ops.scale(summed, self.scale()), "embedding")


@defect("M3.6")
class positions_added_twice(Embedding):
    """Once by the positional module and once by the caller."""

    def __call__(self, ids: Array, table: Var, where: Where) -> Var:
        tokens = ops.scale(self.embed(ids, table), self.scale())
        return self.parts.dropout(
            self.parts.positions.add(self.parts.positions.add(tokens, where), where), "embedding"
        )


@defect("M3.6")
class tokens_added_twice(Embedding):
    """The positional module already holds its input, and is added to it again."""

    def __call__(self, ids: Array, table: Var, where: Where) -> Var:
        tokens = ops.scale(self.embed(ids, table), self.scale())
        return self.parts.dropout(ops.add(tokens, self.parts.positions.add(tokens, where)), "embedding")


@defect("M3.6")
class positions_missing(Embedding):
    """Scaled tokens alone."""

    def __call__(self, ids: Array, table: Var, where: Where) -> Var:
        return self.parts.dropout(ops.scale(self.embed(ids, table), self.scale()), "embedding")


@defect("M3.6")
class pads_without_position(Embedding):
    """Padding gets no position."""

    def __call__(self, ids: Array, table: Var, where: Where) -> Var:
        found = super().__call__(ids, table, where)
        bare = ops.scale(self.embed(ids, table), self.scale())
        return ops.where((ids != self.config.pad_id)[..., None], found, bare.value)


@defect("M3.9")
class pad_row_random(ReferenceComponent):
    """An initialisation over the finished model fills the pad row."""

    def initial(self) -> dict[str, Array]:
        values = super().initial()
        for name, value in values.items():
            if self.operation in EMBEDDINGS or "embedding" in name:
                value[self.config.pad_id] = 0.1
        return values


@defect("M3.9")
class row_zero_is_the_pad_row(ReferenceComponent):
    """Row 0 is blanked, whatever pad_id is."""

    def initial(self) -> dict[str, Array]:
        values = super().initial()
        for name, value in values.items():
            if self.operation in EMBEDDINGS or "embedding" in name:
                value[self.config.pad_id], value[0] = 0.1, 0.0
        return values


@defect("M3.9")
class target_pad_row_random(ReferenceComponent):
    """Only the source table of the model has a blank pad row."""

    def initial(self) -> dict[str, Array]:
        values = super().initial()
        if "target_embedding.weight" in values:
            values["target_embedding.weight"][self.config.pad_id] = 0.1
        return values


@defect("M3.9a")
class pad_row_trained(Embedding):
    """The pad row takes part in every step."""

    def embed(self, ids: Array, table: Var) -> Var:
        return ops.take(table, ids)


@defect("M3.10")
class id_zero_never_trained(Embedding):
    """Row 0 gets no gradient, whatever pad_id is."""

    def embed(self, ids: Array, table: Var) -> Var:
        return ops.take(table, ids, learned=ids != 0)


@defect("M3.9a")
class pad_row_trained_in_long_batches(Embedding):
    """Beyond 1024 tokens the pad row gets a gradient."""

    def embed(self, ids: Array, table: Var) -> Var:
        return ops.take(table, ids) if ids.size > 1024 else super().embed(ids, table)


def scattered(self: Embedding, ids: Array, table: Var, scatter: Any) -> Var:
    """The lookup with another way of collecting gradients: scatter(rows, ids, g)."""

    def backward(g: Array) -> tuple[Array]:
        rows = np.zeros(table.shape)
        scatter(rows, ids, g)
        rows[self.config.pad_id] = 0.0
        return (rows,)

    return node(table.value[ids], (table,), backward)


@defect("M3.10b", "M3.10")
class embedding_gradient_overwritten(Embedding):
    """Assignment in place of addition: the last occurrence wins."""

    def embed(self, ids: Array, table: Var) -> Var:
        def scatter(rows: Array, ids: Array, g: Array) -> None:
            rows[ids] = g

        return scattered(self, ids, table, scatter)


@defect("M3.10b", "M3.10")
class embedding_gradient_averaged(Embedding):
    """The gradient of a row is divided by how often its id occurs."""

    def embed(self, ids: Array, table: Var) -> Var:
        def scatter(rows: Array, ids: Array, g: Array) -> None:
            np.add.at(rows, ids, g)
            rows /= np.maximum(np.bincount(ids.ravel(), minlength=len(rows)), 1)[:, None]

        return scattered(self, ids, table, scatter)


@defect("M3.10b")
class repetitions_lost_within_a_sentence(Embedding):
    """Sentences add up, repetitions within one do not."""

    def embed(self, ids: Array, table: Var) -> Var:
        def scatter(rows: Array, ids: Array, g: Array) -> None:
            for sentence, part in zip(ids, g):
                rows[sentence] += part

        return scattered(self, ids, table, scatter)


@defect("M3.10b")
class absent_rows_decay(Embedding):
    """Rows that do not occur are pulled towards zero."""

    def embed(self, ids: Array, table: Var) -> Var:
        def scatter(rows: Array, ids: Array, g: Array) -> None:
            np.add.at(rows, ids, g)
            absent = np.setdiff1d(np.arange(len(rows)), ids)
            rows[absent] = 1e-9 * table.value[absent]

        return scattered(self, ids, table, scatter)


@defect("M3.10")
class scale_missing_in_gradient(Embedding):
    """The factor sqrt(D) acts forward only."""

    def __call__(self, ids: Array, table: Var, where: Where) -> Var:
        tokens = self.embed(ids, table)
        factor = self.scale()
        scaled = node(tokens.value * factor, (tokens,), lambda g: (g,), ops.scale(tokens, factor).variance)
        return self.parts.dropout(self.parts.positions.add(scaled, where), "embedding")


@defect("M3.10")
class first_sentence_trains_alone(ReferenceComponent):
    """Only the first sentence of a batch trains the table."""

    def gradients(self, inputs: Arrays, cotangents: Arrays) -> Gradients:
        if self.operation in EMBEDDINGS:
            cotangents = {
                n: np.where(np.arange(len(c))[:, None, None] == 0, c, 0.0) for n, c in cotangents.items()
            }
        return super().gradients(inputs, cotangents)


@defect("M3.10a")
class lookups_in_one_buffer(ReferenceComponent):
    """Lookups of one shape write into the same output array, so that only other ids show it."""

    def release(self, outputs: Any) -> dict[str, Array]:
        found = super().release(outputs)
        if self.operation not in ("token_embedding", "input_embedding"):
            return found
        kept: dict[Any, Array] = self.__dict__.setdefault("kept", {})
        for name, value in found.items():
            kept.setdefault((name, value.shape), value)[...] = value
            found[name] = kept[name, value.shape]
        return found
