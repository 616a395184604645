"""Defects of multi-head attention in masks over heads, batch, memory layout, side effects and blind queries.

Shapes: query (B, T, D), key_value (B, S, D), a mask (T, S) or (B or 1, T or 1, S).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from attest.judging.catalogue import defect
from attest.reference import ops
from attest.reference.component import ReferenceComponent
from attest.reference.parts.attention import Attention
from attest.reference.parts.heads import MultiHead
from attest.reference.parts.where import Where
from attest.reference.scope import Scope
from attest.reference.tape import Array, Var, node

Inputs = Mapping[str, Any]


@defect("M2.8")
class mask_first_head_only(MultiHead):
    """Only the first head is masked."""

    def allowed_for(self, mask: Array | None, B: int, T: int, S: int) -> Array | None:
        allowed = super().allowed_for(mask, B, T, S)
        if allowed is None:
            return None
        first = np.arange(self.config.num_heads)[:, None, None] == 0
        return np.asarray(allowed.astype(bool) | ~first)


@defect("M2.8")
class mask_broadcast_over_heads(MultiHead):
    """The batch axis of the mask lines up with the heads where both have one length."""

    def allowed_for(self, mask: Array | None, B: int, T: int, S: int) -> Array | None:
        if mask is not None and mask.ndim == 3 and len(mask) == B == self.config.num_heads:
            return np.asarray(mask)[None]
        return super().allowed_for(mask, B, T, S)


@defect("M2.8")
class mask_of_the_first_row(MultiHead):
    """The mask of the first row is used for the whole batch."""

    def allowed_for(self, mask: Array | None, B: int, T: int, S: int) -> Array | None:
        return super().allowed_for(mask[:1] if mask is not None and mask.ndim == 3 else mask, B, T, S)


@defect("M2.8")
class padding_reduced_to_its_length(MultiHead):
    """A key padding mask is replaced by its number of keys, as if padding were always on the right."""

    def allowed_for(self, mask: Array | None, B: int, T: int, S: int) -> Array | None:
        if mask is not None and mask.ndim == 3 and mask.shape[1] == 1:
            mask = np.arange(S) < mask.sum(-1, keepdims=True)
        return super().allowed_for(mask, B, T, S)


@defect("M2.8")
class mask_tiled_in_the_wrong_order(MultiHead):
    """A mask repeated for batch times heads is tiled where it should be repeated row by row."""

    def allowed_for(self, mask: Array | None, B: int, T: int, S: int) -> Array | None:
        allowed = super().allowed_for(mask, B, T, S)
        if allowed is None or len(allowed) != B:
            return allowed
        H = self.config.num_heads
        return np.tile(allowed[:, 0], (H, 1, 1)).reshape(B, H, *allowed.shape[2:])


@defect("M2.9", "M2.2")
class attends_across_batch(MultiHead):
    """The first axis is taken for the positions, so that rows of the batch attend to each other."""

    def __call__(self, query: Var, key_value: Var, p: Scope, where: Where) -> dict[str, Var]:
        if query.shape != key_value.shape or where.mask is not None:
            return super().__call__(query, key_value, p, where)
        turned = super().__call__(
            ops.swap(query, 0, 1), ops.swap(key_value, 0, 1), p, where.but(mask=None, causal=False)
        )
        right = super().__call__(query, key_value, p, where.but(mask=None, causal=False))["weights"]
        return {"output": ops.swap(turned["output"], 0, 1), "weights": right}


@defect("M2.9")
class positions_favoured(MultiHead):
    """The output of the heads is multiplied by a factor that grows with the index of the query."""

    def merge(self, x: Var) -> Var:
        T = x.shape[2]
        return super().merge(ops.scale(x, 1.0 + 0.01 * np.arange(T)[:, None]))


@defect("M2.9", "M2.2")
class batch_statistics_in_the_output(MultiHead):
    """The mean over the batch is taken out of the joined heads."""

    def combine(self, concatenated: Var, p: Scope) -> Var:
        B = concatenated.shape[0]
        flat = ops.reshape(concatenated, (B, -1))
        centred = ops.sub(flat, ops.matmul(Var(np.full((B, B), 0.5 / B)), flat))
        return super().combine(ops.reshape(centred, concatenated.shape), p)


@defect("M2.10")
class view_after_transpose(ReferenceComponent):
    """Inputs are read in the order of their memory, whatever their strides say."""

    def accept(self, inputs: Inputs) -> dict[str, Any]:
        given = super().accept(inputs)
        return {n: x.ravel(order="K").reshape(x.shape) if n != "mask" else x for n, x in given.items()}


@defect("M2.10")
class strided_inputs_refused(ReferenceComponent):
    """An input that is not contiguous raises."""

    def accept(self, inputs: Inputs) -> dict[str, Any]:
        given = super().accept(inputs)
        for name, x in given.items():
            if not x.flags.c_contiguous:
                raise RuntimeError(f"view size is not compatible with the strides of {name}")
        return given


@defect("M2.13")
class query_scaled_in_place(ReferenceComponent):
    """The query is scaled in place before it is used."""

    def accept(self, inputs: Inputs) -> dict[str, Any]:
        given = super().accept(inputs)
        if "query" not in given:
            return given
        kept = {name: np.array(x) for name, x in given.items()}
        given["query"] /= given["query"].dtype.type(np.sqrt(self.config.d_model))
        return kept


@defect("M2.13")
class mask_filled_in_place(ReferenceComponent):
    """The caller's mask is cleared after use."""

    def __call__(self, **inputs: Any) -> dict[str, Array]:
        seen = super().__call__(**inputs)
        if "query" in inputs and "mask" in inputs:
            inputs["mask"].fill(True)
        return seen


