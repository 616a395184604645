"""The full model as a component: encode, decode, and decoding with a cache."""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np

from attest.contract import ENCODER_DECODER, Architecture
from attest.reference.component import ReferenceComponent
from attest.reference.decoding.cache import State
from attest.reference.tape import Array


class ReferenceModel(ReferenceComponent):
    """A model of some architecture that is decoded step by step; how a state starts is its own."""

    architecture: ClassVar[Architecture]

    @property
    def cache(self) -> Any:
        """The part that starts, steps and reorders."""
        return self.parts.cache

    def step(self, state: Any, tokens: Array) -> tuple[Array, Any]:
        written = self.architecture.written
        given = self.accept({written: tokens})[written]
        if len(given) != len(state.tokens):
            raise ValueError(
                f"tokens={given.shape} must have {len(state.tokens)} rows; one per row of the state"
            )
        with np.errstate(all="ignore"):
            logits, grown = self.cache.step(state, given, self.scope())
        return np.array(logits.value, dtype=self.dtype), grown

    def reorder(self, state: Any, rows: Array) -> Any:
        rows = np.asarray(rows)
        held = len(state.tokens)
        if rows.ndim != 1 or ((rows < 0) | (rows >= held)).any():
            raise ValueError(f"rows={rows.tolist()} must be row numbers below {held}; give one axis of them")
        return self.cache.reorder(state, rows)


class ReferenceTransformer(ReferenceModel):
    """The contract's Transformer."""

    architecture = ENCODER_DECODER

    def encode(self, *, source: Array) -> dict[str, Array]:
        return self.part("encode", source=source)

    def decode(self, *, target: Array, memory: Array, source: Array) -> dict[str, Array]:
        return self.part("decode", target=target, memory=memory, source=source)

    def attention_maps(self, *, source: Array, target: Array) -> dict[str, Array]:
        return self.part("attention_maps", source=source, target=target)

    def part(self, operation: str, **inputs: Any) -> dict[str, Array]:
        given = self.accept(inputs)
        with np.errstate(all="ignore"):
            return self.release(self.outputs(operation, self.scope(), self.on_tape(given)))

    def start(self, source: Array) -> State:
        given = self.accept({"source": source})
        with np.errstate(all="ignore"):
            started: State = self.cache.start(given["source"], self.scope())
        return started
