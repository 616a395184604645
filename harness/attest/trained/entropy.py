"""Text from a source whose entropy is known: a drawn chain of symbols whose beginning is repeated at its end.

Each symbol of the chain depends on the one before it, so that no predictor loses less than the entropy of the
drawn probabilities. The symbols that are repeated can be known for certain, by who looks back for them.

Shapes: ids (B, 25) = BOS, 15 symbols of the chain, its first 8 again, EOS.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from attest.contract import DECODER_ONLY, Architecture, Array, Config
from attest.trained.tasks import BATCH, BOS, EOS, SPLITS, Batch, Ids, split_of

NAME = "entropy"
SYMBOLS = 8
CHAIN, REPEATED = 15, 8
LABELS = CHAIN + REPEATED + 1  # of a sequence, the end included
LEAST = 0.01  # the smallest probability of a symbol: no single one costs more than ln 100

TRAINING = Config(
    d_model=32,
    num_heads=2,
    d_ff=64,
    num_decoder_layers=2,
    source_vocab=SYMBOLS + 3,
    target_vocab=SYMBOLS + 3,
    max_len=64,
    dropout=0.0,
    warmup=100,
)


@dataclass(frozen=True)
class EntropySource:
    """The same chain for everyone; `seed` draws another one. `length` symbols, the chain over and over."""

    seed: int = 0
    length: int = CHAIN + REPEATED
    ends: bool = True  # with EOS behind the last symbol
    name: str = NAME
    architecture: Architecture = DECODER_ONLY

    @cached_property
    def transitions(self) -> Array:
        """(8, 8): the probabilities of what follows each symbol."""
        drawn = np.random.default_rng([self.seed, 7]).dirichlet(np.full(SYMBOLS, 0.4), SYMBOLS)
        return (drawn + LEAST) / (1 + SYMBOLS * LEAST)

    @property
    def labels(self) -> int:
        """Of a sequence."""
        return self.length + self.ends

    @property
    def entropy_rate(self) -> float:
        """h in nats for each label of a sequence: what the source itself is uncertain about."""
        chain, losses = np.full(SYMBOLS, 1 / SYMBOLS), [np.log(SYMBOLS)]
        each = -(self.transitions * np.log(self.transitions)).sum(axis=1)
        for _ in range(CHAIN - 1):
            losses.append(float(chain @ each))
            chain = chain @ self.transitions
        return float(sum(losses)) / self.labels

    def sequences(self, split: str, seed: int) -> Iterator[Ids]:
        """Endless, the same for the same seed; those of a split by the hash of the chain."""
        rng = np.random.default_rng([self.seed, seed, SPLITS.index(split)])
        sums = self.transitions.cumsum(axis=1)
        while True:
            draws = rng.random((256, CHAIN))
            chains = np.empty((256, CHAIN), np.int64)
            chains[:, 0] = draws[:, 0] * SYMBOLS
            for i in range(1, CHAIN):
                chains[:, i] = (draws[:, i, None] > sums[chains[:, i - 1]]).sum(axis=1).clip(0, SYMBOLS - 1)
            for row in chains.tolist():
                if split_of(row) == split:
                    yield tuple(row[i % CHAIN] + 3 for i in range(self.length))

    def held_out(self, count: int, split: str = "validation", seed: int = 0) -> list[Ids]:
        """Sequences of a split."""
        return [ids for ids, _ in zip(self.sequences(split, seed), range(count))]

    def batches(self, split: str, seed: int, *, size: int = BATCH) -> Iterator[Batch]:
        """Endless, the same for the same seed."""
        sequences = self.sequences(split, seed)
        while True:
            yield self.batch([next(sequences) for _ in range(size)])

    def batch(self, sequences: Sequence[Sequence[int]]) -> Batch:
        """Sequences behind BOS, and before EOS where they end."""
        end = (EOS,) if self.ends else ()
        return {self.architecture.written: np.array([(BOS, *ids, *end) for ids in sequences], np.int64)}

    def ideal_loss(self, sequences: Sequence[Sequence[int]]) -> float:
        """What the probabilities of the source itself lose on these sequences, for each label."""
        chains = np.array([ids[:CHAIN] for ids in sequences]) - 3
        steps = np.log(self.transitions[chains[:, :-1], chains[:, 1:]])
        return float(np.log(SYMBOLS) - steps.sum(axis=1).mean()) / self.labels
