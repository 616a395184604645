"""M9: what a language model cannot compute gives no output."""

from __future__ import annotations

from typing import Any

import numpy as np

from attest.boundary import JudgedImplementation
from attest.checks.arrays import expect_refused
from attest.contract import Config
from attest.evidence import note_case
from attest.judging.property import verifies
from attest.milestones.m05_training.properties.refusals import chooses, sensible

# Three key heads for four heads, and five features that cannot form pairs.
IMPOSSIBLE: tuple[dict[str, Any], ...] = ({"num_kv_heads": 3}, {"head_width": 5})


@verifies("M9.18a")
def what_cannot_be_computed_gives_no_output(impl: JudgedImplementation) -> None:
    """Heads that cannot share keys, or cannot be turned, raise when they are built or called."""
    start = sensible(impl, "language_model")
    impl.build("language_model", start)
    for changes in IMPOSSIBLE:
        config = start.but(**changes)
        needed = "num_kv_heads" in changes or config.positions == "rotary"
        if needed and all(chooses(impl, "language_model", name) for name in changes):
            told = ", ".join(f"{name}={value}" for name, value in changes.items())
            note_case(told, *changes)
            expect_refused(lambda config=config: _called(impl, config), told)  # type: ignore[misc]


def _called(impl: JudgedImplementation, config: Config) -> Any:
    model = impl.raw_build("language_model", config)
    return model(ids=np.array([[3, 4, 5]]))
