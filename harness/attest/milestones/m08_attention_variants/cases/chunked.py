"""Cases of attention over keys in blocks. Shapes: as in M1; c keys of a block."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import cached_property
from typing import Any, ClassVar, Self

import numpy as np
from hypothesis import strategies as st

from attest.contract import Array
from attest.judging.regimes import hiding_mask
from attest.milestones.m01_attention.cases.attention import AttentionCase, attention_cases
from attest.milestones.m08_attention_variants.cases.asked import IfOffered

TILTS = ("none", "rising", "falling", "peak")
CHUNKS = ("1", "2", "3", "7", "S-1", "S", "S+1")
MASKS = ("none", "pairs", "keys", "shared", "late")
STEEP = 3.0


@dataclass(frozen=True, kw_only=True)
class ChunkedCase(IfOffered, AttentionCase):
    """`tilt`: how the scores go along the keys. A mask `late` hides the first block from every query."""

    kind: ClassVar[str] = "chunked"
    operates: ClassVar[str] = "chunked_attention"
    settings: ClassVar[Mapping[str, str]] = {"chunk": "chunk"}

    chunk: int = 1
    tilt: str = "none"
    cut: str = ""  # a chunk that follows from S, until it is settled

    def settled(self) -> Self:
        """With a block of the size that `cut` says; a mask that hides the first block leaves a key."""
        case = self.but(chunk=max(1, _size(self.cut, self.S)), cut="") if self.cut else self
        if case.mask == "late":
            return case.but(S=max(case.S, case.chunk + 1), causal=False)
        return case

    @property
    def narrowed(self) -> dict[str, Any]:
        return {**super().narrowed, "chunk": 3, "cut": ""}

    @property
    def regimes(self) -> tuple[str, ...]:
        place = "one block" if self.chunk >= self.S else "last block short" if self.S % self.chunk else "even"
        return (*super().regimes, f"scores {self.tilt}", place)

    @cached_property
    def allowed(self) -> Array:
        if self.mask != "late":
            return super().allowed
        rest = hiding_mask(self.rng(1), (*self.leading, self.T, self.S - self.chunk))
        return np.concatenate([np.zeros((*rest.shape[:-1], self.chunk), bool), rest], axis=-1)

    @cached_property
    def inputs(self) -> dict[str, Any]:
        """Where scores are tilted, one feature of every query is positive and that of the keys goes along."""
        made = dict(super().inputs)
        if self.tilt != "none":
            q, k = made["q"].copy(), made["k"].copy()
            q[..., 0] = 1 + np.abs(q[..., 0])
            k[..., 0] += _slope(self.tilt, self.S).astype(k.dtype)
            made |= {"q": q, "k": k}
        return made

    def cotangents(self) -> dict[str, Array]:
        """Random ones for both outputs, of which the second may be minus infinity where nothing is seen."""
        rng = self.rng(11)
        return {
            name: self.draw(rng, *self.sizes(shape), regime="unit")
            for name, shape in self.record.gives.items()
        }

    def part(self, keys: Sequence[int]) -> dict[str, Any]:
        """The inputs with these keys alone; what the triangle hides is part of the mask then."""
        chosen = list(keys)
        k, v = (self.inputs[name][..., chosen, :] for name in "kv")
        return self.with_inputs(k=k, v=v, mask=self.visible[..., chosen], causal=None)


def _size(cut: str, S: int) -> int:
    return S + int(cut[1:] or 0) if cut.startswith("S") else int(cut)


def _slope(tilt: str, S: int) -> Array:
    along = np.arange(S) * min(STEEP, 60.0 / S)
    made: Array = {"rising": along, "falling": -along, "peak": -np.abs(along - along.mean())}[tilt]
    return made


@st.composite
def chunked_cases(
    draw: st.DrawFn,
    *,
    masks: tuple[str, ...] = MASKS,
    causal: bool | None = None,
    regimes: tuple[str, ...] | None = None,
    min_keys: int = 1,
) -> ChunkedCase:
    """Blocks of one key, of three, of all but one, of all, and of more than there are."""
    mask = draw(st.sampled_from(masks))
    plain = draw(
        attention_cases(
            masks=("none",) if mask == "late" else (mask,), causal=causal, regimes=regimes, min_keys=min_keys
        )
    )
    return ChunkedCase(
        **{**asdict(plain), "mask": mask},
        cut=draw(st.sampled_from(CHUNKS)),
        tilt=draw(st.sampled_from(TILTS)),
    )
