"""Before and after the model: words to ids and back, examples to splits, answers to a confusion matrix.

Shapes: T tokens, N examples of L ids each, C classes.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from attest.contract.vocabulary import TOKENS
from attest.reference.parts.part import Part, function
from attest.reference.tape import Array
from attest.reference.validation import check_size

if TYPE_CHECKING:
    from attest.reference.assembly import Parts

TRAIN, VALIDATION, TEST = range(3)
TENTHS = {TEST: 1, VALIDATION: 1}  # of the examples; the rest is for training


class Data(Part):
    """Three pieces that have nothing to learn and are wrong in silence."""

    tokens = TOKENS

    def words(self, text: str) -> list[str]:
        """Between spaces."""
        return text.split()

    def id_of(self, word: str) -> int:
        """ValueError for a word that is no token."""
        if word not in self.tokens:
            raise ValueError(f"token={word!r} is unknown; write one of {', '.join(self.tokens)}")
        return self.tokens.index(word)

    def word_of(self, id: int) -> str:
        """The inverse."""
        if not 0 <= id < len(self.tokens):
            raise ValueError(f"id={id} is no token; give ids from 0 to {len(self.tokens) - 1}")
        return self.tokens[id]

    def tokenize(self, text: str) -> Array:
        """(T,) ids."""
        return np.array([self.id_of(word) for word in self.words(text)], np.int64)

    def detokenize(self, ids: Sequence[int]) -> str:
        return " ".join(self.word_of(int(id)) for id in ids)

    def rng(self, seed: int) -> np.random.Generator:
        return np.random.default_rng(seed)

    def inputs(self, examples: Array) -> tuple[Array, Array]:
        """Which input each example (N,) is a copy of, and how many copies each input has."""
        _, which, copies = np.unique(examples, axis=0, return_inverse=True, return_counts=True)
        return which.reshape(-1), copies

    def split(self, examples: Array, seed: int) -> Array:
        """(N,): the part of each example. All copies of an input go to the same one.

        Parts are filled with inputs in random order; one whose copies would not fit any more is trained on.
        """
        which, copies = self.inputs(examples)
        room = {part: len(examples) * tenths // 10 for part, tenths in TENTHS.items()}
        parts = np.full(len(copies), TRAIN)
        for i in self.rng(seed).permutation(len(copies)):
            part = next((p for p in room if copies[i] <= room[p]), None)
            if part is not None:
                parts[i] = part
                room[part] -= int(copies[i])
        return parts[which]

    def confusion(self, wanted: Array, written: Array, classes: int) -> Array:
        """(C, C): how often the class of the row was wanted and that of the column written."""
        counts = np.zeros((classes, classes), np.int64)
        np.add.at(counts, (wanted, written), 1)
        return counts


@function("tokenize")
def _tokenize(parts: Parts, text: str) -> Array:
    return parts.data.tokenize(text)


@function("detokenize")
def _detokenize(parts: Parts, ids: Array) -> str:
    return parts.data.detokenize([int(id) for id in ids])


@function("split_examples")
def _split_examples(parts: Parts, examples: Array, seed: int) -> Array:
    return parts.data.split(examples, seed)


@function("confusion_matrix")
def _confusion_matrix(parts: Parts, wanted: Array, written: Array, classes: int) -> Array:
    check_size("classes", classes)
    if wanted.shape != written.shape:
        raise ValueError(f"written.shape={written.shape} is not wanted's; give {wanted.shape}")
    for name, answers in (("wanted", wanted), ("written", written)):
        if answers.size and not 0 <= answers.min() <= answers.max() < classes:
            raise ValueError(f"{name}={answers.tolist()} has no class; give 0 to {classes - 1}")
    return parts.data.confusion(wanted, written, classes)
