"""Rotary frequencies for texts longer than those of training: linear, of YaRN, of Llama 3.

Dividing every frequency by a factor brings far positions back to angles that were trained, and near ones too
close together. The other rules divide those of slow pairs alone. A pair that turned often while the model was
trained has met all its angles; one that did not finish its first turn has not.

Shapes: r features of a head are turned, r / 2 pairs.
"""

from __future__ import annotations

import math

import numpy as np

from attest.contract import Array, Config


def scaled(frequencies: Array, config: Config) -> tuple[Array, float]:
    """(r / 2,) frequencies by the config's rule, and what cosine and sine are multiplied by."""
    divided = frequencies / config.rotary_factor
    if config.rotary_scaling == "none":
        return frequencies, 1.0
    if config.rotary_scaling == "linear":
        return divided, 1.0
    if config.rotary_scaling == "llama3":
        fast = share_by_turns(frequencies, config)
        return fast * frequencies + (1 - fast) * divided, 1.0
    fast = share_by_place(len(frequencies), config)
    return fast * frequencies + (1 - fast) * divided, 0.1 * math.log(config.rotary_factor) + 1


def share_by_turns(frequencies: Array, config: Config) -> Array:
    """How fast a pair counts, 0 to 1: by its turns over the original length."""
    turns = frequencies * config.rotary_original / (2 * math.pi)
    slow, fast = config.rotary_slow_turns, config.rotary_fast_turns
    return np.clip((turns - slow) / (fast - slow), 0, 1)


def share_by_place(pairs: int, config: Config) -> Array:
    """The same, but falling evenly between the pair of so many turns and that of so few."""

    def place(turns: float) -> float:
        """The pair whose frequency makes so many turns: base^(-place / pairs) = 2 pi turns / original."""
        return pairs * math.log(config.rotary_original / (2 * math.pi * turns)) / math.log(config.rotary_base)

    first = max(math.floor(place(config.rotary_fast_turns)), 0)
    last = min(math.ceil(place(config.rotary_slow_turns)), 2 * pairs - 1)
    width = last - first if last != first else 0.001  # a step right behind the pair
    return 1 - np.clip((np.arange(pairs) - first) / width, 0, 1)
