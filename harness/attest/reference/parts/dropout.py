"""Dropout, at every place of the model that has one."""

from __future__ import annotations

from attest.reference import ops
from attest.reference.parts.part import Part
from attest.reference.tape import Var


class Dropout(Part):
    """Inverted dropout; `place` is embedding, sublayer, attention or feed_forward."""

    def __call__(self, x: Var, place: str) -> Var:
        if self.noise is None or not self.config.dropout:
            return x
        kept = self.noise.random(x.shape) >= self.config.dropout
        return ops.scale(x, kept / (1.0 - self.config.dropout))
