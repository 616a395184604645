"""Defects of attention maps."""

from __future__ import annotations

from typing import Any

import numpy as np

from attest.judging.catalogue import defect
from attest.reference.models.transformer import ReferenceTransformer
from attest.reference.tape import Array


@defect("M10.14")
class maps_averaged_over_heads(ReferenceTransformer):
    """Every head is given the mean of all heads."""

    def attention_maps(self, **ids: Any) -> dict[str, Array]:
        found = super().attention_maps(**ids)
        return {n: np.broadcast_to(w.mean(2, keepdims=True), w.shape).copy() for n, w in found.items()}


@defect("M10.14")
class maps_last_layer_first(ReferenceTransformer):
    """The layers come in reverse order."""

    def attention_maps(self, **ids: Any) -> dict[str, Array]:
        return {name: w[::-1].copy() for name, w in super().attention_maps(**ids).items()}


@defect("M10.14")
class maps_softmaxed_twice(ReferenceTransformer):
    """A softmax is taken of weights that are weights already."""

    def attention_maps(self, **ids: Any) -> dict[str, Array]:
        raised = {name: np.exp(w) for name, w in super().attention_maps(**ids).items()}
        return {name: w / w.sum(-1, keepdims=True) for name, w in raised.items()}


@defect("M10.14")
class maps_after_dropout(ReferenceTransformer):
    """While training, half of the weights are zero and the others doubled."""

    def attention_maps(self, **ids: Any) -> dict[str, Array]:
        noise, found = self.noise(), super().attention_maps(**ids)
        if noise is None:
            return found
        return {name: w * 2.0 * (noise.random(w.shape) < 0.5) for name, w in found.items()}


@defect("M10.14")
class maps_of_the_previous_call(ReferenceTransformer):
    """What is returned was kept by the call before."""

    def attention_maps(self, **ids: Any) -> dict[str, Array]:
        found = super().attention_maps(**ids)
        kept, self._kept_maps = getattr(self, "_kept_maps", found), found
        same = all(kept[name].shape == w.shape for name, w in found.items())
        return kept if same else found


@defect("M10.14")
class looking_changes_the_model(ReferenceTransformer):
    """The hook that listens stays, and what it hands on is rounded."""

    def attention_maps(self, **ids: Any) -> dict[str, Array]:
        self.load({name: np.float16(value).astype(value.dtype) for name, value in self.parameters().items()})
        return super().attention_maps(**ids)
