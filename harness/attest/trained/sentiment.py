"""Sentences of a grammar that praise or blame: a word of opinion, which a negation before it turns round.

Of two clauses the one behind "but" decides. So neither the words of a sentence without their order nor its
last word tell its class: "the plot was not good but the music was never bad" praises.
"""

from __future__ import annotations

import hashlib
from functools import cache

import numpy as np

from attest.contract import Config
from attest.trained.words import Example, Labelled, vocabulary_of

NAME = "sentiment"
CLASSES = ("neg", "pos")
THINGS = ("plot", "music", "cast", "ending", "scenery", "story", "food", "service")
PRAISE = ("good", "great", "lovely", "clever", "fresh", "charming")
BLAME = ("bad", "awful", "dull", "poor", "stale", "clumsy")
TURNS = ("not", "never", "hardly")
DEGREES = ("very", "quite", "really")
SENTENCES, PRAISED = 4000, 0.6
HELD_OUT_OF = 8  # one sentence in so many, by its hash

TRAINING = Config(
    d_model=32,
    num_heads=2,
    d_ff=64,
    num_encoder_layers=2,
    num_classes=2,
    max_len=64,
    dropout=0.0,
    norm="pre",
    warmup=100,
)


def sentence(rng: np.random.Generator, praised: bool) -> tuple[str, ...]:
    """One clause, or two of which the second decides."""
    if rng.random() < 0.5:
        return ("the", *_clause(rng, praised))
    return ("the", *_clause(rng, bool(rng.random() < 0.5)), "but", "the", *_clause(rng, praised))


def _clause(rng: np.random.Generator, praised: bool) -> tuple[str, ...]:
    turned = rng.random() < 0.5
    opinion = PRAISE if praised != turned else BLAME
    turn = (TURNS[rng.integers(len(TURNS))],) if turned else ()
    degree = (DEGREES[rng.integers(len(DEGREES))],) if rng.random() < 0.5 else ()
    return (THINGS[rng.integers(len(THINGS))], "was", *turn, *degree, opinion[rng.integers(len(opinion))])


def is_held_out(words: tuple[str, ...]) -> bool:
    """By the hash of the sentence alone: a sentence that was drawn twice is on one side."""
    digest = hashlib.blake2b(" ".join(words).encode(), digest_size=4).digest()
    return int.from_bytes(digest, "little") % HELD_OUT_OF == 0


@cache
def sentiment(seed: int = 0) -> Labelled:
    """The same sentences for the same seed."""
    rng = np.random.default_rng([seed, 11])
    found: list[Example] = []
    for praised in rng.random(SENTENCES) < PRAISED:
        found.append((sentence(rng, bool(praised)), int(praised)))
    train = tuple(example for example in found if not is_held_out(example[0]))
    held_out = tuple(example for example in found if is_held_out(example[0]))
    return Labelled(NAME, CLASSES, vocabulary_of(train, 1000), train, held_out)
