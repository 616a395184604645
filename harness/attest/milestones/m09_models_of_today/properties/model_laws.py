"""M9: the laws of a whole model, which language models, masked ones and classifiers are all asked."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from hypothesis import strategies as st

from attest.judging.laws import (
    ANY_LENGTH,
    DTYPE,
    FORMULA,
    GRADIENTS,
    MEMORY_LAYOUT,
    REFUSALS,
    ROW_ALONE,
    SIDE_EFFECTS_IN_TRAINING,
    STATE,
    law_holds,
    laws_hold,
)


@dataclass(frozen=True)
class Criteria:
    """Which criterion asks what of a model."""

    formula: str
    rows: str  # any length, and a row alone
    gradients: str
    refusals: str
    calls: str  # side effects, memory layout, dtype, state


def model_laws_hold(
    operation: str,
    cases: st.SearchStrategy[Any],
    criteria: Criteria,
    *,
    sentence: str,
    gradient_cases: st.SearchStrategy[Any] | None = None,
    needed: bool = True,
) -> None:
    """Register the laws of the operation; `needed` as for `law_holds`, of what several models share."""
    shared: dict[str, Any] = {"needed": needed}
    law_holds(
        FORMULA, criteria.formula, cases, operation, name=f"{operation}_equals_its_formula", sentence=sentence
    )
    law_holds(
        GRADIENTS,
        criteria.gradients,
        cases if gradient_cases is None else gradient_cases,
        operation,
        name=f"gradients_of_the_{operation}_are_right",
        effort=0.5,
        **shared,
    )
    for law, criterion, what in (
        (REFUSALS, criteria.refusals, "refuses_other_ids"),
        (SIDE_EFFECTS_IN_TRAINING, criteria.calls, "leaves_no_trace"),
    ):
        law_holds(law, criterion, cases, operation, name=f"the_{operation}_{what}", effort=0.25, **shared)
    laws_hold(
        {
            **dict.fromkeys((ANY_LENGTH, ROW_ALONE), criteria.rows),
            **dict.fromkeys((MEMORY_LAYOUT, DTYPE, STATE), criteria.calls),
        },
        cases,
        operation,
    )
