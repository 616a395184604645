"""Text that a language model is trained on: the source of known entropy, or the characters of a file.

Shapes: ids (B, T), the first of each row BOS.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any, Protocol

import numpy as np

from attest.contract import DECODER_ONLY, Architecture, Array, Config
from attest.trained import entropy
from attest.trained.tasks import BATCH, BOS, EOS, Batch, Ids

CHARACTERS = "characters"
TEXTS = (entropy.NAME, CHARACTERS)
WINDOW = 64  # characters of a row
LEAST, MOST = 2 * WINDOW, 2**26  # characters of a file
HELD_OUT = 64


class Text(Protocol):
    """What training and completion need to know of a text."""

    @property
    def name(self) -> str:
        """As a checkpoint names it."""

    @property
    def config(self) -> Config:
        """Of the model that learns it."""

    def batches(self, seed: int) -> Iterator[Batch]:
        """Endless batches of the training part."""

    def validation(self) -> Batch:
        """What is held out."""

    def ids_of(self, words: str) -> Ids:
        """A prompt as ids; ValueError where a word is unknown."""

    def words(self, ids: Sequence[int]) -> str:
        """The inverse, for people."""


@dataclass(frozen=True)
class Digits:
    """The source of known entropy, its symbols as digits."""

    source: entropy.EntropySource = field(default_factory=entropy.EntropySource)
    name: str = entropy.NAME

    @property
    def config(self) -> Config:
        """With room for what `attest complete` may be asked for."""
        return entropy.TRAINING.but(max_len=256)

    def batches(self, seed: int) -> Iterator[Batch]:
        return self.source.batches("train", seed)

    @cached_property
    def held_out(self) -> list[Ids]:
        return self.source.held_out(HELD_OUT)

    def validation(self) -> Batch:
        return self.source.batch(self.held_out)

    @property
    def ideal(self) -> float:
        """What the source itself loses on what is held out."""
        return self.source.ideal_loss(self.held_out)

    def ids_of(self, words: str) -> Ids:
        parts = words.replace(",", " ").split()
        for part in parts:
            if not (part.isascii() and part.isdigit() and int(part) < entropy.SYMBOLS):
                raise ValueError(f"symbol={part!r} is unknown; write digits from 0 to {entropy.SYMBOLS - 1}")
        return tuple(int(part) + 3 for part in parts)

    def words(self, ids: Sequence[int]) -> str:
        return " ".join(str(int(i) - 3) for i in ids if i > EOS)


@dataclass(frozen=True)
class Characters:
    """Windows of a text, of which the last tenth is held out; each character is an id."""

    alphabet: str
    text: str = ""
    name: str = CHARACTERS
    architecture: Architecture = DECODER_ONLY

    @classmethod
    def of_file(cls, path: Path) -> Characters:
        """ValueError where the file holds too little or no text."""
        try:
            text = path.read_bytes()[: MOST + 1].decode("utf-8")
        except (OSError, UnicodeDecodeError) as error:
            raise ValueError(f"task={str(path)!r} is no text file ({type(error).__name__})") from None
        if not LEAST <= len(text) <= MOST:
            raise ValueError(f"task={str(path)!r} has {len(text)} characters; give {LEAST} to {MOST}")
        return cls("".join(sorted(set(text))), text)

    @property
    def config(self) -> Config:
        """Pre-norm, so that it also learns without a long warm-up."""
        vocabulary = len(self.alphabet) + 3
        return entropy.TRAINING.but(
            d_model=64, d_ff=256, num_heads=4, target_vocab=vocabulary, source_vocab=vocabulary,
            max_len=512, norm="pre", dropout=0.1,
        )  # fmt: skip

    @cached_property
    def encoded(self) -> Array:
        """(n,): the whole text."""
        places = {character: i + 3 for i, character in enumerate(self.alphabet)}
        return np.array([places[character] for character in self.text], np.int64)

    @property
    def cut(self) -> int:
        """Where the held-out tenth begins."""
        return max(WINDOW, len(self.text) * 9 // 10)

    def rows(self, part: Array, starts: Array) -> Batch:
        """Windows behind BOS."""
        windows = part[starts[:, None] + np.arange(min(WINDOW, len(part)))]
        return {self.architecture.written: np.pad(windows, ((0, 0), (1, 0)), constant_values=BOS)}

    def batches(self, seed: int) -> Iterator[Batch]:
        rng, part = np.random.default_rng(seed), self.encoded[: self.cut]
        while True:
            yield self.rows(part, rng.integers(0, max(1, len(part) - WINDOW), BATCH // 4))

    def validation(self) -> Batch:
        part = self.encoded[self.cut :]
        last = max(1, len(part) - WINDOW)
        return self.rows(part, np.linspace(0, last - 1, min(HELD_OUT, last)).astype(np.int64))

    def ids_of(self, words: str) -> Ids:
        for character in words:
            if character not in self.alphabet:
                raise ValueError(f"character={character!r} is unknown; write what the training text has")
        return tuple(self.alphabet.index(character) + 3 for character in words)

    def words(self, ids: Sequence[int]) -> str:
        return "".join(self.alphabet[int(i) - 3] for i in ids if i > EOS)


def text_named(task: str) -> Text:
    """The text of a task: entropy, or a file; ValueError where it is neither."""
    if task == entropy.NAME:
        return Digits()
    if not Path(task).is_file():
        raise ValueError(f"task={task!r} is unknown for --model gpt; use {entropy.NAME} or a text file")
    return Characters.of_file(Path(task))


def recalled_text(task: str, history: dict[str, Any]) -> Text:
    """The text of a checkpoint; ValueError where it is of another kind of model."""
    if task == entropy.NAME:
        return Digits()
    alphabet = history.get("alphabet")
    if task != CHARACTERS or not isinstance(alphabet, str):
        raise ValueError(f"task={task!r} is not that of a language model")
    return Characters(alphabet)
