"""What is timed: inputs and the amount of work of each workload."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from attest.bench.shapes import BASE, FIRST_WORD, SMALL_TEXT, TASK, TEXT, AnyShape, Shape, TextShape
from attest.contract import Array
from attest.registry import UsageError
from attest.spelling import nearest


@dataclass(frozen=True, kw_only=True)
class Workload:
    """One thing to do: `kind` says what, `tokens` how many come out per row."""

    name: str
    kind: str  # train, encode, greedy or beam of an encoder-decoder; complete of a decoder-only model
    shape: AnyShape
    B: int
    tokens: int
    length: int  # of the source, or of the prompt that is completed
    width: int = 1

    @property
    def units(self) -> int:
        """Tokens that one run handles: those that come out, or the prompt where just one does."""
        return self.B * (self.length if self.prefill else self.tokens)

    @property
    def prefill(self) -> bool:
        """Whether reading the prompt is what is timed."""
        return self.kind == "complete" and self.tokens == 1

    @property
    def about(self) -> str:
        rows = f"{self.B} row{'s' * (self.B > 1)}"
        beam = f", width {self.width}" if self.kind == "beam" else ""
        model = ", the model of M5.4" if self.shape is TASK else ""
        prompt = f" after a prompt of {self.length}" if self.kind == "complete" else ""
        each = "the first token" if self.prefill else f"{self.tokens} tokens"
        return f"{self.kind}{beam}, {rows}, {each} each{prompt}{model}"

    @cached_property
    def given(self) -> Array:
        """(B, length): the source, or the prompt."""
        return self.ids(self.length, seed=0)

    @cached_property
    def batch(self) -> dict[str, Array]:
        """For training: BOS, tokens, EOS, without padding."""
        target = self.ids(self.tokens + 1, seed=1)
        target[:, 0], target[:, -1] = self.shape.config.bos_id, self.shape.config.eos_id
        return {"source": self.given, "target": target}

    def ids(self, length: int, seed: int) -> Array:
        return np.random.default_rng(seed).integers(FIRST_WORD, self.shape.vocab, (self.B, length))


def workloads(shape: Shape) -> list[Workload]:
    """Every workload, at full length or short enough for a test."""
    short, long = (100, 500) if shape is BASE else (10, 20)
    text = TEXT if shape is BASE else SMALL_TEXT
    return [
        _work("train", "train", shape, 16, shape.source),
        _work("train_task", "train", TASK, 64, TASK.source + 1),
        _work("encode", "encode", shape, 16, shape.source),
        _work("greedy_1", "greedy", shape, 1, short),
        _work("greedy_16", "greedy", shape, 16, short),
        _work("beam_4", "beam", shape, 1, short, width=4),
        _work("long_cache", "greedy", shape, 1, long),
        _completing("complete_1", text, 1, text.prompt, short),
        _completing("complete_16", text, 16, text.prompt, short),
        _completing("prefill", text, 1, text.long_prompt, 1),
    ]


def _work(name: str, kind: str, shape: Shape, B: int, tokens: int, width: int = 1) -> Workload:
    return Workload(name=name, kind=kind, shape=shape, B=B, length=shape.source, tokens=tokens, width=width)


def _completing(name: str, shape: TextShape, B: int, prompt: int, tokens: int) -> Workload:
    return Workload(name=name, kind="complete", shape=shape, B=B, length=prompt, tokens=tokens)


def chosen(shape: Shape, names: Iterable[str]) -> list[Workload]:
    """The workloads of these names, all where none is named; UsageError for an unknown name."""
    known = {work.name: work for work in workloads(shape)}
    wanted = list(names) or list(known)
    for name in wanted:
        if name not in known:
            raise UsageError(f"--workload={name} is unknown; {nearest(name, known)}")
    return [known[name] for name in known if name in wanted]