@defect("M2.13")
class call_moves_the_parameters(ReferenceComponent):
    """Each call renormalises the query map in place."""

    def __call__(self, **inputs: Any) -> dict[str, Array]:
        seen = super().__call__(**inputs)
        if self.operation == "multi_head_attention":
            self.values["query.weight"] *= 0.999
        return seen


@defect("M2.13a")
class zeros_instead_of_the_bias(ReferenceComponent):
    """The whole output of a blind query is set to zero, the bias of the output map included."""

    def __call__(self, **inputs: Any) -> dict[str, Array]:
        seen = super().__call__(**inputs)
        if self.operation == "multi_head_attention":
            seen["output"][~seen["weights"].any((1, 3))] = 0.0
        return seen


@defect("M2.13a", "M2.12")
class nan_in_heads_of_a_blind_row(Attention):
    """Inside multi-head attention a query that sees nothing gives NaN."""

    def weights_from(self, scores: Var, allowed: Array | None, where: Where) -> Var:
        weights = super().weights_from(scores, allowed, where)
        if allowed is None or where.place == "alone":
            return weights
        return ops.scale(weights, np.where(allowed.any(-1, keepdims=True), 1.0, np.nan))


@defect("M2.13a")
class blind_rows_differ_in_training(Attention):
    """In train mode a query that sees nothing reads all keys alike; in eval mode none."""

    def weights_from(self, scores: Var, allowed: Array | None, where: Where) -> Var:
        weights = super().weights_from(scores, allowed, where)
        if self.noise is None or allowed is None:
            return weights
        sighted = np.any(np.broadcast_to(allowed, scores.shape), axis=-1, keepdims=True)
        return ops.where(sighted, weights, 1.0 / scores.shape[-1])


@defect("M2.8")
class masks_repeat_after_eight_rows(MultiHead):
    """Rows beyond the eighth are read with the mask of the row eight before."""

    def allowed_for(self, mask: Array | None, B: int, T: int, S: int) -> Array | None:
        if mask is not None and mask.ndim == 3:
            mask = mask[np.arange(len(mask)) % 8]
        return super().allowed_for(mask, B, T, S)


@defect("M2.13a")
class blind_query_gets_the_mean(Attention):
    """Inside multi-head attention a query that sees nothing gets the mean of all values."""

    def weights_from(self, scores: Var, allowed: Array | None, where: Where) -> Var:
        if allowed is None or where.place == "alone":
            return super().weights_from(scores, allowed, where)
        return super().weights_from(ops.where(allowed, scores, -1e30), None, where)


@defect("M2.12")
class one_padded_row_spoils_the_gradient(Attention):
    """The NaN of a blind row is replaced in the output, and reaches the weights' gradients."""

    def weights_from(self, scores: Var, allowed: Array | None, where: Where) -> Var:
        if allowed is None or where.place == "alone":
            return super().weights_from(scores, allowed, where)
        spoiled = np.where(allowed.any(-1, keepdims=True), 1.0, np.nan)
        return super().weights_from(node(scores.value, (scores,), lambda g: (g * spoiled,)), allowed, where)
