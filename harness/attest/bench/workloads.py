"""What is timed: sizes, inputs and the amount of work of each workload.

Shapes: B batch, S source length, T target length, V vocabulary.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from attest.contract import Array, Config
from attest.registry import UsageError
from attest.spelling import nearest

NEVER = -1e4  # projection bias of a token that must not be chosen
FIRST_WORD = 3  # below stand padding, BOS and EOS


@dataclass(frozen=True, kw_only=True)
class Shape:
    """The sizes of the model, in the words of the config."""

    name: str
    vocab: int
    d_model: int
    num_heads: int
    layers: int
    d_ff: int
    source: int
    max_len: int

    @cached_property
    def config(self) -> Config:
        return Config(
            d_model=self.d_model,
            num_heads=self.num_heads,
            d_ff=self.d_ff,
            num_encoder_layers=self.layers,
            num_decoder_layers=self.layers,
            source_vocab=self.vocab,
            target_vocab=self.vocab,
            max_len=self.max_len,
        )

    @property
    def bytes_per_token(self) -> int:
        """Weights that a cached step of one row must read: the decoder and the projection, in float32."""
        d = self.d_model
        layer = 6 * d * d + 2 * d * self.d_ff  # keys and values of the memory are there already
        return 4 * (self.layers * layer + d * self.vocab)


BASE = Shape(name="base", vocab=8000, d_model=512, num_heads=8, layers=6, d_ff=2048, source=32, max_len=512)
SMALL = Shape(name="small", vocab=50, d_model=32, num_heads=4, layers=1, d_ff=64, source=6, max_len=64)
# The model and the lengths of M5.4, the task on which implementations are trained; the same in every run.
TASK = Shape(name="task", vocab=13, d_model=64, num_heads=4, layers=2, d_ff=256, source=8, max_len=64)


@dataclass(frozen=True, kw_only=True)
class Workload:
    """One thing to do: `kind` says what, `tokens` how many come out per row."""

    name: str
    kind: str  # train, encode, greedy or beam
    shape: Shape
    B: int
    tokens: int
    width: int = 1

    @property
    def units(self) -> int:
        """Tokens that one run handles."""
        return self.B * self.tokens

    @property
    def about(self) -> str:
        rows = f"{self.B} row{'s' * (self.B > 1)}"
        beam = f", width {self.width}" if self.kind == "beam" else ""
        model = ", the model of M5.4" if self.shape is TASK else ""
        return f"{self.kind}{beam}, {rows}, {self.tokens} tokens each{model}"

    @cached_property
    def source(self) -> Array:
        return self.ids(self.shape.source, seed=0)

    @cached_property
    def batch(self) -> dict[str, Array]:
        """For training: BOS, tokens, EOS, without padding."""
        target = self.ids(self.tokens + 1, seed=1)
        target[:, 0], target[:, -1] = self.shape.config.bos_id, self.shape.config.eos_id
        return {"source": self.source, "target": target}

    def ids(self, length: int, seed: int) -> Array:
        return np.random.default_rng(seed).integers(FIRST_WORD, self.shape.vocab, (self.B, length))


def workloads(shape: Shape) -> list[Workload]:
    """Every workload, at full length or short enough for a test."""
    short, long = (100, 500) if shape is BASE else (10, 20)
    return [
        Workload(name="train", kind="train", shape=shape, B=16, tokens=shape.source),
        Workload(name="train_task", kind="train", shape=TASK, B=64, tokens=TASK.source + 1),
        Workload(name="encode", kind="encode", shape=shape, B=16, tokens=shape.source),
        Workload(name="greedy_1", kind="greedy", shape=shape, B=1, tokens=short),
        Workload(name="greedy_16", kind="greedy", shape=shape, B=16, tokens=short),
        Workload(name="beam_4", kind="beam", shape=shape, B=1, tokens=short, width=4),
        Workload(name="long_cache", kind="greedy", shape=shape, B=1, tokens=long),
    ]


def chosen(shape: Shape, names: Iterable[str]) -> list[Workload]:
    """The workloads of these names, all where none is named; UsageError for an unknown name."""
    known = {work.name: work for work in workloads(shape)}
    wanted = list(names) or list(known)
    for name in wanted:
        if name not in known:
            raise UsageError(f"--workload={name} is unknown; {nearest(name, known)}")
    return [known[name] for name in known if name in wanted]
