"""Defects that show only in long outputs, wide beams, rare tokens, other seeds or equal logits.

Shapes: B batch, W width, V vocabulary, t tokens so far.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from attest.judging.catalogue import defect
from attest.reference.decoding.cache import Cache, Kept, State
from attest.reference.decoding.generator import Hypothesis, ReferenceGenerator
from attest.reference.decoding.sampling import Sampling
from attest.reference.scope import Scope
from attest.reference.tape import Array, Var

Scored = list[tuple[Hypothesis, float]]
Extended = tuple[list[Hypothesis], list[Hypothesis], list[int]]


@defect("M6.2")
class one_candidate_too_few(ReferenceGenerator):
    """2W - 1 continuations are taken, so that W hypotheses that end leave one place empty."""

    def best(
        self, live: list[Hypothesis], logs: Array, places: list[int], count: int
    ) -> list[tuple[int, int]]:
        return super().best(live, logs, places, count - 1)


@defect("M6.2")
class wide_beams_cut_to_four(ReferenceGenerator):
    """No more than four hypotheses are followed, as many as the default."""

    def extend(self, live: list[Hypothesis], logs: Array, width: int) -> Extended:
        return super().extend(live, logs, min(width, 4))

    def done(self, finished: list[Hypothesis], live: list[Hypothesis], width: int) -> bool:
        return super().done(finished, live, min(width, 4))


@defect("M6.2")
class empty_beams_finish(ReferenceGenerator):
    """The first step has W rows, all but one at minus infinity; what ends among them counts as finished."""

    def extend(self, live: list[Hypothesis], logs: Array, width: int) -> Extended:
        ended, open_, parents = super().extend(live, logs, width)
        if not live[0].tokens:
            empty = max(0, width - logs.shape[-1])
            for row in sorted({h.row for h in live}):
                nothing = Hypothesis(row, (self.config.eos_id,), -np.inf)
                ended += [nothing] * min(empty, width - 1)
        return ended, open_, parents

    def ranked(self, finished: list[Hypothesis], alpha: float) -> Scored:
        return super().ranked([h for h in finished if np.isfinite(h.log_probability)], alpha)
