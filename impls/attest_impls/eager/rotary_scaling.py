"""Rules by which a model with rotary positions reads further than it was trained to.

A pair of features turns by its frequency from one position to the next. Behind the length that was trained
slow pairs reach angles they never had. So slow ones turn slower by a factor, and fast ones, which went round
many times, as before: they tell near positions apart.

    turns over the original length    few           slow_turns      fast_turns      many
    frequency                         f / factor    | a mixture of both |           f

Shapes: r features of a head are turned, in r/2 pairs.
"""

import math

import torch
from torch import Tensor

from attest.contract import Config


class AsTrained:
    """Frequencies as they are."""

    def __init__(self, config: Config) -> None:
        self.factor, self.original = config.rotary_factor, config.rotary_original
        self.slow, self.fast, self.base = (
            config.rotary_slow_turns,
            config.rotary_fast_turns,
            config.rotary_base,
        )

    def __call__(self, frequencies: Tensor) -> tuple[Tensor, float]:
        """(r/2) to (r/2), and what queries and keys are multiplied by."""
        return frequencies, 1.0

    def mixed(self, frequencies: Tensor, kept: Tensor) -> Tensor:
        """A share of each frequency as it is, the rest divided."""
        return frequencies * kept + frequencies / self.factor * (1 - kept)  # (r/2)


class Linear(AsTrained):
    """Every pair turns slower: positions lie closer together (arXiv 2306.15595)."""

    def __call__(self, frequencies: Tensor) -> tuple[Tensor, float]:
        return frequencies / self.factor, 1.0


class Llama3(AsTrained):
    """The share that is kept grows with the turns, as in the code of Llama 3.1."""

    def __call__(self, frequencies: Tensor) -> tuple[Tensor, float]:
        turns = self.original * frequencies / (2 * math.pi)  # (r/2)
        kept = ((turns - self.slow) / (self.fast - self.slow)).clamp(0, 1)  # (r/2)
        return self.mixed(frequencies, kept), 1.0


class Yarn(AsTrained):
    """The share falls from pair to pair, and all scores grow a little (arXiv 2309.00071).

    The paper lets the share follow the turns. The authors' code, which checkpoints were trained with, lets it
    fall evenly between two whole numbers of pairs.
    """

    def __call__(self, frequencies: Tensor) -> tuple[Tensor, float]:
        pairs = len(frequencies)
        first = max(math.floor(self.pair_that_turns(self.fast, pairs)), 0)
        last = min(math.ceil(self.pair_that_turns(self.slow, pairs)), 2 * pairs - 1)
        steps = torch.arange(pairs, device=frequencies.device, dtype=frequencies.dtype) - first
        divided = (steps / (last - first or 1e-3)).clamp(0, 1)  # (r/2)
        return self.mixed(frequencies, 1 - divided), 0.1 * math.log(self.factor) + 1.0

    def pair_that_turns(self, turns: float, pairs: int) -> float:
        """As a real number: original * base^(-i / pairs) = 2 pi turns, solved for i."""
        return pairs * math.log(self.original / (2 * math.pi * turns)) / math.log(self.base)


SCALINGS = {"none": AsTrained, "linear": Linear, "llama3": Llama3, "yarn": Yarn}
