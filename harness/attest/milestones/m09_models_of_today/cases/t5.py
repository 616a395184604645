"""Cases of the encoder-decoder in the manner of T5.

Shapes: source (B, S), target (B, T), logits (B, T, V).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar, Self

import numpy as np
from hypothesis import strategies as st

from attest.boundary import JudgedComponent
from attest.contract import Array, Config
from attest.judging.cases import dtypes, picks, seeds
from attest.judging.options import options_of
from attest.milestones.m05_training.cases.model import padded_on_the_right, words_of
from attest.milestones.m09_models_of_today.cases.models import ModelCase
from attest.outcomes import Expected

RELATIVE = "positions:relative"
# Everything that sets T5 apart from the model of 2017.
T5 = (
    f"{RELATIVE},norm:pre,norm_kind:rms,bias:false,scale_embeddings:false,attention_scale:1.0,"
    "share_embeddings:true,tie:true,projection_scale:0.25"
)
PAD, BOS, EOS = 0, 1, 2
# B, T, S, H, d, d_ff, N and V: as many of them equal as can be, and no two equal.
COINCIDENT = ((4, 8, 8, 2, 4, 8, 2, 8), (2, 6, 6, 1, 6, 6, 1, 6), (3, 12, 12, 3, 4, 12, 3, 12))
APART = ((2, 7, 11, 3, 4, 17, 1, 13), (3, 13, 5, 2, 8, 11, 2, 19), (1, 23, 17, 1, 12, 7, 3, 5))


@dataclass(frozen=True, kw_only=True)
class T5Case(ModelCase):
    """Random weights and ids, each row padded on the right by a drawn amount."""

    kind: ClassVar[str] = "t5"
    lengths: ClassVar[tuple[str, ...]] = ("B", "T", "S")
    operates: ClassVar[str] = "transformer"
    settings: ClassVar[Mapping[str, str]] = {
        "D": "d_model",
        "H": "num_heads",
        "d_ff": "d_ff",
        "N": "num_decoder_layers",
        "V": "target_vocab",
        "room": "max_len",
    }
    constants: ClassVar[Mapping[str, Any]] = {"dropout": 0.3}
    free: ClassVar[tuple[str, ...]] = options_of("transformer")

    T: int = 4
    S: int = 4
    N: int = 2
    room: int = 64

    @property
    def narrowed(self) -> dict[str, Any]:
        return {**super().narrowed, "S": min(self.S, 8)}

    def settled(self) -> Self:
        """Heads divide the width; an id is left beside the special ones."""
        return self.but(
            D=max(self.H, self.D - self.D % self.H),
            V=max(self.V, 5),
            room=max(self.room, self.T, self.S),
        )

    @property
    def regimes(self) -> tuple[str, ...]:
        c = self.config
        kind = (c.norm, c.norm_kind, "tied" if c.tie else "not tied")
        return (*super().regimes, *kind, f"buckets {c.relative_buckets}")

    @property
    def config(self) -> Config:
        ids = {"pad_id": PAD, "bos_id": BOS, "eos_id": EOS}
        return super().config.but(**ids, source_vocab=self.V, num_encoder_layers=self.N)

    @cached_property
    def inputs(self) -> dict[str, Any]:
        rng, special = self.rng(2), (PAD, BOS, EOS)
        source = padded_on_the_right(rng, words_of(rng, self.B, self.S, self.V, special), PAD)
        target = padded_on_the_right(rng, words_of(rng, self.B, self.T, self.V, special), PAD)
        target[:, 0] = BOS
        return {"source": source, "target": target}

    @property
    def real(self) -> Array:
        """(B, T): where the target is no padding."""
        real: Array = self.inputs["target"] != PAD
        return real

    def shuffled(self, memory: Array) -> dict[str, Array]:
        """The inputs of `decode` with the memory in another order, and its ids with it."""
        order = self.rng(7).permutation(self.S)
        return {
            "target": self.inputs["target"],
            "memory": memory[:, order],
            "source": self.inputs["source"][:, order],
        }

    def in_steps(self, model: JudgedComponent, size: int) -> Array:
        """(B, T, V): the logits of the target, read through a cache so many tokens at a time."""
        target, state, said = self.inputs["target"], model.start(self.inputs["source"]), []
        for first in range(0, self.T, size):
            logits, state = model.step(state, target[:, first : first + size])
            said.append(logits)
        return np.concatenate(said, axis=1)

    def judged(self, seen: Array) -> tuple[Array, Expected]:
        """What was seen, and what should have been, wherever the spec says what it is."""
        return self.specified(seen, self.output.value.astype(seen.dtype)), self.output


@st.composite
def t5_cases(draw: st.DrawFn, *, wants: tuple[str, ...] = (RELATIVE,)) -> T5Case:
    """Lengths at which distances share buckets, with few buckets and many."""
    B, T, S, H, d, d_ff, N, V = draw(st.sampled_from((*COINCIDENT, *APART)))
    return T5Case(
        B=B,
        T=T,
        S=S,
        D=H * d,
        H=H,
        d_ff=d_ff,
        N=N,
        V=V,
        regime=draw(st.sampled_from(("unit", "init", "saturated"))),
        dtype=draw(dtypes()),
        seed=draw(seeds()),
        pick=draw(picks()),
        wants=draw(st.sampled_from(wants)),
    )
