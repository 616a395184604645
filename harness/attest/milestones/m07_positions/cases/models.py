"""Decoder-only models as M7 asks them: through a cache, under left padding, with permuted weights.

Shapes: ids (B, T); B rows, H heads, d width of a head, r features of it that are turned.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from hypothesis import strategies as st

from attest.contract import Array, Config
from attest.judging.options import written_options
from attest.milestones.m07_positions.cases.rotary import interleaving
from attest.milestones.m09_models_of_today.cases.language_models import (
    LanguageModelCase,
    language_model_cases,
)

TURNED = ("query", "key", "query_norm", "key_norm")  # the parameters whose rows are features that are turned


def models(
    *schemes: str, paddings: tuple[str, ...] = ("none", "left"), beside: str = ""
) -> st.SearchStrategy[LanguageModelCase]:
    """Models with one of these kinds of positions, the options `beside` it, and whatever else is claimed."""
    wants = tuple(f"positions:{scheme}{beside}" for scheme in schemes)
    return language_model_cases(wants=wants, paddings=paddings, min_length=3)


def cuts(seed: int, length: int) -> list[int]:
    """Sizes of steps that add up to a length."""
    rng = np.random.default_rng(seed)
    sizes: list[int] = []
    while sum(sizes) < length:
        sizes.append(int(min(rng.choice((1, 1, 2, 3)), length - sum(sizes))))
    return sizes


def with_options(case: LanguageModelCase, **changes: object) -> LanguageModelCase:
    """The same case with other values of some options."""
    return case.but(options=written_options({**case.chosen, **changes}))


def permuted(parameters: Mapping[str, Array], config: Config) -> dict[str, Array]:
    """Weights for halves as interleaved pairs take them: rows of queries and keys in another order."""
    return {
        name: x[_order(len(x), config)] if name.split(".")[-2] in TURNED else x
        for name, x in parameters.items()
    }


def _order(rows: int, config: Config) -> Array:
    """The permutation of each head's features, one head after the other."""
    d = config.d_head
    rotated = round(d * config.rotary_fraction)
    one = np.concatenate([interleaving(rotated), np.arange(rotated, d)])
    heads: Array = np.arange(0, rows, d)[:, None]
    order: Array = (heads + one).reshape(-1)
    return order
