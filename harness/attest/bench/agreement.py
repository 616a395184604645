"""Whether a completion is right: a speed says nothing about who writes other tokens.

Shapes: B rows, P prompt, n new tokens, V vocabulary.
"""

from __future__ import annotations

import numpy as np

from attest.bench.shapes import parameters
from attest.bench.workloads import Workload
from attest.contract import Array
from attest.outcomes import NotOffered
from attest.reference.oracle import expected

FIRST = 20  # tokens of each row that are checked: an error in one of them shows in all that follow


def expect_greedy(work: Workload, tokens: Array, dtype: str) -> None:
    """NotOffered unless each of the first tokens has the largest logit after those before it.

    The logits are the reference's, for the tokens that were written: so a choice between two that are
    equal within the bound of the dtype is right either way, and so is what follows it.
    """
    written = np.asarray(tokens)[:, :FIRST]
    ids = np.concatenate([work.given, written], axis=1)[:, :-1]
    logits = expected(
        "language_model", work.shape.config.but(dtype=dtype), parameters(work.shape), {"ids": ids}
    )
    start = work.length - 1
    values = logits["logits"].value[:, start:]  # (B, n, V)
    chosen = np.take_along_axis(values, written[..., None], -1)[..., 0]
    below = values.max(-1) - chosen
    allowed = 2 * np.broadcast_to(logits["logits"].bound, logits["logits"].value.shape)[:, start:].max(-1)
    if (below <= allowed).all():
        return
    row, at = (int(i) for i in np.argwhere(below > allowed)[0])
    raise NotOffered(
        f"its token {at} of row {row} is {written[row, at]}, not {values[row, at].argmax()}, "
        f"whose logit is larger by {below[row, at]:.2g}"
    )
