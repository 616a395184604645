"""Cases of token lookup, positions and both together. Shapes: ids (B, T), table (V, D), x (B, T, D)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar, Self

import numpy as np
from hypothesis import strategies as st

from attest.boundary import JudgedImplementation
from attest.contract import Array, Config, float_dtype
from attest.judging.cases import Case, OperationCase, dtypes, seeds
from attest.judging.options import first_offered
from attest.outcomes import Expected

# Where every config costs a build: a pad id that is not 0, and a vocabulary that is no power of two.
FIXED: dict[str, Any] = {"D": 8, "V": 13, "pad_id": 3, "max_len": 64, "scaled": True}
FIXED_WIDTHS: tuple[dict[str, Any], ...] = ({"D": 8, "max_len": 512}, {"D": 7, "max_len": 64})  # even, odd


@dataclass(frozen=True, kw_only=True)
class TokenCase(OperationCase):
    """Ids with repetitions and padding, and a table of which every row is filled, the pad row too.

    `lookup` is token_embedding or input_embedding.
    """

    kind: ClassVar[str] = "tokens"
    lengths: ClassVar[tuple[str, ...]] = ("B", "T")
    stands_for: ClassVar[Mapping[str, str]] = {"V": "source_vocab", "D": "d_model", "max_len": "max_len"}

    B: int = 1
    T: int = 1
    V: int = 4
    D: int = 4
    pad_id: int = 0
    max_len: int = 16
    scaled: bool = True
    lookup: str = "token_embedding"

    @property
    def narrowed(self) -> dict[str, Any]:
        longest = FIXED["max_len"] if self.lookup == "input_embedding" else self.T
        return {**FIXED, "T": min(self.T, longest)}

    @property
    def operation(self) -> str:
        return self.lookup

    def settled(self) -> Self:
        return self.but(max_len=max(self.max_len, self.T))

    def offered(self, impl: JudgedImplementation) -> Self:
        """The factor is an option of input_embedding, whichever operation is asked."""
        changes = ({"scaled": True}, {"scaled": False})
        return first_offered(impl, "input_embedding", self, *changes)

    @property
    def config(self) -> Config:
        """Start and end are ids that are not the padding."""
        bos, eos = [i for i in range(3) if i != self.pad_id][:2]
        return Config(
            d_model=self.D,
            num_heads=1,
            source_vocab=self.V,
            target_vocab=self.V,
            max_len=self.max_len,
            scale_embeddings=self.scaled,
            pad_id=self.pad_id,
            bos_id=bos,
            eos_id=eos,
            dtype=self.dtype,
        )

    @cached_property
    def table(self) -> Array:
        return exact_values(self, self.rng(1), self.V, self.D)

    @property
    def parameters(self) -> dict[str, Array]:
        return {"weight": self.table}

    @property
    def inputs(self) -> dict[str, Any]:
        return {"ids": self.ids}

    @cached_property
    def ids(self) -> Array:
        """Few different ids, so that they repeat, and pads at the end of some rows."""
        rng = self.rng()
        # Few different ids repeat, and a gradient that keeps only the last of equal rows (x[ids] += g) shows.
        few = rng.choice(self.V, min(self.V, max(4, self.V // 3)), replace=False)
        ids = few[rng.integers(0, len(few), (self.B, self.T))]
        ends = rng.integers(0, self.T + 1, self.B)
        ids[np.arange(self.T) >= ends[:, None]] = self.pad_id
        return ids.astype(np.int64)

    @cached_property
    def every_id(self) -> Array:
        """(B, V): each id of the vocabulary in every row, in another order."""
        rng = self.rng(4)
        return np.stack([rng.permutation(self.V) for _ in range(self.B)]).astype(np.int64)

    def cotangents(self) -> dict[str, Array]:
        """Nothing at pads: whether the lookup of a pad is learned is for M3.9a alone to say."""
        real = (self.ids != self.pad_id)[..., None]
        return {name: g * real.astype(g.dtype) for name, g in self.cotangents_everywhere().items()}

    def cotangents_everywhere(self) -> dict[str, Array]:
        """Random ones, at pads too."""
        return super().cotangents()

    def summed(self) -> Array:
        """(V, D): the cotangents of each id added up over all its places; nothing for the pad row."""
        total = np.zeros((self.V, self.D))
        np.add.at(total, self.ids, self.cotangents()["output"].astype(np.float64))
        total[self.pad_id] = 0.0
        return total


@dataclass(frozen=True, kw_only=True)
class PositionCase(OperationCase):
    """Inputs of positional_encoding, up to max_len positions."""

    kind: ClassVar[str] = "positions"
    lengths: ClassVar[tuple[str, ...]] = ("B", "T")
    operates: ClassVar[str] = "positional_encoding"
    settings: ClassVar[Mapping[str, str]] = {"D": "d_model", "max_len": "max_len"}

    B: int = 1
    T: int = 1
    D: int = 4
    max_len: int = 16

    @property
    def narrowed(self) -> dict[str, Any]:
        kept = FIXED_WIDTHS[self.D % 2]
        return {**kept, "T": min(self.T, kept["max_len"])}

    def settled(self) -> Self:
        return self.but(max_len=max(self.max_len, self.T))

    @property
    def nothing(self) -> Array:
        """Zeros: what comes out is what was added."""
        return np.zeros((self.B, self.T, self.D), float_dtype(self.dtype))

    @property
    def x(self) -> Array:
        """The input."""
        return self.inputs["x"]  # type: ignore[no-any-return]

    @cached_property
    def table(self) -> Expected:
        """What is added at each position, with the distance the spec allows in float32."""
        wanted = self.output_for({"x": self.nothing})
        if self.dtype == "float64":
            return wanted
        allowed = 1e-6 + 1.5e-7 * np.arange(self.T)[:, None]
        return Expected(wanted.value, allowed if self.dtype == "float32" else wanted.bound + allowed)


@dataclass(frozen=True, kw_only=True)
class LimitCase(OperationCase):
    """A component of `part` and inputs up to its max_len."""

    kind: ClassVar[str] = "limit"
    lengths: ClassVar[tuple[str, ...]] = ("B",)
    settings: ClassVar[Mapping[str, str]] = {"max_len": "max_len"}
    constants: ClassVar[Mapping[str, Any]] = {"d_model": 6, "num_heads": 1, "source_vocab": 9}

    part: str = "positional_encoding"
    B: int = 1
    max_len: int = 1

    @property
    def operation(self) -> str:
        return self.part

    @property
    def narrowed(self) -> dict[str, Any]:
        return {"max_len": 1 if self.max_len == 1 else 64}

    def of_length(self, length: int) -> dict[str, Array]:
        """Ones: they are ids and numbers alike."""
        if self.part == "input_embedding":
            return {"ids": np.ones((self.B, length), np.int64)}
        return {"x": np.ones((self.B, length, self.config.d_model), float_dtype(self.dtype))}


def exact_values(case: Case, rng: np.random.Generator, *shape: int) -> Array:
    """Values of size 1 that the case's dtype holds exactly."""
    if case.dtype in ("float32", "float64"):
        return case.draw(rng, *shape)
    return (rng.integers(-63, 64, shape) / 32).astype(np.float32)


