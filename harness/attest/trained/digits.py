"""The digit operations: one operation and a few digits in, one digit out, as in `FIRST 3 1 4` -> 3.

A vocabulary of 20 tokens, 10,000 generated examples, three splits that share no input, and batches that are
padded to their own longest row.

Shapes: questions (B, longest of the batch), answers (B, 3) = BOS digit EOS.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from attest.contract import ENCODER_DECODER, Architecture, Array, Config
from attest.contract.vocabulary import TOKENS
from attest.trained.tasks import BOS, EOS, PAD, SPLITS, Batch, Ids

OPERATIONS: Mapping[str, Callable[[Sequence[int]], int]] = {
    "FIRST": lambda digits: digits[0],
    "SECOND": lambda digits: digits[1],
    "LAST": lambda digits: digits[-1],
    "MAX": max,
    "MIN": min,
    "SUM": lambda digits: sum(digits) % 10,
    "COUNT": len,
}
IDS: Mapping[str, int] = {token: i for i, token in enumerate(TOKENS)}
VOCAB = len(TOKENS)
NAME = "operations"  # of the task
FEWEST, MOST = 2, 3  # digits of a question; SECOND needs two
EXAMPLES = 10_000
SIZES = {"train": 8_000, "validation": 1_000, "test": 1_000}
BATCH = 64

TRAINING = Config(
    d_model=64,
    num_heads=4,
    d_ff=256,
    num_encoder_layers=1,
    num_decoder_layers=1,
    source_vocab=VOCAB,
    target_vocab=VOCAB,
    max_len=16,
    dropout=0.0,
    norm="pre",
    schedule="cosine",
    peak_rate=1e-3,
    warmup=200,
    total_steps=5_000,  # 40 epochs
    pad_id=PAD,
    bos_id=BOS,
    eos_id=EOS,
)


def tokenize(text: str) -> Ids:
    """Tokens with spaces between to ids; ValueError for one that is not in the vocabulary."""
    parts = text.replace(",", " ").split()
    unknown = [part for part in parts if part not in IDS]
    if unknown:
        known = f"{', '.join(OPERATIONS)} and digits from 0 to 9"
        raise ValueError(f"token={unknown[0][:40]!r} is unknown; write {known} with spaces between")
    return tuple(IDS[part] for part in parts)


def detokenize(ids: Sequence[int]) -> str:
    """The inverse of `tokenize`; ValueError for an id that is not a token."""
    outside = [int(i) for i in ids if not 0 <= int(i) < VOCAB]
    if outside:
        raise ValueError(f"id={outside[0]} is not a token; give ids from 0 to {VOCAB - 1}")
    return " ".join(TOKENS[int(i)] for i in ids)


def question(text: str) -> Ids:
    """A text as a question of this task; ValueError where it is none."""
    ids = tokenize(text)
    if not ids or TOKENS[ids[0]] not in OPERATIONS:
        known = ", ".join(OPERATIONS)
        raise ValueError(f"question={text[:40]!r} begins with no operation; write one of {known} first")
    wrong = [i for i in ids[1:] if not _is_digit(i)]
    if wrong:
        raise ValueError(
            f"token={TOKENS[wrong[0]]!r} stands among the digits; write digits from 0 to 9 there"
        )
    if not FEWEST <= len(ids) - 1 <= MOST:
        raise ValueError(
            f"question={text[:40]!r} has {len(ids) - 1} digits, which was never trained; "
            f"write {FEWEST} to {MOST}"
        )
    return ids


def _is_digit(id: int) -> bool:
    return IDS["0"] <= id <= IDS["9"]


def answer(ids: Sequence[int]) -> int:
    """The id of the digit that answers a question."""
    digits = [int(i) - IDS["0"] for i in ids[1:]]
    return IDS[str(OPERATIONS[TOKENS[int(ids[0])]](digits))]


def generate_example(rng: np.random.Generator) -> Ids:
    """A random operation and random digits, of a random length."""
    operation = IDS["PAD"] + VOCAB - len(OPERATIONS) + int(rng.integers(len(OPERATIONS)))
    digits = rng.integers(0, 10, int(rng.integers(FEWEST, MOST + 1)))
    return (operation, *(IDS["0"] + int(d) for d in digits))


def generate(seed: int, count: int = EXAMPLES) -> list[Ids]:
    """So many examples; inputs repeat, as there are few short ones."""
    rng = np.random.default_rng(seed)
    return [generate_example(rng) for _ in range(count)]


def split(examples: Sequence[Ids], seed: int) -> dict[str, list[Ids]]:
    """Three parts of exactly their sizes, in which no input stands in two.

    All copies of an input go to the same part. A part is filled with inputs in random order; one whose copies
    would not fit any more goes to the training examples.
    """
    copies: dict[Ids, int] = {}
    for ids in examples:
        copies[ids] = copies.get(ids, 0) + 1
    inputs = list(copies)
    order = [inputs[i] for i in np.random.default_rng([seed, 1]).permutation(len(inputs))]
    parts: dict[str, list[Ids]] = {name: [] for name in SPLITS}
    for ids in order:
        fits = [n for n in ("test", "validation") if len(parts[n]) + copies[ids] <= _share(n, len(examples))]
        parts[fits[0] if fits else "train"] += [ids] * copies[ids]
    return parts


def _share(name: str, total: int) -> int:
    return total * SIZES[name] // EXAMPLES


@dataclass(frozen=True)
class DigitOperations:
    """The task with its data; the same seed gives the same examples, splits and batches."""

    seed: int = 0
    architecture: Architecture = ENCODER_DECODER
    name: str = NAME

    @cached_property
    def splits(self) -> dict[str, list[Ids]]:
        """train, validation and test."""
        return split(generate(self.seed), self.seed)

    def answer(self, ids: Sequence[int]) -> Ids:
        """What the decoder should write, without BOS and EOS."""
        return (answer(ids),)

    def question(self, text: str) -> Ids:
        """A text as a question; ValueError where it is none."""
        return question(text)

    def words(self, ids: Sequence[int]) -> str:
        """Tokens for people."""
        return detokenize(ids)

    def batch(self, sequences: Sequence[Sequence[int]]) -> Batch:
        """Questions padded to the longest of them, and answers."""
        width = max(map(len, sequences))
        questions = np.full((len(sequences), width), PAD, np.int64)
        for row, ids in enumerate(sequences):
            questions[row, : len(ids)] = ids
        answers = np.array([[BOS, answer(ids), EOS] for ids in sequences], np.int64)
        return self.architecture.reading(questions, answers)

    def epoch(self, number: int, size: int = BATCH) -> Iterator[Batch]:
        """Every training example once, in a new random order for each epoch."""
        examples = self.splits["train"]
        order: Array = np.random.default_rng([self.seed, 2, number]).permutation(len(examples))
        for start in range(0, len(order), size):
            yield self.batch([examples[i] for i in order[start : start + size]])
