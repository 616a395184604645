"""Cases of training: a small model, a few different batches, and what the steps should do.

Shapes: the written stream (B, T) = BOS ... EOS pad, others (B, S); B, S and T differ from batch to batch.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar, Self

import numpy as np
from hypothesis import strategies as st

from attest.boundary import JudgedImplementation
from attest.boundary.training import JudgedTrainer
from attest.contract import Array, Config
from attest.contract.architectures import GIVEN, SHIFTED
from attest.judging.architectures import ArchitectureCase
from attest.judging.cases import seeds
from attest.judging.options import takes
from attest.milestones.m05_training.cases.labelled import labelled, with_one_label
from attest.milestones.m05_training.cases.model import padded_on_the_right, words_of
from attest.reference.oracle import random_parameters
from attest.reference.training.shadow import Shadow

NUM_CLASSES = 3  # of a classifier; among them are numbers of special ids, which count as any other class
SPECIALS = ((0, 1, 2), (2, 0, 3), (1, 3, 0), (5, 4, 3))  # pad, BOS, EOS
# Tried until gradients of the batches lie on both sides of the limit 1.0: clipping must act on some steps and
# leave others alone.
GAINS = (0.1, 0.4, 1.0, 2.5)


@dataclass(frozen=True, kw_only=True)
class TrainingCase(ArchitectureCase):
    """`clip`: one (norm 1.0, with a gain of the last layers that puts gradients on both sides of it), middle
    (a limit between the norms of the batches) or low (a tenth of it: parts of a batch are above it too).
    """

    kind: ClassVar[str] = "training"
    own_options: ClassVar[Mapping[str, str]] = {"norm": "norm", "tie": "tie"}
    widens: ClassVar[str] = "d_k"

    steps: int = 4
    rows: int = 4  # of the large batches
    few: int = 1  # of the small ones
    H: int = 2
    d_k: int = 4
    layers: int = 1
    vocab: int = 9
    special: int = 0
    room: int = 32
    norm: str = "post"
    tie: bool = False
    smoothing: float = 0.0
    dropout: float = 0.0
    schedule: str = "inverse_sqrt"
    warmup: int = 3
    clip: str = "middle"

    def fitted(self, impl: JudgedImplementation) -> Self:
        case = super().fitted(impl)
        case = case.but(few=case.least)
        if case.fixed:
            fixed: dict[str, Any] = {"H": 2, "d_k": 16, "layers": 1, "vocab": 11, "room": 128, "rows": 4}
            fixed |= {
                "special": 0,
                "norm": "post",
                "warmup": 3,
                "clip": "one",
                "dropout": 0.3 if case.dropout else 0.0,
            }
            case = case.but(**fixed, seed=case.seed % 3, dtype=impl.sharpest)
        return case.offered(impl)

    def offered(self, impl: JudgedImplementation) -> Self:
        """The case, or one with the other norm where only that can be trained."""
        if self.architecture.optional:
            return self  # its options are claimed
        sample = TrainingCase(norm=self.norm, tie=self.tie, dtype=self.dtype).plain
        other, trainer = "pre" if self.norm == "post" else "post", self.architecture.trainer
        missing = not takes(impl, trainer, sample) and takes(impl, trainer, sample.but(norm=other))
        return self.but(norm=other) if missing else self

    @property
    def regimes(self) -> tuple[str, ...]:
        return (*super().regimes, self.norm, self.schedule, f"clip {self.clip}")

    @property
    def single(self) -> dict[str, Array]:
        """The first row of the first batch, with one label."""
        if self.architecture.labels != SHIFTED:
            return with_one_label(self.batches[0], self.pad_id)
        written = self.architecture.written
        return {n: x[:1, :2] if n == written else x[:1] for n, x in self.batches[0].items()}

    @property
    def one_position(self) -> dict[str, Array]:
        """A batch of one row that is asked for one thing: of every stream one id is read."""
        word = words_of(self.rng(5), 1, 1, self.vocab, SPECIALS[self.special])
        if self.architecture.labels == SHIFTED:
            return self.asking_for(word, np.array([[self.bos_id, self.eos_id]]))
        labels = word if self.architecture.labels == GIVEN else word[:, 0] % NUM_CLASSES
        return {self.architecture.written: word, "labels": labels}

    @property
    def pad_id(self) -> int:
        return SPECIALS[self.special][0]

    @property
    def bos_id(self) -> int:
        return SPECIALS[self.special][1]

    @property
    def eos_id(self) -> int:
        return SPECIALS[self.special][2]

    @property
    def wanted(self) -> dict[str, Any]:
        return {"tie": self.tie}

    @property
    def plain(self) -> Config:
        """The config with the default limit of 1.0."""
        return self.with_options(self.sized)

    @property
    def chosen_config(self) -> Config:
        return self.plain

    @property
    def sized(self) -> Config:
        """The config without the options that were picked."""
        return Config(
            d_model=self.H * self.d_k,
            num_heads=self.H,
            d_ff=2 * self.H * self.d_k,
            num_encoder_layers=self.layers,
            num_decoder_layers=self.layers,
            source_vocab=self.vocab,
            target_vocab=self.vocab,
            num_classes=NUM_CLASSES,
            max_len=self.room,
            dropout=self.dropout,
            norm=self.norm,
            tie=self.tie,
            pad_id=self.pad_id,
            bos_id=self.bos_id,
            eos_id=self.eos_id,
            label_smoothing=self.smoothing,
            schedule=self.schedule,
            warmup=self.warmup,
            peak_rate=0.02,
            floor_rate=0.001,
            total_steps=self.warmup + 4,
            dtype=self.dtype,
            seed=self.seed,
        )

    @cached_property
    def config(self) -> Config:
        if self.clip == "one":
            return self.plain
        middle = _middle([self._norm(self.parameters, batch) for batch in self.batches[:6]])
        limit = middle / 10 if self.clip == "low" else middle
        return self.plain.but(clip_norm=float(f"{limit:.3g}"))

    @cached_property
    def parameters(self) -> dict[str, Array]:
        """Random ones; with clip one, the last layers times a gain that puts the norms around 1."""
        drawn = random_parameters(self.architecture.operation, self.plain, self.rng(1))
        if self.clip != "one" or self.tie:
            return drawn
        logs = np.log([self._typical_norm(self._with_gain(drawn, gain)) for gain in GAINS])
        return self._with_gain(drawn, float(np.exp(np.interp(0.0, logs, np.log(GAINS)))))

    def _with_gain(self, drawn: dict[str, Array], gain: float) -> dict[str, Array]:
        last = self.architecture.last_norm(self.plain)
        loud = (f"{last}.weight", f"{last}.bias", f"{self.architecture.projection}.weight")
        return {name: (gain * x).astype(x.dtype) if name in loud else x for name, x in drawn.items()}

    def _typical_norm(self, parameters: dict[str, Array]) -> float:
        return _middle([self._norm(parameters, batch) for batch in self.batches[:2]])

    def _norm(self, parameters: dict[str, Array], batch: dict[str, Array]) -> float:
        return Shadow(self.plain, self.architecture).gradient_norm(parameters, batch)

    def shadow(self) -> Shadow:
        """What walks beside a trainer of this case."""
        return Shadow(self.config, self.architecture)

    def trainer(
        self, impl: JudgedImplementation, parameters: dict[str, Array] | None = None, **changes: Any
    ) -> JudgedTrainer:
        """A fresh trainer with these parameters, or those it starts from; `changes` are of the config."""
        return JudgedTrainer(impl, self.config.but(**changes), parameters, self.architecture)

    @cached_property
    def batches(self) -> list[dict[str, Array]]:
        """Small and large in turn: a gradient averaged over few tokens is long."""
        return [self._batch(i, self.rows if i % 2 else self.few) for i in range(self.steps)]

    def _batch(self, i: int, rows: int) -> dict[str, Array]:
        rng = self.rng(2, i)
        if self.architecture.labels != SHIFTED:
            words, others = (words_of(rng, rows, 2 + i % 4, self.vocab, SPECIALS[self.special]) for _ in "ab")
            ids = padded_on_the_right(rng, words, self.pad_id)
            return labelled(rng, ids, others, self.architecture, self.plain)
        made = {}
        for stream in self.architecture.streams:
            written = stream == self.architecture.written
            length = (2, 5, 3, 4)[i % 4] if written else 2 + i % 4
            words = words_of(rng, rows, length, self.vocab, SPECIALS[self.special])
            ids = padded_on_the_right(rng, words, self.pad_id)
            made[stream] = self.framed(ids) if written else ids
        return made

    def framed(self, content: Array) -> Array:
        """(B, n + 2): BOS, the ids of each row, EOS behind them, then padding."""
        written = np.pad(content, ((0, 0), (1, 1)), constant_values=self.pad_id)
        written[:, 0] = self.bos_id
        written[np.arange(len(content)), (content != self.pad_id).sum(1) + 1] = self.eos_id
        return written

    def joined(self, batches: list[dict[str, Array]]) -> dict[str, Array]:
        """One batch from several, padded to the longest."""
        return {name: self._stacked([batch[name] for batch in batches]) for name in batches[0]}

    def _stacked(self, parts: list[Array]) -> Array:
        width = max(part.shape[-1] for part in parts)
        return np.concatenate([self.longer(part, width - part.shape[-1]) for part in parts])

    def longer(self, ids: Array, columns: int) -> Array:
        """With so many more columns of padding; classes of rows have no columns."""
        if ids.ndim == 1:
            return ids
        return np.pad(ids, ((0, 0), (0, columns)), constant_values=self.pad_id)

    def asking_for(self, prompt: Array, written: Array) -> dict[str, Array]:
        """A batch of these ids; the prompt is left out where the model has no stream for it."""
        return self.architecture.reading(prompt, written)


def _middle(norms: list[float]) -> float:
    """Between the norms of the small and those of the large batches."""
    ranked = sorted(norms)
    half = max(len(ranked) // 2, 1)
    return math.sqrt(ranked[half - 1] * ranked[min(half, len(ranked) - 1)])


# 40 steps, of which every second is clipped. The rate stays small, so that the norms stay on both sides.
LONG_RUN = TrainingCase(steps=40, rows=3, d_k=3, vocab=7, special=3, warmup=400, dtype="float64", seed=1)


@st.composite
def training_cases(
    draw: st.DrawFn,
    *,
    steps: int = 4,
    dropout: float = 0.0,
    smoothing: tuple[float, ...] = (0.0, 0.1),
    clips: tuple[str, ...] = ("one", "middle"),
    tie: bool = False,
    schedules: tuple[str, ...] = ("inverse_sqrt",),
) -> TrainingCase:
    """Both norms, float64 more often than not: it is the sharp judge."""
    return TrainingCase(
        steps=steps,
        rows=draw(st.integers(3, 6)),
        H=draw(st.integers(1, 2)),
        d_k=draw(st.integers(3, 5)),
        layers=draw(st.integers(1, 2)),
        # The special ids go up to 5, and at least one ordinary id must be left.
        vocab=draw(st.integers(7, 10)),
        special=draw(st.integers(0, len(SPECIALS) - 1)),
        norm=draw(st.sampled_from(("post", "pre"))),
        tie=tie,
        smoothing=draw(st.sampled_from(smoothing)),
        dropout=dropout,
        schedule=draw(st.sampled_from(schedules)),
        warmup=draw(st.integers(2, 40)),
        clip=draw(st.sampled_from(clips)),
        dtype=draw(st.sampled_from(("float64", "float64", "float32"))),
        seed=draw(seeds()),
    )
