"""Cases of the whole model: ids in, logits out.

Shapes: source (B, S), target (B, T) as the decoder reads it: BOS first, then ids, then padding.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar, Self

import numpy as np
from hypothesis import strategies as st

from attest.boundary import JudgedImplementation
from attest.contract import Array, Config
from attest.judging.cases import Case, dtypes, seeds
from attest.judging.options import OTHER_ACTIVATION, first_offered
from attest.outcomes import Expected
from attest.reference.oracle import expected, random_parameters


def words_of(rng: np.random.Generator, rows: int, length: int, vocab: int, special: tuple[int, ...]) -> Array:
    """Ids that are none of the special ones."""
    words: Array = np.array([i for i in range(vocab) if i not in special], np.int64)
    drawn: Array = words[rng.integers(0, len(words), (rows, length))]
    return drawn


def padded_on_the_right(rng: np.random.Generator, ids: Array, pad_id: int) -> Array:
    """Each row cut to a length of its own, at least 1."""
    lengths = rng.integers(1, ids.shape[1] + 1, len(ids))
    return np.where(np.arange(ids.shape[1]) < lengths[:, None], ids, pad_id)


@dataclass(frozen=True, kw_only=True)
class ModelCase(Case):
    """Random weights and a batch of pairs, each row with padding of its own unless `padded` is off."""

    kind: ClassVar[str] = "model"
    lengths: ClassVar[tuple[str, ...]] = ("B", "S", "T", "H")

    B: int = 1
    S: int = 1
    T: int = 1
    H: int = 1
    d_k: int = 4
    d_ff: int = 8
    encoders: int = 1
    decoders: int = 1
    source_vocab: int = 7
    target_vocab: int = 9
    pad_id: int = 0
    padded: bool = True
    norm: str = "post"
    activation: str = "relu"
    bias: bool = True
    scaled: bool = True
    tie: bool = False

    def fitted(self, impl: JudgedImplementation) -> Self:
        case = super().fitted(impl)
        if not impl.policy.one_config:
            return case.offered(impl)
        fixed: dict[str, Any] = {"H": 2, "d_k": 8, "d_ff": 32, "encoders": 1, "pad_id": 0}
        fixed |= {"decoders": 1 if case.tie else 2}  # what ties matter for does not depend on depth
        fixed |= {"source_vocab": 7, "target_vocab": 9, "activation": "relu", "bias": True, "scaled": True}
        return case.but(**fixed, norm="pre").offered(impl)

    def offered(self, impl: JudgedImplementation) -> Self:
        """The case, or one with biases, the other activation or scaled embeddings."""
        other = {"activation": OTHER_ACTIVATION[self.activation]}
        biased, scaled = {"bias": True}, {"scaled": True}
        return first_offered(
            impl, "transformer", self, biased, other, scaled, biased | other, biased | other | scaled
        )

    @property
    def regimes(self) -> tuple[str, ...]:
        extra = ("S=T",) if self.S == self.T else ("S!=T",)
        return (*super().regimes, self.norm, *extra, "padded" if self.padded else "full")

    @property
    def config(self) -> Config:
        return Config(
            d_model=self.H * self.d_k,
            num_heads=self.H,
            d_ff=self.d_ff,
            num_encoder_layers=self.encoders,
            num_decoder_layers=self.decoders,
            source_vocab=self.source_vocab,
            target_vocab=self.target_vocab,
            max_len=32,
            norm=self.norm,
            activation=self.activation,
            bias=self.bias,
            scale_embeddings=self.scaled,
            tie=self.tie,
            pad_id=self.pad_id,
            bos_id=self.bos_id,
            eos_id=self.eos_id,
            dtype=self.dtype,
        )

    @property
    def bos_id(self) -> int:
        return (self.pad_id + 1) % min(self.source_vocab, self.target_vocab)

    @property
    def eos_id(self) -> int:
        return (self.pad_id + 2) % min(self.source_vocab, self.target_vocab)

    @cached_property
    def parameters(self) -> dict[str, Array]:
        return random_parameters("transformer", self.config, self.rng(1), regime=self.regime)

    @cached_property
    def source(self) -> Array:
        """(B, S): every row has at least one real token."""
        return self._ids(self.rng(2), self.S, self.source_vocab)

    @cached_property
    def target(self) -> Array:
        """(B, T): BOS, then ids."""
        target = self._ids(self.rng(3), self.T, self.target_vocab)
        target[:, 0] = self.bos_id
        return target

    def _ids(self, rng: np.random.Generator, length: int, vocab: int) -> Array:
        ids = words_of(rng, self.B, length, vocab, (self.pad_id, self.bos_id, self.eos_id))
        return padded_on_the_right(rng, ids, self.pad_id) if self.padded else ids

    @property
    def inputs(self) -> dict[str, Array]:
        return {"source": self.source, "target": self.target}

    @property
    def real(self) -> Array:
        """(B, T): where the target is no padding."""
        real: Array = self.target != self.pad_id
        return real

    @cached_property
    def expected(self) -> Expected:
        """The logits (B, T, V)."""
        return expected("transformer", self.config, self.parameters, self.inputs)["logits"]

    def cotangents(self) -> dict[str, Array]:
        """Random cotangents of the logits."""
        return {"logits": self.draw(self.rng(4), self.B, self.T, self.target_vocab, regime="unit")}


@st.composite
def model_cases(
    draw: st.DrawFn,
    *,
    min_source: int = 1,
    min_target: int = 1,
    padded: bool | None = None,
    tie: bool = False,
    bias: bool | None = None,
    same_vocab: bool = False,
) -> ModelCase:
    """Depths 1 to 3, unequal vocabularies, any pad id, both norms."""
    T = draw(st.integers(min_target, 7))
    target_vocab = draw(st.integers(5, 12))
    return ModelCase(
        B=draw(st.integers(1, 4)),
        S=max(min_source, T if draw(st.booleans()) else draw(st.integers(1, 8))),
        T=T,
        H=draw(st.integers(1, 3)),
        d_k=draw(st.integers(2, 6)),
        d_ff=draw(st.integers(1, 12)),
        encoders=draw(st.integers(1, 3)),
        decoders=draw(st.integers(1, 3)),
        source_vocab=target_vocab if same_vocab else draw(st.integers(5, 12)),
        target_vocab=target_vocab,
        pad_id=draw(st.sampled_from((0, 0, 1, 4))),
        padded=draw(st.sampled_from((True, True, False))) if padded is None else padded,
        norm=draw(st.sampled_from(("post", "pre"))),
        activation=draw(st.sampled_from(("relu", "gelu"))),
        bias=draw(st.booleans()) if bias is None else bias,
        scaled=draw(st.sampled_from((True, True, False))),
        tie=tie,
        regime=draw(st.sampled_from(("init", "unit", "saturated"))),
        dtype=draw(dtypes()),
        seed=draw(seeds()),
    )
