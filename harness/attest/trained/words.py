"""Texts of words in classes: an own vocabulary with a token for unknown words, and batches for a classifier.

Shapes: ids (B, longest of the batch), padded on the right; labels (B,).
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from attest.contract import CLASSIFYING, Architecture, Array
from attest.trained.tasks import BATCH, PAD, Batch, Ids

UNKNOWN = 4  # the first id behind PAD, BOS, EOS and the mask
FIRST = UNKNOWN + 1
LONGEST_WORD = 24  # characters that are kept of a word
WORD = re.compile(r"[^\W_]+(?:'[^\W_]+)*")
Example = tuple[tuple[str, ...], int]  # words and class


def words_of(text: str) -> tuple[str, ...]:
    """Runs of letters and digits in lower case, an apostrophe inside kept: "Don't!" is don't."""
    return tuple(word[:LONGEST_WORD] for word in WORD.findall(text.lower()))


def vocabulary_of(examples: Iterable[Example], most: int) -> tuple[str, ...]:
    """The commonest words, ties in the order of the alphabet."""
    counts = Counter(word for words, _ in examples for word in words)
    return tuple(sorted(counts, key=lambda word: (-counts[word], word))[:most])


@dataclass(frozen=True)
class Labelled:
    """Texts in classes, some of them held out."""

    name: str
    classes: tuple[str, ...]
    vocabulary: tuple[str, ...]
    train: tuple[Example, ...] = ()
    validation: tuple[Example, ...] = ()
    longest: int = 64  # words of a text that are read: the first ones
    architecture: Architecture = CLASSIFYING

    @cached_property
    def ids(self) -> dict[str, int]:
        """Each known word."""
        return {word: FIRST + i for i, word in enumerate(self.vocabulary)}

    @property
    def size(self) -> int:
        """Of the vocabulary, special ids and the unknown word included."""
        return FIRST + len(self.vocabulary)

    def encoded(self, words: Sequence[str]) -> Ids:
        """Ids of the first words; of none that of the unknown word, for a row has a token."""
        return tuple(self.ids.get(word, UNKNOWN) for word in words[: self.longest]) or (UNKNOWN,)

    def rows(self, texts: Sequence[Sequence[str]]) -> Array:
        """(B, longest of them): padded on the right."""
        rows = [self.encoded(words) for words in texts]
        ids = np.full((len(rows), max(map(len, rows))), PAD, np.int64)
        for row, own in zip(ids, rows):
            row[: len(own)] = own
        return ids

    def batch(self, examples: Sequence[Example]) -> Batch:
        """Texts and their classes."""
        labels = np.array([label for _, label in examples], np.int64)
        return {self.architecture.written: self.rows([words for words, _ in examples]), "labels": labels}

    def batches(self, seed: int, *, size: int = BATCH) -> Iterator[Batch]:
        """Endless: every training text once before any of them again, in an order that the seed draws."""
        rng = np.random.default_rng(seed)
        while True:
            order = rng.permutation(len(self.train))
            for start in range(0, len(order), size):
                yield self.batch([self.train[i] for i in order[start : start + size]])

    def held_out(self, size: int = BATCH) -> list[Batch]:
        """What is held out, in batches."""
        return [self.batch(self.validation[i : i + size]) for i in range(0, len(self.validation), size)]

    @property
    def majority(self) -> float:
        """How often the commonest class is right about what is held out: the best that one answer can be."""
        return max(Counter(label for _, label in self.validation).values()) / len(self.validation)


def recalled_texts(task: str, history: dict[str, Any]) -> Labelled:
    """The task of a checkpoint without its texts; ValueError where something is missing."""
    words, classes, longest = (history.get(name) for name in ("vocabulary", "classes", "longest"))
    named = all(
        isinstance(given, list) and all(isinstance(w, str) for w in given) for given in (words, classes)
    )
    if not named or not isinstance(longest, int) or longest < 1:
        raise ValueError(f"task={task!r} of the checkpoint has no vocabulary and classes; train again")
    return Labelled(task, tuple(classes or ()), tuple(words or ()), longest=longest)
