"""Defects of tokens, splits, the confusion matrix, and of a training that uses them.

Shapes: N examples of L ids, C classes.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from attest.judging.catalogue import defect
from attest.reference.parts.data import Data
from attest.reference.tape import Array
from attest.reference.training.loss import Shift


@defect("M10.7")
class unknown_becomes_padding(Data):
    """A word that is no token gets the id of PAD."""

    def id_of(self, word: str) -> int:
        return super().id_of(word) if word in self.tokens else 0


@defect("M10.7")
class tokens_in_any_case(Data):
    """first is taken for FIRST."""

    def id_of(self, word: str) -> int:
        return super().id_of(word.upper())


@defect("M10.7")
class numbers_taken_digit_by_digit(Data):
    """12 is taken for 1 2."""

    def words(self, text: str) -> list[str]:
        return [part for word in super().words(text) for part in (word if word.isdecimal() else [word])]


@defect("M10.7")
class two_operations_share_an_id(Data):
    """MIN has the id of MAX."""

    def id_of(self, word: str) -> int:
        return super().id_of("MAX" if word == "MIN" else word)


@defect("M10.7")
class special_tokens_are_left_out(Data):
    """PAD, BOS and EOS do not come back."""

    def detokenize(self, ids: Sequence[int]) -> str:
        return super().detokenize([id for id in ids if id >= 3 or id < 0])


@defect("M10.7")
class negative_ids_count_from_the_end(Data):
    """-1 is the last token."""

    def word_of(self, id: int) -> str:
        return super().word_of(id % len(self.tokens) if id < 0 else id)


@defect("M10.8")
class copies_leak_into_the_test(Data):
    """Each example is split by itself: copies of one input stand in several parts."""

    def inputs(self, examples: Array) -> tuple[Array, Array]:
        return np.arange(len(examples)), np.ones(len(examples), int)


@defect("M10.8")
class split_in_the_order_of_the_data(Data):
    """The first inputs are for the test, then come those for validation."""

    def rng(self, seed: int) -> np.random.Generator:
        class InOrder(np.random.Generator):
            def permutation(self, x: int, axis: int = 0) -> Array:  # type: ignore[override]
                return np.roll(np.arange(x), seed)

        return InOrder(np.random.PCG64(seed))


@defect("M10.8")
class split_always_with_the_same_seed(Data):
    """The seed is not looked at."""

    def rng(self, seed: int) -> np.random.Generator:
        return super().rng(0)


@defect("M10.8")
class split_without_a_seed(Data):
    """Each call draws anew."""

    def rng(self, seed: int) -> np.random.Generator:
        return np.random.default_rng()


@defect("M10.8")
class a_fifth_for_the_test(Data):
    """The validation examples are added to the test."""

    def split(self, examples: Array, seed: int) -> Array:
        parts = super().split(examples, seed)
        return np.where(parts == 1, 2, parts)


@defect("M10.9")
class confusion_transposed(Data):
    """Rows are what was written."""

    def confusion(self, wanted: Array, written: Array, classes: int) -> Array:
        return super().confusion(written, wanted, classes)


@defect("M10.9")
class confusion_counts_a_pair_once(Data):
    """counts[wanted, written] += 1: numpy adds once for pairs that repeat."""

    def confusion(self, wanted: Array, written: Array, classes: int) -> Array:
        counts = np.zeros((classes, classes), np.int64)
        counts[wanted, written] += 1
        return counts


@defect("M10.9")
class confusion_in_shares(Data):
    """Each row is divided by its sum."""

    def confusion(self, wanted: Array, written: Array, classes: int) -> Array:
        counts = super().confusion(wanted, written, classes)
        shares: Array = counts / np.maximum(counts.sum(axis=1, keepdims=True), 1)
        return shares


@defect("M10.9")
class confusion_without_the_right_ones(Data):
    """The diagonal is empty: only mistakes are counted."""

    def confusion(self, wanted: Array, written: Array, classes: int) -> Array:
        wrong = wanted != written
        return super().confusion(wanted[wrong], written[wrong], classes)


@defect("M10.10")
class answers_of_the_question_before(Shift):
    """Questions and answers of a batch are out of step by one row."""

    def __call__(self, target: Array) -> tuple[Array, Array]:
        return super().__call__(np.roll(target, 1, axis=0))
