"""Defects of attention that break work, order, batch or refusals, or have side effects.

Shapes: q (B, T, d), k and v (B, S, d), with a head axis after B where there are heads.
"""

from __future__ import annotations

import random
from collections.abc import Mapping
from typing import Any

import numpy as np

from attest.judging.catalogue import defect
from attest.reference import ops
from attest.reference.component import ReferenceComponent
from attest.reference.parts.attention import Attention
from attest.reference.parts.where import Where
from attest.reference.tape import Array, Var

Inputs = Mapping[str, Any]


@defect("M1.7")
class loop_over_batch(Attention):
    """Rows of the batch are attended to one after the other."""

    def __call__(self, q: Var, k: Var, v: Var, where: Where) -> dict[str, Var]:
        per_row = where.mask is not None and where.mask.ndim == q.ndim and len(where.mask) == q.shape[0]
        rows = []
        for b in range(q.shape[0]):
            row = [ops.index(x, slice(b, b + 1)) for x in (q, k, v)]
            seen = where.mask[b : b + 1] if where.mask is not None and per_row else where.mask
            rows.append(super().__call__(row[0], row[1], row[2], where.but(mask=seen)))
        return {name: ops.concat([row[name] for row in rows], axis=0) for name in rows[0]}


@defect("M1.7")
class loop_over_positions(Attention):
    """Scores are computed query by query."""

    def scores(self, q: Var, k: Var, where: Where) -> Var:
        rows = [
            super(loop_over_positions, self).scores(
                ops.index(q, (..., slice(t, t + 1), slice(None))), k, where
            )
            for t in range(q.shape[-2])
        ]
        return ops.concat(rows, axis=-2)


@defect("M1.7")
class loop_over_keys(Attention):
    """Values are summed key by key."""

    def mix(self, weights: Var, v: Var, where: Where) -> Var:
        total = super().mix(
            ops.index(weights, (..., slice(0, 1))), ops.index(v, (..., slice(0, 1), slice(None))), where
        )
        for s in range(1, v.shape[-2]):
            part = ops.index(weights, (..., slice(s, s + 1)))
            total = ops.add(
                total, super().mix(part, ops.index(v, (..., slice(s, s + 1), slice(None))), where)
            )
        return total


@defect("M1.12", "M1.2")
class bias_by_key_index(Attention):
    """Nearby keys are preferred, as if positions belonged here."""

    def scale(self, scores: Var, q: Var, k: Var, where: Where) -> Var:
        return ops.add(super().scale(scores, q, k, where), -0.1 * np.arange(k.shape[-2]))


@defect("M1.12", "M1.2")
class batch_mean_removed(Attention):
    """The mean over the batch is subtracted from the queries."""

    def scores(self, q: Var, k: Var, where: Where) -> Var:
        mean = ops.matmul(Var(np.full((1, q.shape[0]), 1.0 / q.shape[0])), ops.reshape(q, (q.shape[0], -1)))
        return super().scores(ops.sub(q, ops.reshape(mean, (1, *q.shape[1:]))), k, where)


@defect("M1.12", "M1.2")
class first_row_for_all(Attention):
    """Every row of the batch reads the values of the first."""

    def mix(self, weights: Var, v: Var, where: Where) -> Var:
        return super().mix(weights, ops.index(v, slice(0, 1)), where)


@defect("M1.12", "M1.2")
class values_squashed(Attention):
    """A tanh is applied to the values."""

    def mix(self, weights: Var, v: Var, where: Where) -> Var:
        y = np.tanh(v.value)
        return super().mix(weights, ops.elementwise(v, y, 1 - y * y), where)


@defect("M1.12", "M1.2")
class output_doubled(Attention):
    """The output is twice what the weights make of the values."""

    def mix(self, weights: Var, v: Var, where: Where) -> Var:
        return ops.scale(super().mix(weights, v, where), 2.0)


@defect("M1.14b", "M1.14a")
class silent_broadcast(ReferenceComponent):
    """A batch of 1 in k or v is repeated without a word."""

    def check_inputs(self, inputs: Inputs) -> None:
        if self.operation == "attention":
            batch = inputs["q"].shape[:-2]
            full = {n: np.broadcast_to(inputs[n], (*batch, *inputs[n].shape[-2:])) for n in "kv"}
            inputs = {**inputs, **full}
        super().check_inputs(inputs)


@defect("M1.14b")
class no_keys_give_nothing(ReferenceComponent):
    """No keys at all give an empty sum."""

    def check_inputs(self, inputs: Inputs) -> None:
        if self.operation != "attention" or inputs["k"].shape[-2]:
            super().check_inputs(inputs)

    def __call__(self, **inputs: Any) -> dict[str, Array]:
        if self.operation == "attention" and not inputs["k"].shape[-2]:
            return {"output": np.zeros((*inputs["q"].shape[:-1], inputs["v"].shape[-1]), self.dtype)}
        return super().__call__(**inputs)


