"""Defects of one backend among several. The first is right in all of them."""

from __future__ import annotations

from typing import Any

import numpy as np

from attest.contract import Config
from attest.judging.catalogue import defect
from attest.reference.component import ReferenceComponent
from attest.reference.implementation import ReferenceImplementation
from attest.reference.parts.masks import Masks
from attest.reference.parts.part import Part
from attest.reference.parts.where import Where
from attest.reference.tape import Array


class SeveralBackends(ReferenceImplementation):
    """The reference behind two names; the second may have pieces of its own."""

    backends = ("eager", "fused")
    second: tuple[type[Part], ...] = ()

    def build(self, operation: str, config: Config, kind: type[ReferenceComponent] | None = None) -> Any:
        fused = ("backend", "fused") in config.options
        others = ReferenceImplementation(*self.second, name=self.name)
        return others.build(operation, config, kind) if fused else super().build(operation, config, kind)


class _NoWindow(Masks):
    def within_window(self, mask: Array | None, where: Where, T: int, S: int) -> Array | None:
        return self.combine_masks(mask, None if self.config.window is None else self.causal_allowed(T, S))


class _NoMask(Masks):
    def allowed(self, where: Where, T: int, S: int) -> Array | None:
        return super().allowed(where.but(mask=None) if where.causal else where, T, S)


class _TopLeft(Masks):
    def causal_allowed(self, T: int, S: int) -> Array:
        return np.arange(S)[None, :] <= np.arange(T)[:, None]


class _OneQuery(Masks):
    def causal_allowed(self, T: int, S: int) -> Array:
        return super().causal_allowed(T, S) if T > 1 else np.arange(S)[None, :] < 1


@defect("M8.14")
class backend_ignores_window(SeveralBackends):
    """The second backend has no windows: it sees everything before."""

    second = (_NoWindow,)


@defect("M8.14")
class backend_ignores_mask(SeveralBackends):
    """The second backend drops the mask where attention is causal."""

    second = (_NoMask,)


@defect("M8.14")
class backend_top_left(SeveralBackends):
    """The second backend aligns the triangle at the first key."""

    second = (_TopLeft,)


@defect("M8.14")
class backend_of_one_query(SeveralBackends):
    """The second backend takes a single causal query for the first of its keys."""

    second = (_OneQuery,)
