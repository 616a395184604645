"""Defects of multi-head attention that make arguments fit, or read them in the order of their memory.

Shapes: query (B, T, D), key_value (B, S, D), a mask (T, S) or (B or 1, T or 1, S).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from attest.contract import Arrays
from attest.judging.catalogue import defect
from attest.reference.component import ReferenceComponent

Inputs = Mapping[str, Any]


@defect("M2.14")
class one_feature_of_the_query_repeated(ReferenceComponent):
    """A query of one feature is repeated to the width of the model."""

    def accept(self, inputs: Inputs) -> dict[str, Any]:
        query = inputs.get("query")
        if query is not None and np.ndim(query) == 3 and query.shape[-1] == 1:
            inputs = {**inputs, "query": np.repeat(query, self.config.d_model, -1)}
        return super().accept(inputs)


@defect("M2.14")
class mask_cut_to_the_keys(ReferenceComponent):
    """A mask for more keys than there are is cut."""

    def accept(self, inputs: Inputs) -> dict[str, Any]:
        if "mask" in inputs and "key_value" in inputs and np.ndim(inputs["key_value"]) == 3:
            inputs = {**inputs, "mask": inputs["mask"][..., : inputs["key_value"].shape[1]]}
        return super().accept(inputs)


@defect("M2.14a")
class one_row_read_as_many(ReferenceComponent):
    """An input without a batch axis is read as a batch of sequences of length one."""

    def accept(self, inputs: Inputs) -> dict[str, Any]:
        if "query" in inputs and np.ndim(inputs["query"]) == 2:
            rows = {n: x[:, None] for n, x in inputs.items() if n != "mask"}
            rows["key_value"] = rows["key_value"][: len(rows["query"])]
            inputs = rows
        return super().accept(inputs)


@defect("M2.10")
class weights_read_in_their_own_order(ReferenceComponent):
    """Parameters are loaded in the order of their memory, whatever their strides say."""

    def load(self, parameters: Arrays) -> None:
        super().load({n: np.ravel(x, order="K").reshape(np.shape(x)) for n, x in parameters.items()})


@defect("M2.10")
class read_only_query_refused(ReferenceComponent):
    """A query that cannot be written raises."""

    def accept(self, inputs: Inputs) -> dict[str, Any]:
        if "query" in inputs and not inputs["query"].flags.writeable:
            raise ValueError("query is read-only")
        return super().accept(inputs)
