"""What `attest train` teaches models with one stack: batches, what is held out, and how far is far enough.

A lesson measures a trainer on what is held out: the loss of a label, and the share that is right where an
answer is right or wrong.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

import numpy as np

from attest.boundary.training import JudgedTrainer, finite_number
from attest.contract import Architecture, Array, Config
from attest.trained import entropy, folder, grammar, sentiment
from attest.trained.tasks import PAD, Batch
from attest.trained.texts import CHARACTERS, Digits, Text, text_named
from attest.trained.words import Labelled

NEAR = 0.05  # nats of a label above what the source itself loses
ENOUGH = 0.97  # of what is held out: training stops there
SHOWN = 6
BEGUN = 7  # tokens of a held-out row that are given, BOS included
Sample = dict[str, str]


@dataclass(frozen=True)
class Measured:
    """On what is held out."""

    loss: float
    right: float | None = None

    @property
    def perplexity(self) -> float:
        """exp of the loss; of a hopeless one a large number, not inf."""
        return math.exp(min(self.loss, 50.0))

    def __str__(self) -> str:
        right = "" if self.right is None else f"  right {100 * self.right:5.1f} %"
        return f"validation {self.loss:.3f}  perplexity {self.perplexity:.2f}{right}"


class Lesson(Protocol):
    """One model and one task."""

    @property
    def name(self) -> str:
        """Of the task, as a checkpoint has it."""

    @property
    def architecture(self) -> Architecture:
        """Of the model."""

    @property
    def config(self) -> Config:
        """Of the model, before it is made to fit what an implementation claims."""

    @property
    def kept(self) -> dict[str, Any]:
        """What a checkpoint keeps of the task, so that words can be read again."""

    @property
    def beside(self) -> str:
        """What the result is compared with; empty where nothing is known."""

    @property
    def level(self) -> tuple[str, float] | None:
        """The same as a level beside the curve of the perplexity or of the share that is right."""

    def batches(self, seed: int) -> Iterator[Batch]:
        """Endless batches of the training part."""

    def measured(self, trainer: JudgedTrainer) -> Measured:
        """How good the model is on what is held out."""

    def enough(self, measured: Measured) -> bool:
        """Whether training may stop."""

    def met(self, measured: Measured) -> bool:
        """Whether the goal is reached."""

    def samples(self, trainer: JudgedTrainer) -> list[Sample]:
        """A few answers to what is held out."""

    def next_command(self, directory: Path) -> str:
        """How to use what was trained."""


def evaluated(trainer: JudgedTrainer, batches: list[Batch]) -> float:
    """The loss of a label."""
    return finite_number(trainer.evaluate(batches)["loss"], "the validation loss")


def logits_of(trainer: JudgedTrainer, batch: Batch) -> Array:
    """In evaluation mode."""
    trainer.model.eval()
    return trainer.model(**trainer.architecture.inputs(batch))["logits"]


@dataclass(frozen=True)
class Writing:
    """A language model and a text."""

    text: Text

    @property
    def name(self) -> str:
        return self.text.name

    @property
    def architecture(self) -> Architecture:
        return entropy.EntropySource.architecture

    @property
    def config(self) -> Config:
        return self.text.config

    @property
    def kept(self) -> dict[str, Any]:
        return {"alphabet": getattr(self.text, "alphabet", "")}

    @property
    def ideal(self) -> float | None:
        """What the source itself loses, where that is known."""
        return self.text.ideal if isinstance(self.text, Digits) else None

    @property
    def beside(self) -> str:
        return "" if self.ideal is None else f"the source itself loses {self.ideal:.4f}"

    @property
    def level(self) -> tuple[str, float] | None:
        return None if self.ideal is None else ("of the source", math.exp(self.ideal))

    def batches(self, seed: int) -> Iterator[Batch]:
        return self.text.batches(seed)

    def measured(self, trainer: JudgedTrainer) -> Measured:
        return Measured(evaluated(trainer, [self.text.validation()]))

    def enough(self, measured: Measured) -> bool:
        return self.ideal is not None and measured.loss <= self.ideal + NEAR / 5

    def met(self, measured: Measured) -> bool:
        return self.ideal is None or measured.loss <= self.ideal + NEAR

    def samples(self, trainer: JudgedTrainer) -> list[Sample]:
        """What an implementation writes behind the beginnings of held-out rows, where it completes."""
        if not trainer.impl.offers(self.architecture.generate):
            return []
        rows = self.text.validation()[self.architecture.written]
        begun, length = rows[:: max(1, len(rows) // 4)][:4, :BEGUN], rows.shape[1] - BEGUN
        writer = trainer.impl.build(self.architecture.generate, trainer.config)
        writer.load(trainer.parameters())
        tokens = writer(prompt=begun, max_len=length, method="greedy")["tokens"][:, 0]
        return [{"input": self.text.words(a), "output": self.text.words(b)} for a, b in zip(begun, tokens)]

    def next_command(self, directory: Path) -> str:
        prompt = "3 1 4" if isinstance(self.text, Digits) else self.beginning
        return f"attest complete --checkpoint {directory} {prompt!r}"

    @property
    def beginning(self) -> str:
        """Some words of the text, on one line."""
        row = self.text.validation()[self.architecture.written][0]
        return " ".join(self.text.words(row[1:]).split()[:3])[: BEGUN * 4]


@dataclass(frozen=True)
class FillingIn:
    """A masked language model and the grammar."""

    source: grammar.Grammar = field(default_factory=grammar.Grammar)
    config: Config = grammar.TRAINING
    kept: dict[str, Any] = field(default_factory=dict)
    beside: str = f"from one side {grammar.BY_CHANCE:.1%} can be known"
    level: tuple[str, float] = ("from one side", grammar.BY_CHANCE)
    goal: float = 0.9

    @property
    def name(self) -> str:
        return self.source.name

    @property
    def architecture(self) -> Architecture:
        return self.source.architecture

    def batches(self, seed: int) -> Iterator[Batch]:
        return self.source.batches("train", seed)

    def asked(self) -> Batch:
        """Held-out sentences with symbols hidden."""
        return self.source.asked(self.source.held_out(256))

    def measured(self, trainer: JudgedTrainer) -> Measured:
        asked = self.asked()
        return Measured(evaluated(trainer, [asked]), grammar.accuracy(logits_of(trainer, asked), asked))

    def enough(self, measured: Measured) -> bool:
        return (measured.right or 0.0) >= ENOUGH

    def met(self, measured: Measured) -> bool:
        return (measured.right or 0.0) > self.goal

    def samples(self, trainer: JudgedTrainer) -> list[Sample]:
        asked, wanted = self.asked(), self.source.held_out(SHOWN)
        said = np.where(asked["labels"] == PAD, asked["ids"], logits_of(trainer, asked).argmax(-1))
        rows = list(zip(asked["ids"], said, wanted))[:SHOWN]
        return [dict(zip(("input", "output", "wanted"), map(grammar.words, row))) for row in rows]

    def next_command(self, directory: Path) -> str:
        return f"attest fill --checkpoint {directory} 'ab _ ca'"


@dataclass(frozen=True)
class Sorting:
    """A classifier and texts in classes: those of the grammar, or those of a folder."""

    task: Labelled
    goal: float  # of what is held out

    @property
    def name(self) -> str:
        return self.task.name

    @property
    def architecture(self) -> Architecture:
        return self.task.architecture

    @property
    def config(self) -> Config:
        if self.task.name == sentiment.NAME:
            return sentiment.TRAINING.but(source_vocab=self.task.size)
        return sentiment.TRAINING.but(
            d_model=64,
            d_ff=128,
            num_heads=4,
            source_vocab=self.task.size,
            max_len=self.task.longest,
            dropout=0.2,
        )

    @property
    def kept(self) -> dict[str, Any]:
        return {"vocabulary": list(self.task.vocabulary), "classes": list(self.task.classes),
                "longest": self.task.longest, "majority": self.task.majority}  # fmt: skip

    @property
    def beside(self) -> str:
        return f"always to say the commonest class is right about {self.task.majority:.1%}"

    @property
    def level(self) -> tuple[str, float]:
        return "always the commonest class", self.task.majority

    def batches(self, seed: int) -> Iterator[Batch]:
        return self.task.batches(seed)

    def measured(self, trainer: JudgedTrainer) -> Measured:
        batches = self.task.held_out()
        right = [logits_of(trainer, batch).argmax(-1) == batch["labels"] for batch in batches]
        return Measured(evaluated(trainer, batches), float(np.concatenate(right).mean()))

    def enough(self, measured: Measured) -> bool:
        return self.task.name == sentiment.NAME and (measured.right or 0.0) >= ENOUGH

    def met(self, measured: Measured) -> bool:
        return (measured.right or 0.0) > self.goal

    def samples(self, trainer: JudgedTrainer) -> list[Sample]:
        shown = self.task.validation[:: max(1, len(self.task.validation) // SHOWN)][:SHOWN]
        said = logits_of(trainer, self.task.batch(shown)).argmax(-1)
        return [
            {
                "input": " ".join(words[:30]),
                "output": self.task.classes[int(i)],
                "wanted": self.task.classes[label],
            }
            for (words, label), i in zip(shown, said)
        ]

    def next_command(self, directory: Path) -> str:
        example = " ".join(self.task.validation[0][0][:12])
        return f"attest classify --checkpoint {directory} {example!r}"


KINDS = {  # of models: the tasks that teach them, the first one unless another is named
    "gpt": (entropy.NAME, "a text file"),
    "bert": (grammar.NAME,),
    "classifier": (sentiment.NAME, "--data DIR"),
}


def lesson_of(model: str, task: str | None, data: str | None) -> Lesson:
    """ValueError for a pair of model and task that does not go together."""
    if data is not None and (model != "classifier" or task is not None):
        with_what = f"model={model}" if model != "classifier" else f"task={task!r}"
        raise ValueError(f"data={data!r} does not go with {with_what}; use it with --model classifier alone")
    task = KINDS[model][0] if task is None else task
    own = [kind for kind, tasks in KINDS.items() if task in tasks]
    if own and own != [model]:
        raise ValueError(
            f"task={task!r} is for --model {own[0]}; for {model} use {' or '.join(KINDS[model])}"
        )
    if model == "gpt":
        return Writing(text_named(task))
    if not own:
        raise ValueError(f"task={task!r} is unknown for --model {model}; use {' or '.join(KINDS[model])}")
    if model == "bert":
        return FillingIn()
    if data is None:
        return Sorting(sentiment.sentiment(), goal=0.8)
    held = folder.folder_of_texts(Path(data))
    return Sorting(held, goal=held.majority)


def command_for(task: str) -> str:
    """What uses a model that was trained on a task."""
    uses = {entropy.NAME: "complete", CHARACTERS: "complete", grammar.NAME: "fill"}
    uses |= dict.fromkeys((sentiment.NAME, folder.NAME), "classify")
    return f"attest {uses.get(task, 'generate')}"
