"""The data the harness owns: copy, reversal and sort of short sequences.

Shapes: questions (B, 8), answers (B, 10) = BOS ... EOS, both padded on the right to one width.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np

from attest.contract import ENCODER_DECODER, Architecture, Array, Config

PAD, BOS, EOS = 0, 1, 2
SYMBOLS = 10
VOCAB = SYMBOLS + 3
SHORTEST, LONGEST = 3, 8
SPLITS = ("train", "validation", "test")
BATCH = 64

Ids = tuple[int, ...]
Batch = dict[str, Array]

RULES: Mapping[str, Callable[[Ids], Ids]] = {
    "copy": lambda ids: ids,
    "reverse": lambda ids: ids[::-1],
    "sort": lambda ids: tuple(sorted(ids)),
}

TRAINING = Config(
    d_model=64,
    num_heads=4,
    d_ff=256,
    num_encoder_layers=2,
    num_decoder_layers=2,
    source_vocab=VOCAB,
    target_vocab=VOCAB,
    max_len=64,
    dropout=0.1,
    warmup=400,
    pad_id=PAD,
    bos_id=BOS,
    eos_id=EOS,
)


def split_of(ids: Sequence[int]) -> str:
    """Where a sequence belongs, by its hash alone: one in ten each for validation and test."""
    digest = hashlib.blake2b(bytes(ids), digest_size=4).digest()
    place = int.from_bytes(digest, "little") % 10
    return {0: "validation", 1: "test"}.get(place, "train")


class Written(Protocol):
    """Any task: it knows for which kind of model its batches are."""

    @property
    def architecture(self) -> Architecture:
        """Of the models that answer."""


@dataclass(frozen=True)
class Task:
    """What the answer to a sequence is, and batches of pairs for models of an architecture."""

    name: str
    architecture: Architecture = ENCODER_DECODER

    def __post_init__(self) -> None:
        if self.name not in RULES:
            raise ValueError(f"task={self.name!r} is unknown; choose one of {', '.join(RULES)}")
        if self.architecture.starts_from_rows:
            raise ValueError(
                f"architecture={self.architecture} has no stream for the questions of task={self.name!r}; "
                "choose one whose prompt is read apart"
            )

    def answer(self, ids: Sequence[int]) -> Ids:
        """What the decoder should write, without BOS and EOS."""
        return RULES[self.name](tuple(ids))

    def batches(self, split: str, seed: int, *, size: int = BATCH) -> Iterator[Batch]:
        """Endless, the same for the same seed; only sequences of this split."""
        sequences = _sequences(split, seed)
        while True:
            yield self.batch([next(sequences) for _ in range(size)])

    def held_out(self, count: int, split: str = "validation", seed: int = 0) -> list[Ids]:
        """Different sequences of a split, the same for the same seed."""
        found: dict[Ids, None] = {}
        for ids in _sequences(split, seed):
            found[ids] = None
            if len(found) == count:
                return list(found)
        raise AssertionError

    def question(self, text: str) -> Ids:
        """A text as a question; ValueError where it is none."""
        return ids_of(text)

    def words(self, ids: Sequence[int]) -> str:
        """Symbols for people."""
        return words(ids)

    def batch(self, sequences: Sequence[Sequence[int]]) -> Batch:
        """Questions and answers as arrays of the full width."""
        questions = np.full((len(sequences), LONGEST), PAD, np.int64)
        answers = np.full((len(sequences), LONGEST + 2), PAD, np.int64)
        for row, ids in enumerate(sequences):
            written = (BOS, *self.answer(ids), EOS)
            questions[row, : len(ids)] = ids
            answers[row, : len(written)] = written
        return self.architecture.reading(questions, answers)


def _sequences(split: str, seed: int) -> Iterator[Ids]:
    if split not in SPLITS:
        raise ValueError(f"split={split!r} is unknown; choose one of {', '.join(SPLITS)}")
    rng = np.random.default_rng([seed, SPLITS.index(split)])
    while True:
        lengths = rng.integers(SHORTEST, LONGEST + 1, 512).tolist()
        drawn = rng.integers(VOCAB - SYMBOLS, VOCAB, (512, LONGEST)).tolist()
        for length, row in zip(lengths, drawn):
            if split_of(row[:length]) == split:
                yield tuple(row[:length])


def words(ids: Sequence[int]) -> str:
    """Symbols as the digits 0 to 9, for people; special ids by name."""
    special = {PAD: "pad", BOS: "bos", EOS: "eos"}
    return " ".join(special.get(int(i), str(int(i) - 3)) for i in ids)


def ids_of(text: str) -> Ids:
    """The inverse of `words` for digits; ValueError for anything else."""
    parts = text.replace(",", " ").split()
    bad = [part for part in parts if not (part.isascii() and part.isdigit() and int(part) < SYMBOLS)]
    if bad:
        raise ValueError(f"symbol={bad[0]!r} is unknown; write digits from 0 to {SYMBOLS - 1}")
    if not SHORTEST <= len(parts) <= LONGEST:
        raise ValueError(
            f"length={len(parts)} was never trained; write {SHORTEST} to {LONGEST} digits with spaces between"
        )
    return tuple(int(part) + 3 for part in parts)
