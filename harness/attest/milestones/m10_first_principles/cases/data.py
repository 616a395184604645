"""Cases of what stands before and after a model: texts, examples to split, answers to count.

Shapes: N examples of L ids, C classes.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from hypothesis import strategies as st

from attest.contract import Array
from attest.contract.vocabulary import TOKENS
from attest.judging.cases import Case, seeds


@dataclass(frozen=True, kw_only=True)
class TextCase(Case):
    """Tokens with single spaces between."""

    kind: ClassVar[str] = "text"

    tokens: int = 3

    @property
    def text(self) -> str:
        return " ".join(TOKENS[i] for i in self.rng(1).integers(0, len(TOKENS), self.tokens))


@dataclass(frozen=True, kw_only=True)
class ExamplesCase(Case):
    """N examples in tens, sorted, among which inputs repeat."""

    kind: ClassVar[str] = "examples"

    tens: int = 10
    width: int = 3
    different: int = 60

    @property
    def examples(self) -> Array:
        """(N, L), drawn from so many different inputs."""
        rng = self.rng(1)
        inputs = rng.permutation(20**self.width)[: self.different]
        chosen = np.sort(inputs[rng.integers(0, len(inputs), 10 * self.tens)])
        return np.stack(np.unravel_index(chosen, (20,) * self.width), axis=-1).astype(np.int64)


@dataclass(frozen=True, kw_only=True)
class AnswersCase(Case):
    """N wanted classes and what was written; two thirds are right."""

    kind: ClassVar[str] = "answers"

    count: int = 30
    classes: int = 5

    @property
    def wanted(self) -> Array:
        return self.rng(1).integers(0, self.classes, self.count)

    @property
    def written(self) -> Array:
        rng = self.rng(2)
        other = rng.integers(0, self.classes, self.count)
        return np.where(rng.random(self.count) < 2 / 3, self.wanted, other)


def text_cases() -> st.SearchStrategy[TextCase]:
    """From one token to more than the vocabulary has."""
    return st.builds(TextCase, tokens=st.integers(1, 40), seed=seeds())


def examples_cases() -> st.SearchStrategy[ExamplesCase]:
    """Few and many examples, with many copies and with hardly any."""
    return st.builds(
        ExamplesCase,
        tens=st.integers(10, 40),
        width=st.integers(2, 4),
        different=st.sampled_from((60, 120, 390)),
        seed=seeds(),
    )


def answers_cases() -> st.SearchStrategy[AnswersCase]:
    """Without an answer, with one class, with classes that nobody wanted."""
    return st.builds(
        AnswersCase, count=st.sampled_from((0, 1, 7, 30, 300)), classes=st.integers(1, 12), seed=seeds()
    )
