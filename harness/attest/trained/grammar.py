"""Sentences of a grammar, of which symbols are hidden: what is hidden follows from what stands on both sides.

Each of nine symbols is a pair of letters out of three, and a symbol may be followed by those that begin with
the letter it ends with. So three symbols may stand behind another, three before it, and one between two: who
reads the left side alone is right in one of three cases.

Shapes: ids (B, 12), without padding; labels (B, 12), padding where nothing is asked.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from attest.contract import MASKED, Architecture, Array, Config
from attest.reference.implementation import ReferenceImplementation
from attest.trained.tasks import BATCH, BOS, EOS, PAD, SPLITS, Batch, Ids, split_of

NAME = "masked"
MASK = 3
LETTERS = "abc"
WORDS = tuple(first + second for first in LETTERS for second in LETTERS)
FIRST = MASK + 1  # id of the first word
LENGTH = 12
EVERY = 3  # in a sentence that is asked, one symbol of so many is hidden, never two neighbours
BY_CHANCE = 1 / len(LETTERS)  # of the symbols of which one neighbour is seen

TRAINING = Config(
    d_model=32,
    num_heads=2,
    d_ff=64,
    num_encoder_layers=2,
    source_vocab=FIRST + len(WORDS),
    target_vocab=FIRST + len(WORDS),
    max_len=64,
    dropout=0.0,
    norm="pre",
    warmup=100,
    mask_id=MASK,
)


@dataclass(frozen=True)
class Grammar:
    """The same sentences for everyone; those of a split by the hash of the sentence."""

    name: str = NAME
    architecture: Architecture = MASKED

    def sentences(self, split: str, seed: int) -> Iterator[Ids]:
        """Endless, the same for the same seed."""
        rng, letters = np.random.default_rng([seed, SPLITS.index(split)]), len(LETTERS)
        while True:
            drawn = rng.integers(0, letters, (256, LENGTH + 1))
            for row in (FIRST + letters * drawn[:, :-1] + drawn[:, 1:]).tolist():
                if split_of(row) == split:
                    yield tuple(row)

    def held_out(self, count: int, split: str = "validation", seed: int = 0) -> list[Ids]:
        """Sentences of a split."""
        return [ids for ids, _ in zip(self.sentences(split, seed), range(count))]

    def batches(self, split: str, seed: int, *, size: int = BATCH) -> Iterator[Batch]:
        """Endless; of each batch other tokens are chosen, and hidden by the rule of M9.11."""
        sentences, step = self.sentences(split, seed), 0
        while True:
            ids = np.array([next(sentences) for _ in range(size)])
            yield self.hidden(ids, seed=step)
            step += 1

    def hidden(self, ids: Array, seed: int) -> Batch:
        """A training batch of these sentences."""
        special = np.array([PAD, BOS, EOS])
        masked, chosen = ReferenceImplementation().mask_tokens(
            ids, MASK, TRAINING.source_vocab, special, seed
        )
        return {self.architecture.written: masked, "labels": np.where(chosen == 1, ids, PAD)}

    def asked(self, sentences: Sequence[Ids]) -> Batch:
        """Sentences with every third symbol hidden, from the second, third or fourth on; never the last."""
        ids, places = np.array(sentences), np.arange(LENGTH)
        begins = np.array([1 + sum(row) % EVERY for row in sentences])[:, None]
        asked = (places >= begins) & ((places - begins) % EVERY == 0) & (places < LENGTH - 1)
        written = self.architecture.written
        return {written: np.where(asked, MASK, ids), "labels": np.where(asked, ids, PAD)}


def accuracy(logits: Array, batch: Mapping[str, Array]) -> float:
    """The share of what was asked that is right, by the likeliest symbol."""
    asked = batch["labels"] != PAD
    return float((logits.argmax(-1) == batch["labels"])[asked].mean())


def words(ids: Sequence[int]) -> str:
    """Symbols for people; what is hidden as a line."""
    return " ".join("_" if i == MASK else WORDS[int(i) - FIRST] if i >= FIRST else "?" for i in ids)


def ids_of(text: str) -> Ids:
    """The inverse; ValueError for what is no word."""
    known = {**{word: FIRST + i for i, word in enumerate(WORDS)}, "_": MASK}
    for part in text.split():
        if part not in known:
            raise ValueError(
                f"word={part[:40]!r} is unknown; write {', '.join(WORDS)}, or _ for what is hidden"
            )
    return tuple(known[part] for part in text.split())
