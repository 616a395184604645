"""Cases of the whole model: ids in, logits out.

Shapes: the written stream (B, T) as the model reads it, BOS first, then ids, then padding; others (B, S).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar, Self

import numpy as np
from hypothesis import strategies as st

from attest.boundary import JudgedImplementation
from attest.contract import Array, Config
from attest.judging.architectures import ArchitectureCase
from attest.judging.cases import dtypes, seeds
from attest.judging.options import OTHER_ACTIVATION, first_offered
from attest.judging.regimes import LENGTH, SIZES, WIDTHS
from attest.outcomes import Expected
from attest.reference.oracle import expected, random_parameters

STANDS_FOR = {  # what the sizes of a case are called in `attest.judging.regimes`
    "B": "B",
    "S": "S",
    "T": "T",
    "H": "num_heads",
    "d_ff": "d_ff",
    "encoders": "num_encoder_layers",
    "decoders": "num_decoder_layers",
    "source_vocab": "source_vocab",
    "target_vocab": "target_vocab",
}


def words_of(rng: np.random.Generator, rows: int, length: int, vocab: int, special: tuple[int, ...]) -> Array:
    """Ids that are none of the special ones."""
    words: Array = np.array([i for i in range(vocab) if i not in special], np.int64)
    drawn: Array = words[rng.integers(0, len(words), (rows, length))]
    return drawn


def padded_on_the_right(rng: np.random.Generator, ids: Array, pad_id: int) -> Array:
    """Each row cut to a drawn length of at least 1; the first of several rows is whole."""
    lengths = rng.integers(1, ids.shape[1] + 1, len(ids))
    if len(ids) > 1:
        lengths[0] = ids.shape[1]
    return np.where(np.arange(ids.shape[1]) < lengths[:, None], ids, pad_id)


@dataclass(frozen=True, kw_only=True)
class TeacherForcedCase(ArchitectureCase):
    """Random weights and a batch, each row of a stream padded by a drawn amount unless `padded` is off."""

    kind: ClassVar[str] = "model"
    lengths: ClassVar[tuple[str, ...]] = ("B", "S", "T", "H")
    own_options: ClassVar[Mapping[str, str]] = {
        "norm": "norm",
        "activation": "activation",
        "bias": "bias",
        "scaled": "scale_embeddings",
        "tie": "tie",
    }
    widens: ClassVar[str] = "d_k"

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
    room: int = 32
    pad_id: int = 0
    padded: bool = True
    norm: str = "post"
    activation: str = "relu"
    bias: bool = True
    scaled: bool = True
    tie: bool = False

    @property
    def narrowed(self) -> dict[str, Any]:
        """Tied weights behave the same at any depth, so one decoder layer is enough for them."""
        sizes = {"H": 2, "d_k": 8, "d_ff": 32, "encoders": 1, "decoders": 1 if self.tie else 2, "room": 32}
        sizes |= {"S": min(self.S, 8), "T": min(self.T, 7)}
        ids = {"source_vocab": 7, "target_vocab": 9, "pad_id": 0}
        return {**sizes, **ids, "norm": "pre", "activation": "relu", "bias": True, "scaled": True}

    def fitted(self, impl: JudgedImplementation) -> Self:
        return super().fitted(impl).offered(impl)

    def offered(self, impl: JudgedImplementation) -> Self:
        """The case, or one with biases, the other activation or scaled embeddings."""
        if self.architecture.optional:
            return self  # its options are claimed
        other = {"activation": OTHER_ACTIVATION[self.activation]}
        biased, scaled = {"bias": True}, {"scaled": True}
        changes = (biased, other, scaled, biased | other, biased | other | scaled)
        return first_offered(impl, self.architecture.operation, self, *changes)

    @property
    def regimes(self) -> tuple[str, ...]:
        extra = ("S=T",) if self.S == self.T else ("S!=T",)
        return (*super().regimes, self.norm, *extra, "padded" if self.padded else "full")

    @property
    def wanted(self) -> dict[str, Any]:
        return {"tie": self.tie}

    @property
    def config(self) -> Config:
        return self.with_options(self.plain)

    @property
    def plain(self) -> Config:
        """The config without the options that were picked."""
        return Config(
            d_model=self.H * self.d_k,
            num_heads=self.H,
            d_ff=self.d_ff,
            num_encoder_layers=self.encoders,
            num_decoder_layers=self.decoders,
            source_vocab=self.source_vocab,
            target_vocab=self.target_vocab,
            max_len=self.room,
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
        return random_parameters(self.architecture.operation, self.config, self.rng(1), regime=self.regime)

    @property
    def projection(self) -> dict[str, Array]:
        """Weight and bias of the last map, as far as the model has them."""
        names = (f"{self.architecture.projection}.{part}" for part in ("weight", "bias"))
        return {name: self.parameters[name] for name in names if name in self.parameters}

    @cached_property
    def inputs(self) -> dict[str, Array]:
        """Every stream; each row has at least one real token."""
        return {stream: self._ids(i, stream) for i, stream in enumerate(self.architecture.streams)}

    def _ids(self, place: int, stream: str) -> Array:
        rng, vocab = self.rng(2 + place), self.architecture.vocabulary(stream, self.config)
        length = self.T if stream == self.architecture.written else self.S
        ids = words_of(rng, self.B, length, vocab, (self.pad_id, self.bos_id, self.eos_id))
        ids = padded_on_the_right(rng, ids, self.pad_id) if self.padded else ids
        if stream == self.architecture.written:
            ids[:, 0] = self.bos_id
        return ids

    @property
    def prompt(self) -> Array:
        """(B, S)."""
        return self.inputs[self.architecture.prompt]

    @property
    def written(self) -> Array:
        """(B, T)."""
        return self.inputs[self.architecture.written]

    def cut(self, length: int) -> dict[str, Array]:
        """The streams with the first columns of the written one."""
        return {**self.inputs, self.architecture.written: self.written[:, :length]}

    @property
    def real(self) -> Array:
        """(B, T): where the written stream is not padding."""
        real: Array = self.written != self.pad_id
        return real

    @property
    def num_classes(self) -> int:
        """V."""
        return self.architecture.num_classes(self.config)

    @cached_property
    def expected(self) -> Expected:
        """The logits (B, T, V)."""
        return expected(self.architecture.operation, self.config, self.parameters, self.inputs)["logits"]

    def enlarged(self, width: int) -> Self:
        """Beyond every size at which something may end; the special ids lie beyond 255 too."""
        sizes = {name: SIZES[meaning] for name, meaning in STANDS_FOR.items()}
        return self.but(**sizes, d_k=width // sizes["H"], room=LENGTH, pad_id=260)

    def cotangents(self) -> dict[str, Array]:
        """Random cotangents of the logits."""
        return {"logits": self.draw(self.rng(4), self.B, self.T, self.num_classes, regime="unit")}


LARGE_MODEL = TeacherForcedCase(regime="init", seed=1).enlarged(WIDTHS[0])


@dataclass(frozen=True, kw_only=True)
class UntrainedCase(ArchitectureCase):
    """A model as it is built, and random pairs; 1000 ids, so that knowing nothing costs ln 1000."""

    kind: ClassVar[str] = "untrained"
    own_options: ClassVar[Mapping[str, str]] = {"norm": "norm"}

    depth: int = 2
    norm: str = "post"

    @property
    def narrowed(self) -> dict[str, Any]:
        """One layer: every further one would cost a graph."""
        return {"depth": 1}

    @property
    def config(self) -> Config:
        return self.with_options(self.plain)

    @property
    def plain(self) -> Config:
        """The config without the options that were picked."""
        return Config(
            d_model=64, num_heads=4, d_ff=256, num_encoder_layers=self.depth, num_decoder_layers=self.depth,
            source_vocab=1000, target_vocab=1000, max_len=64, norm=self.norm, dtype=self.dtype,
        )  # fmt: skip

    @property
    def inputs(self) -> dict[str, Array]:
        """16 rows of 12 ids for each stream, without padding."""
        drawn = self.rng().integers(3, 1000, (len(self.architecture.streams), 16, 12))
        return dict(zip(self.architecture.streams, drawn))


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
) -> TeacherForcedCase:
    """Depths 1 to 3, unequal vocabularies, any pad id, both norms."""
    T = draw(st.integers(min_target, 7))
    target_vocab = draw(st.integers(5, 12))
    return TeacherForcedCase(
        B=draw(st.integers(1, 4)),
        S=max(min_source, T if draw(st.booleans()) else draw(st.integers(1, 8))),
        T=T,
        H=draw(st.integers(1, 3)),
        d_k=draw(st.integers(2, 6)),
        d_ff=draw(st.integers(1, 12)),
        encoders=draw(st.integers(1, 3)),
        decoders=draw(st.integers(1, 3)),
        # Unequal vocabularies: one table used for both streams would be out of range or too large.
        source_vocab=target_vocab if same_vocab else draw(st.integers(5, 12)),
        target_vocab=target_vocab,
        # Not always 0: code that compares with 0, or multiplies by ids, is right for that one.
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
