"""Small models that write, and what they are asked for.

Shapes: B batch, S length of the prompt, D width, V vocabulary, W beam width, K results.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar, Self

import numpy as np
from hypothesis import strategies as st

from attest.boundary import JudgedComponent, JudgedImplementation
from attest.contract import Array, Config
from attest.contract.parameters import shapes
from attest.judging.architectures import ArchitectureCase
from attest.judging.cases import dtypes, seeds
from attest.milestones.m06_generation.cases.offsets import always_saying, without_bias
from attest.reference.decoding.search import Searcher
from attest.reference.decoding.teacher import SUPPRESSED, Teacher
from attest.reference.oracle import random_parameters

ROOM = 12  # max_len of the config of a drawn case
SOURCE_VOCAB = 9
SPECIALS = ((0, 1, 2), (2, 0, 3), (1, 3, 0))  # pad, BOS, EOS
NARROW = 4  # the widest beam that is not exhaustive
# 0 ranks by log-probability and 0.6 is the default; a negative one favours short outputs.
ALPHAS = (0.0, 0.6, 1.0, 2.0, -0.5, -1.5)


@dataclass(frozen=True, kw_only=True)
class DecodingCase(ArchitectureCase):
    """A model with random weights and a batch of prompts; row 0 is as long as the batch.

    A prompt that is read apart is padded on the right, one that the model continues on the left.
    """

    lengths: ClassVar[tuple[str, ...]] = ("B", "S")
    own_options: ClassVar[Mapping[str, str]] = {"norm": "norm"}
    widens: ClassVar[str] = "D"

    B: int = 1
    S: int = 1
    D: int = 8
    H: int = 2
    encoders: int = 1
    decoders: int = 1
    symbols: int = 4
    room: int = ROOM
    norm: str = "post"
    special: int = 0
    dropout: float = 0.3

    @property
    def narrowed(self) -> dict[str, Any]:
        sizes = {"D": 8, "H": 2, "encoders": 1, "decoders": 1, "symbols": 11, "room": ROOM}
        return {**sizes, "S": min(self.S, 5), "norm": "post", "special": 0}

    @cached_property
    def config(self) -> Config:
        return self.with_options(self.plain)

    @property
    def plain(self) -> Config:
        """The config without the options that were picked."""
        pad, bos, eos = SPECIALS[self.special]
        return Config(
            d_model=self.D,
            num_heads=self.H,
            d_ff=2 * self.D,
            num_encoder_layers=self.encoders,
            num_decoder_layers=self.decoders,
            source_vocab=SOURCE_VOCAB,
            target_vocab=self.symbols + 3,
            max_len=self.room,
            dropout=self.dropout,
            norm=self.norm,
            pad_id=pad,
            bos_id=bos,
            eos_id=eos,
            dtype=self.dtype,
        )

    @cached_property
    def parameters(self) -> dict[str, Array]:
        return random_parameters(self.architecture.operation, self.config, self.rng(1))

    @cached_property
    def num_classes(self) -> int:
        """V."""
        return self.architecture.num_classes(self.config)

    @property
    def prompt_vocabulary(self) -> int:
        """How many ids a prompt may hold."""
        return self.architecture.vocabulary(self.architecture.prompt, self.config)

    @property
    def prompt(self) -> Array:
        """(B, S) of the case's own seed."""
        return self.another_prompt(0)

    def another_prompt(self, salt: int, S: int | None = None) -> Array:
        """(B, S): ids and padding; the rows differ in length."""
        rng, S = self.rng(2, salt), S or self.S
        ids = self.real_ids(rng, (self.B, S), self.prompt_vocabulary)
        own = rng.integers(1, S + 1, self.B)
        own[0] = S
        padded = np.arange(S) >= own[:, None]
        ids[padded[:, ::-1] if self.architecture.starts_from_rows else padded] = self.config.pad_id
        return ids

    def alone(self, row: int, extra: int = 0) -> Array:
        """(1, n): one row of the prompt without its padding, or with some more of it."""
        ids = self.prompt[row : row + 1]
        ids = ids[:, ids[0] != self.config.pad_id]
        more = max(0, self.least - ids.shape[1]) + extra
        where = (more, 0) if self.architecture.starts_from_rows else (0, more)
        return np.pad(ids, ((0, 0), where), constant_values=self.config.pad_id)

    def longest(self) -> tuple[Array, int]:
        """A prompt, and how many tokens can be written with it until every position is taken."""
        if not self.architecture.starts_from_rows:
            return self.another_prompt(1, self.room), self.room
        return self.another_prompt(1, self.room // 2), self.room - self.room // 2

    def real_ids(self, rng: np.random.Generator, shape: tuple[int, ...], vocabulary: int) -> Array:
        """Anything but padding."""
        others = np.array([i for i in range(vocabulary) if i != self.config.pad_id], np.int64)
        ids: Array = others[rng.integers(0, len(others), shape)]
        return ids

    def loaded(self, impl: JudgedImplementation, operation: str) -> JudgedComponent:
        """The component with this case's weights."""
        component = impl.build(operation, self.config)
        component.load(self.parameters)
        return component

    def model(self, impl: JudgedImplementation) -> JudgedComponent:
        """What is decoded step by step."""
        return self.loaded(impl, self.architecture.operation)

    def generator(self, impl: JudgedImplementation) -> JudgedComponent:
        """What writes."""
        return self.loaded(impl, self.architecture.generate)


@dataclass(frozen=True, kw_only=True)
class GenerationCase(DecodingCase):
    """`limit` tokens at most; `eos` is added to the projection's bias for EOS: below 0 it ends later."""

    kind: ClassVar[str] = "generation"
    gain: ClassVar[float] = 2.0  # of the projection: the larger, the more tokens differ in probability
    lengths: ClassVar[tuple[str, ...]] = (*DecodingCase.lengths, "limit")

    limit: int = 6
    eos: float = 0.0

    @property
    def wanted(self) -> dict[str, Any]:
        """A projection of its own: with the embedding's, no token could be made likelier by itself."""
        return {"tie": False}

    @property
    def narrowed(self) -> dict[str, Any]:
        return {**super().narrowed, "limit": min(self.limit, 8)}

    @property
    def regimes(self) -> tuple[str, ...]:
        ends = {0.0: "ends somewhere", 2.0: "ends early", -1e4: "never ends"}
        return (*super().regimes, ends.get(self.eos, "ends late"), self.norm)

    @cached_property
    def parameters(self) -> dict[str, Array]:
        """Padding and BOS are never chosen."""
        made = random_parameters(self.architecture.operation, self.config, self.rng(1))
        weight, bias = (f"{self.architecture.projection}.{name}" for name in ("weight", "bias"))
        made[weight] = (self.gain * made[weight]).astype(made[weight].dtype)
        if bias not in made:
            return without_bias(self.config, self.architecture, made, self.bias)
        return {**made, bias: self.offset(made[bias])}

    def offset(self, bias: Array) -> Array:
        """(V,): a bias that ends where the case says, and never chooses padding or BOS."""
        bias = bias.copy()
        bias[self.config.eos_id] += self.eos
        bias[[self.config.pad_id, self.config.bos_id]] = SUPPRESSED
        return bias

    @cached_property
    def bias(self) -> Array:
        """(V,): of the projection, or what stands for it where it has none."""
        name = f"{self.architecture.projection}.bias"
        if name in shapes(self.architecture.operation, self.config):
            return self.parameters[name]
        return self.offset(self.draw(self.rng(5), self.num_classes, regime="unit"))

    def always_saying(self, logits: Array) -> dict[str, Array]:
        """Parameters of a model whose logits (V,) are the same at every step: its projection is a bias."""
        last = self.architecture.projection
        if f"{last}.bias" not in self.parameters:
            return always_saying(self.config, self.architecture, self.parameters, logits)
        weight = np.zeros_like(self.parameters[f"{last}.weight"])
        return {**self.parameters, f"{last}.weight": weight, f"{last}.bias": logits.astype(weight.dtype)}

    def teacher(self, impl: JudgedImplementation) -> Teacher:
        """The reference that scores what the implementation wrote, with the bounds it declares."""
        factor = impl.factor(self.architecture.generate)
        return Teacher(self.config, self.parameters, factor, self.architecture)

    @cached_property
    def searcher(self) -> Searcher:
        return Searcher(self.config, self.parameters, self.architecture)

    def request(self, prompt: Array | None = None, **changes: Any) -> dict[str, Any]:
        """Keywords of one greedy call."""
        return {**self.plain_request(prompt), "method": "greedy", **changes}

    def plain_request(self, prompt: Array | None = None) -> dict[str, Any]:
        """What every call needs: a prompt, and how much to write."""
        given = self.prompt if prompt is None else prompt
        return {self.architecture.prompt_keyword: given, "max_len": self.limit}


@dataclass(frozen=True, kw_only=True)
class BeamCase(GenerationCase):
    """`W` hypotheses are followed and the best `K` returned."""

    kind: ClassVar[str] = "beam"
    gain: ClassVar[float] = 1.0

    W: int = 2
    K: int = 1
    alpha: float = 0.6

    def fitted(self, impl: JudgedImplementation) -> Self:
        """A beam wide enough for every output stays one."""
        case = super().fitted(impl)
        if not case.fixed or self.W <= NARROW:
            return case
        case = case.but(symbols=2, limit=min(case.limit, 3))
        return case.but(W=(case.symbols + 3) ** case.limit, K=min(case.K, outputs(case.symbols, case.limit)))

    @property
    def regimes(self) -> tuple[str, ...]:
        return (*super().regimes, f"W={min(self.W, 5)}", f"alpha={self.alpha}")

    def request(self, prompt: Array | None = None, **changes: Any) -> dict[str, Any]:
        """Keywords of one beam search."""
        asked = {"width": self.W, "num_results": self.K, "alpha": self.alpha, "method": "beam"}
        return {**self.plain_request(prompt), **asked, **changes}


@dataclass(frozen=True, kw_only=True)
class UnevenCase(BeamCase):
    """Rows that are done at different steps: tokens differ much, and a large alpha prefers what ends late."""

    kind: ClassVar[str] = "uneven"
    gain: ClassVar[float] = 3.0


@st.composite
def model_fields(draw: st.DrawFn, *, max_rows: int = 3) -> dict[str, Any]:
    """Sizes and options that every case of a small model has."""
    return {
        "B": draw(st.sampled_from([*range(1, max_rows + 1), max_rows])),
        "S": draw(st.sampled_from((1, 2, 3, 4, 5, 4, 5))),
        "D": draw(st.sampled_from((4, 8, 12))),
        "H": draw(st.sampled_from((1, 2, 4))),
        "encoders": draw(st.integers(1, 2)),
        "decoders": draw(st.integers(1, 2)),
        "norm": draw(st.sampled_from(("post", "pre"))),
        "special": draw(st.integers(0, len(SPECIALS) - 1)),
        "dtype": draw(dtypes()),
        "seed": draw(seeds()),
    }


@st.composite
def generation_cases(
    draw: st.DrawFn,
    *,
    min_rows: int = 1,
    min_limit: int = 1,
    ends: tuple[float, ...] = (0.0, 2.0, -2.0, -1e4),
) -> GenerationCase:
    """Up to four rows that end early, late or never."""
    fields = draw(model_fields(max_rows=4))
    fields["B"] = max(min_rows, fields["B"])
    return GenerationCase(
        **fields,
        symbols=draw(st.integers(2, 8)),
        limit=max(min_limit, draw(st.sampled_from((1, 2, 3, 4, 5, 6, 8, 6, 5)))),
        eos=draw(st.sampled_from(ends)),
    )


@st.composite
def beam_cases(draw: st.DrawFn, *, min_rows: int = 1, alphas: tuple[float, ...] = ALPHAS) -> BeamCase:
    """Narrow beams over vocabularies that always fill them, so that no suppressed token ever ranks."""
    width = draw(st.sampled_from((1, 2, 3, 4, 2, 3)))
    fields = draw(model_fields(max_rows=3))
    fields["B"] = max(min_rows, fields["B"])
    return BeamCase(
        **fields,
        symbols=2 * width + draw(st.integers(1, 3)),
        limit=draw(st.sampled_from((1, 2, 3, 4, 5, 6, 4, 5, 6))),
        eos=draw(st.sampled_from((0.0, 1.0, 2.0, -1.0, 1.0))),
        W=width,
        K=min(width, draw(st.sampled_from((1, 2, 3, 4, 4, 4)))),
        alpha=draw(st.sampled_from(alphas)),
    )


@st.composite
def uneven_cases(draw: st.DrawFn) -> UnevenCase:
    """Many rows and as many results as hypotheses, so that a row that collects too long shows it."""
    width = draw(st.sampled_from((3, 2, 3)))
    return UnevenCase(
        **{**draw(model_fields()), "B": draw(st.sampled_from((6, 5, 6))), "S": draw(st.integers(3, 5))},
        symbols=2 * width + draw(st.integers(2, 5)),
        limit=draw(st.sampled_from((8, 7, 8))),
        eos=draw(st.sampled_from((1.0, 2.0))),
        W=width,
        K=width,
        alpha=draw(st.sampled_from((4.0, 3.0))),
    )


def outputs(symbols: int, limit: int) -> int:
    """How many there are without a suppressed token: ended after n symbols, or cut off."""
    return sum(int(symbols**n) for n in range(limit)) + int(symbols**limit)


# 40 tokens behind a prompt of 70: beyond windows of 16, 32 and 64. With this seed the tokens keep changing.
LONG_FIELDS: dict[str, Any] = {"B": 2, "S": 70, "D": 24, "H": 4, "decoders": 2, "symbols": 20, "room": 128}
# As deep as the paper's model, with a vocabulary beyond 256 and a width that is no power of two.
DEEP_FIELDS: dict[str, Any] = {
    "B": 2, "S": 9, "D": 72, "H": 4, "encoders": 6, "decoders": 6, "symbols": 297, "room": 16
}  # fmt: skip
LONG_OUTPUT = GenerationCase(**LONG_FIELDS, norm="pre", limit=40, eos=-1e4, dtype="float64")
LONG_BEAM = BeamCase(**LONG_FIELDS, norm="pre", limit=40, eos=-1e4, W=2, K=2, dtype="float64")
# Twice the default width of four, so that a width that is ignored or capped shows.
EIGHT_WIDE = BeamCase(B=2, S=3, symbols=17, limit=5, eos=1.0, W=8, K=8, dtype="float64")
# 12 hypotheses over five tokens: the first steps cannot fill the beam, and what ends late is best.
LATE_AND_CROWDED = tuple(
    BeamCase(
        B=2, S=3, symbols=2, limit=limit, W=12, K=8, alpha=4.0, special=special, dtype="float64", seed=seed
    )
    for limit, special, seed in ((4, 1, 0), (5, 2, 1), (6, 0, 2))
)
# Five tokens, of which three are likely, and room for one or two: fewer outputs exist than are asked for.
MORE_THAN_OUTPUTS = (
    BeamCase(B=2, S=3, symbols=2, limit=1, W=8, K=8, dtype="float64", seed=3),
    BeamCase(B=1, S=2, symbols=2, limit=2, W=32, K=32, dtype="float64", seed=4),
)
# In each of these W of the first 2W - 1 continuations end at some step, which 1 of 60 drawn cases has: there
# the last of the 2W lives on.
CROWDED_ENDS = (
    BeamCase(B=2, S=3, symbols=6, eos=1.0, W=2, K=2, dtype="float64", seed=28),
    BeamCase(B=2, S=3, symbols=8, eos=1.0, W=3, K=3, dtype="float64", seed=11),
    BeamCase(B=2, S=3, symbols=8, eos=1.0, W=3, K=3, dtype="float64", seed=12),
)


@st.composite
def crowded_cases(draw: st.DrawFn) -> BeamCase:
    """Beams wider than the vocabulary and narrower than all outputs: the first step cannot fill them."""
    return BeamCase(
        **draw(model_fields(max_rows=2)),
        symbols=draw(st.integers(2, 3)),
        limit=draw(st.integers(4, 5)),
        eos=draw(st.sampled_from((0.0, 1.0))),
        W=draw(st.sampled_from((12, 16, 8))),
        K=draw(st.sampled_from((8, 4))),
        # A place without a hypothesis that counts as finished ends the search early: what is lost is long.
        alpha=draw(st.sampled_from((*ALPHAS, 3.0, 4.0, 4.0))),
    )


@st.composite
def exhaustive_cases(draw: st.DrawFn, *, alphas: tuple[float, ...] = ALPHAS) -> BeamCase:
    """W = V^limit on a tiny vocabulary; K stays among the outputs without a suppressed token."""
    symbols, limit = draw(st.sampled_from(((2, 3), (2, 2), (1, 3), (3, 2), (2, 1))))
    fields = {**draw(model_fields(max_rows=2)), "symbols": symbols, "limit": limit}
    return BeamCase(
        **fields,
        eos=draw(st.sampled_from((0.0, 1.0, -1.0))),
        W=(symbols + 3) ** limit,
        K=draw(st.integers(1, outputs(symbols, limit))),
        alpha=draw(st.sampled_from(alphas)),
    )