@defect("M1.14")
class longer_values_cut(ReferenceComponent):
    """Keys and values of unequal length are cut to the shorter."""

    def accept(self, inputs: Inputs) -> dict[str, Any]:
        if "k" in inputs and "v" in inputs and inputs["k"].ndim > 1 and inputs["v"].ndim > 1:
            size = min(inputs["k"].shape[-2], inputs["v"].shape[-2])
            inputs = {**inputs, **{n: inputs[n][..., :size, :] for n in "kv"}}
        return super().accept(inputs)


@defect("M1.14")
class mask_cut_to_fit(ReferenceComponent):
    """A mask for more keys than there are is cut."""

    def accept(self, inputs: Inputs) -> dict[str, Any]:
        if "mask" in inputs and "k" in inputs:
            inputs = {**inputs, "mask": inputs["mask"][..., : inputs["k"].shape[-2]]}
        return super().accept(inputs)


@defect("M1.14a")
class refuses_without_a_name(ReferenceComponent):
    """What does not fit is refused by a RuntimeError about sizes."""

    def check_inputs(self, inputs: Inputs) -> None:
        try:
            super().check_inputs(inputs)
        except ValueError:
            if self.operation != "attention":
                raise
            raise RuntimeError("sizes of tensors must match") from None


@defect("M1.15")
class input_overwritten(ReferenceComponent):
    """The queries are scaled in place."""

    def accept(self, inputs: Inputs) -> dict[str, Any]:
        given = super().accept(inputs)
        kept = {name: np.array(x) for name, x in given.items()}
        for name in ("q", "query", "x"):
            if name in given:
                given[name] *= given[name].dtype.type(0.5)
        return kept


@defect("M1.15")
class mask_overwritten(ReferenceComponent):
    """The caller's mask is inverted in place."""

    def accept(self, inputs: Inputs) -> dict[str, Any]:
        given = super().accept(inputs)
        kept = {name: np.array(x) for name, x in given.items()}
        if "mask" in given:
            np.logical_not(given["mask"], out=given["mask"])
        return kept


@defect("M1.15")
class output_aliases_input(ReferenceComponent):
    """The output is written into the memory of the values where it fits."""

    def __call__(self, **inputs: Any) -> dict[str, Array]:
        seen = super().__call__(**inputs)
        if "v" in inputs and inputs["v"].nbytes >= seen["output"].nbytes:
            kept = inputs["v"].reshape(-1)[: seen["output"].size].reshape(seen["output"].shape)
            return {**seen, "output": np.lib.stride_tricks.as_strided(kept, kept.shape, kept.strides)}
        return seen


@defect("M1.15")
class result_memory_reused(ReferenceComponent):
    """The second call writes its result over that of the first."""

    def release(self, outputs: Mapping[str, Var]) -> dict[str, Array]:
        fresh = super().release(outputs)
        if not hasattr(self, "_held"):
            self._held: dict[tuple[int, ...], Array] = {}
        held = self._held.setdefault(fresh["output"].shape, fresh["output"])
        held[...] = fresh["output"]
        return {**fresh, "output": held}


@defect("M1.15")
class reseeds_global_rng(ReferenceComponent):
    """Each call sets the global seed."""

    def __call__(self, **inputs: Any) -> dict[str, Array]:
        np.random.seed(0)
        random.seed(0)
        return super().__call__(**inputs)


@defect("M1.15")
class nondeterministic_eval(ReferenceComponent):
    """A little noise is added in eval too."""

    def release(self, outputs: Mapping[str, Var]) -> dict[str, Array]:
        noise = np.random.default_rng()
        return {
            n: x + (1e-7 * noise.standard_normal(x.shape)).astype(x.dtype)
            for n, x in super().release(outputs).items()
        }


@defect("M1.15")
class floating_point_errors_silenced(ReferenceComponent):
    """numpy's error handling is changed and left so."""

    def __call__(self, **inputs: Any) -> dict[str, Array]:
        seen = super().__call__(**inputs)
        np.seterr(all="print")
        return seen


@defect("M1.15")
class precision_of_torch_changed(ReferenceComponent):
    """Products of torch have fewer digits after the call than before, for everyone in the process."""

    def __call__(self, **inputs: Any) -> dict[str, Array]:
        import torch

        seen = super().__call__(**inputs)
        low = torch.get_float32_matmul_precision() == "highest"
        torch.set_float32_matmul_precision("high" if low else "highest")
        return seen