@st.composite
def token_cases(
    draw: st.DrawFn, *, min_length: int = 1, lookups: tuple[str, ...] = ("token_embedding",)
) -> TokenCase:
    """Every pad id of a small vocabulary; widths from 1; tables longer than the input and as long."""
    V = draw(st.integers(4, 13))
    T = draw(st.integers(min_length, 9))
    return TokenCase(
        B=draw(st.integers(1, 4)),
        T=T,
        V=V,
        D=draw(st.integers(1, 17)),
        pad_id=draw(st.integers(0, V - 1)),
        max_len=T + draw(st.sampled_from((0, 1, 7))),
        scaled=draw(st.sampled_from((True, True, False))),
        lookup=draw(st.sampled_from(lookups)),
        regime=draw(st.sampled_from(("unit", "tiny", "large"))),
        dtype=draw(dtypes()),
        seed=draw(seeds()),
    )


@st.composite
def position_cases(draw: st.DrawFn, *, longest: int = 400, even: bool = False) -> PositionCase:
    """Short and long inputs, even and odd widths."""
    T = draw(st.one_of(st.integers(1, 9), st.integers(1, longest)))
    half = draw(st.integers(1, 16))
    return PositionCase(
        B=draw(st.integers(1, 3)),
        T=T,
        D=2 * half if even else 2 * half - draw(st.integers(0, 1)),
        max_len=T + draw(st.sampled_from((0, 1, 9))),
        regime=draw(st.sampled_from(("unit", "tiny"))),
        dtype=draw(dtypes()),
        seed=draw(seeds()),
    )
