"""How good a model of the digit operations is: by operation, beside the best constant answer, digit by digit.

Shapes: the confusion matrix is (10, 11), rows the wanted digit, columns the written one; the last column
counts whatever else was written.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from attest.boundary import JudgedImplementation
from attest.contract import Array, Config
from attest.contract.vocabulary import TOKENS
from attest.trained.digits import IDS, OPERATIONS, DigitOperations, answer, detokenize
from attest.trained.tasks import EOS, Ids
from attest.trained.training import written_by

TOGETHER = 250  # questions that are answered in one batch
DIGITS = 10


@dataclass(frozen=True)
class Answered:
    """Questions and what a model wrote: its first token, and whether it stopped after it."""

    questions: Sequence[Ids]
    written: Sequence[int]
    stopped: Sequence[bool]

    @property
    def right(self) -> list[bool]:
        """The wanted digit, then the end."""
        rows = zip(self.questions, self.written, self.stopped)
        return [stopped and token == answer(ids) for ids, token, stopped in rows]

    @property
    def accuracy(self) -> float:
        """The share that is right."""
        return sum(self.right) / max(len(self.questions), 1)


def answered(
    impl: JudgedImplementation,
    task: DigitOperations,
    config: Config,
    parameters: Mapping[str, Array],
    questions: Sequence[Ids],
) -> Answered:
    """What a model with these parameters writes."""
    first: list[int] = []
    stopped: list[bool] = []
    for start in range(0, len(questions), TOGETHER):
        batch = task.batch(questions[start : start + TOGETHER])
        written = written_by(impl, task, config, dict(parameters), batch)
        first += [int(i) for i in written[:, 0]]
        stopped += [bool(row[1] == EOS) for row in written]
    return Answered(questions, first, stopped)


def by_operation(seen: Answered, train: Sequence[Ids]) -> dict[str, dict[str, Any]]:
    """Of each operation: questions, accuracy, and what always writing its commonest answer would give."""
    table = {}
    for name in OPERATIONS:
        rows = [i for i, ids in enumerate(seen.questions) if TOKENS[ids[0]] == name]
        common = Counter(answer(ids) for ids in train if TOKENS[ids[0]] == name).most_common(1)
        guess = common[0][0] if common else IDS["0"]
        right, wanted = seen.right, [answer(seen.questions[i]) for i in rows]
        count = max(len(rows), 1)
        table[name] = {
            "questions": len(rows),
            "accuracy": sum(right[i] for i in rows) / count,
            "baseline": sum(w == guess for w in wanted) / count,
            "baseline_answer": TOKENS[guess],
        }
    return table


def confusion(seen: Answered) -> Array:
    """(10, 11) counts: wanted digit by written digit."""
    found = np.zeros((DIGITS, DIGITS + 1), np.int64)
    for ids, token, stopped in zip(seen.questions, seen.written, seen.stopped):
        digit = token - IDS["0"]
        column = digit if stopped and 0 <= digit < DIGITS else DIGITS
        found[answer(ids) - IDS["0"], column] += 1
    return found


def mistakes(seen: Answered, most: int = 20) -> list[dict[str, str]]:
    """Questions with a wrong answer, each once."""
    wrong: dict[Ids, dict[str, str]] = {}
    for ids, token, right in zip(seen.questions, seen.written, seen.right):
        if not right:
            shown = {"question": detokenize(ids), "written": detokenize([token])}
            wrong[ids] = {**shown, "wanted": detokenize([answer(ids)])}
    return list(wrong.values())[:most]
