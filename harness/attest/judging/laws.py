"""Laws that hold for every component, written once.

A milestone says which of its criteria a law verifies for which operation, with the cases to draw:

    law_holds(FORMULA, "M3.1", feed_forward_cases(), "feed_forward", name="feed_forward_equals_its_formula")

`uncovered` lists the components for which a law is not declared. A milestone that leaves one out on purpose
says so with a reason, by `law_is_exempt`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from hypothesis import strategies as st

from attest.boundary import JudgedImplementation
from attest.checks.arrays import expect_close, expect_gradients
from attest.checks.layouts import LAYOUTS, laid_out
from attest.checks.side_effects import expect_no_side_effects
from attest.contract import OPERATIONS, Form
from attest.judging.cases import OperationCase
from attest.judging.property import given, verifies
from attest.outcomes import Expected


@dataclass(frozen=True)
class Law:
    """A name, the sentence a property of it has where a milestone gives none, and the check of one case."""

    name: str
    sentence: str
    check: Callable[..., None]
    draws: Mapping[str, Any]


def _formula(impl: JudgedImplementation, case: OperationCase) -> None:
    component = case.loaded(impl)
    seen = component(**case.inputs)
    for name in case.record.gives:
        wanted = case.expected[name]
        settled = case.specified(seen[name], wanted.value)
        expect_close(settled, wanted, name, factor=component.widening)


def _row_alone(impl: JudgedImplementation, case: OperationCase) -> None:
    component, bound = case.loaded(impl), case.output.bound
    name = case.record.output
    seen = case.specified(component(**case.inputs)[name], case.output.value).astype(np.float64)
    for row in range(len(seen)):
        wanted = Expected(seen[row : row + 1], bound[row : row + 1])
        alone = component(**case.alone(row))[name][:1]
        expect_close(alone, wanted, f"row {row} alone", factor=2 * component.widening)


def _memory_layout(impl: JudgedImplementation, case: OperationCase, layout: str) -> None:
    component = case.loaded(impl)
    arranged = laid_out(case.inputs, layout)
    contiguous = {name: np.ascontiguousarray(x) for name, x in arranged.items()}
    seen = component.as_given(**arranged)[case.record.output]
    what = f"{case.record.output} for {layout} inputs"
    expect_close(seen, case.output_for(contiguous), what, factor=2 * component.widening)


def _gradients(impl: JudgedImplementation, case: OperationCase) -> None:
    case = case.sharpest(impl)
    component = case.loaded(impl)
    seen = component.gradients(case.inputs, case.cotangents())
    expect_gradients(seen, case.gradients_for(), factor=component.widening)


def _side_effects(impl: JudgedImplementation, case: OperationCase) -> None:
    component = case.loaded(impl)
    expect_no_side_effects(component, case.inputs)


def _side_effects_in_training(impl: JudgedImplementation, case: OperationCase) -> None:
    _side_effects(impl, case)
    component = case.loaded(impl)
    if hasattr(component.component, "train"):
        expect_no_side_effects(component, case.inputs, train_seed=case.seed)
        component.eval()


FORMULA = Law("formula", "The outputs are those of the formula, within the bound.", _formula, {})
ROW_ALONE = Law("row_alone", "A row alone equals the row in a batch.", _row_alone, {})
MEMORY_LAYOUT = Law(
    "memory_layout",
    "Transposed, strided, reversed and expanded arrays give what contiguous copies give.",
    _memory_layout,
    {"layout": st.sampled_from(LAYOUTS)},
)
GRADIENTS = Law(
    "gradients", "Of the inputs and every parameter, against the reference's reverse pass.", _gradients, {}
)
SIDE_EFFECTS = Law(
    "side_effects", "Inputs, parameters, random state and flags are as before.", _side_effects, {}
)
SIDE_EFFECTS_IN_TRAINING = Law(
    "side_effects", "The same in eval and in train mode.", _side_effects_in_training, {}
)
LAWS = (FORMULA, ROW_ALONE, MEMORY_LAYOUT, GRADIENTS, SIDE_EFFECTS)

_declared: dict[tuple[str, str], str] = {}  # law and operation -> criterion
_exempt: dict[tuple[str, str], str] = {}  # law and operation -> reason


def law_holds(
    law: Law,
    criterion: str,
    cases: st.SearchStrategy[Any],
    *operations: str,
    name: str,
    sentence: str = "",
    effort: float = 1.0,
    needed: bool = True,
    large: int = 2,
) -> None:
    """Register the law as a property of a criterion, for the operations that the cases draw.

    Besides the drawn cases it meets `large` ones, see `attest.judging.regimes`.

    One that is not offered is passed over where it is not `needed`; otherwise the criterion is not offered.
    """

    def check(impl: JudgedImplementation, case: OperationCase, **drawn: Any) -> None:
        if needed or impl.offers(case.operation):
            law.check(impl, case, **drawn)

    check.__name__, check.__doc__ = name, sentence or law.sentence
    verifies(criterion, effort=effort, large=large)(given(case=cases, **law.draws)(check))
    declare_law(law, criterion, *operations)


def declare_law(law: Law, criterion: str, *operations: str) -> None:
    """Say that a criterion checks the law for these operations by a property of its own."""
    for operation in operations:
        _declared[law.name, operation] = criterion


def law_is_exempt(law: Law, *operations: str, reason: str) -> None:
    """Say why no criterion checks the law for these operations."""
    for operation in operations:
        _exempt[law.name, operation] = reason


def uncovered() -> list[str]:
    """The laws and components that no milestone speaks about, once all are loaded."""
    return [
        f"{law.name} of {name}"
        for law in LAWS
        for name, record in OPERATIONS.items()
        if record.form is Form.COMPONENT and not ({(law.name, name)} & {*_declared, *_exempt})
    ]


def contradictions() -> list[str]:
    """Laws that are declared for an operation and exempt at once, and names that no operation has."""
    both = [f"{law} of {name} is declared and exempt" for law, name in _declared.keys() & _exempt.keys()]
    unknown = [f"{name} is no operation" for _, name in (*_declared, *_exempt) if name not in OPERATIONS]
    return sorted(both + unknown)
