"""Laws that hold for every component, written once.

A milestone says which of its criteria a law verifies for which operation, with the cases to draw:

    law_holds(FORMULA, "M3.1", feed_forward_cases(), "feed_forward", name="feed_forward_equals_its_formula")

`laws_hold` declares several at once. A law that nobody speaks about, of an operation whose formula and side
effects are declared, is asked by the criterion of the side effects on the cases of the formula: an operation
has every law at birth. A milestone that leaves one out on purpose says so with a reason, by `law_is_exempt`.
`uncovered` lists what is left.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from hypothesis import strategies as st

from attest.boundary import JudgedImplementation
from attest.contract import OPERATIONS, Form
from attest.judging import law_checks
from attest.judging.cases import OperationCase
from attest.judging.property import after_loading, given, verifies


@dataclass(frozen=True, eq=False)
class Law:
    """A name, the sentence a property of it has where a milestone gives none, and the check of one case."""

    name: str
    sentence: str
    check: Callable[..., None]
    large: int = 2  # enlarged cases for each operation; fewer where one costs many calls


FORMULA = Law("formula", "The outputs are those of the formula, within the bound.", law_checks.formula)
ANY_LENGTH = Law(
    "any_length",
    "One component called at several lengths in turn is right at each.",
    law_checks.any_length,
    large=1,
)
ROW_ALONE = Law("row_alone", "A row alone equals the row in a batch.", law_checks.row_alone)
MEMORY_LAYOUT = Law(
    "memory_layout",
    "Transposed, strided, reversed, expanded and read-only arrays give what contiguous copies give.",
    law_checks.memory_layout,
)
GRADIENTS = Law(
    "gradients",
    "Of the inputs and every parameter, against the reference's reverse pass.",
    law_checks.gradients,
    large=1,
)
DTYPE = Law("dtype", "Results have the dtype of the config.", law_checks.dtype, large=1)
SIDE_EFFECTS = Law(
    "side_effects", "Inputs, parameters, random state and flags are as before.", law_checks.side_effects
)
SIDE_EFFECTS_IN_TRAINING = Law(
    "side_effects", "The same in eval and in train mode.", law_checks.side_effects_in_training
)
REFUSALS = Law(
    "refusals",
    "Inputs of another width, batch or vocabulary and masks of another length are refused.",
    law_checks.refusals,
    large=1,
)
RANKS = Law(
    "ranks",
    "Inputs without a batch axis, or with a further one, are refused or read as they can only be meant.",
    law_checks.ranks,
    large=1,
)
STATE = Law(
    "state",
    "Two components of one config, arrays that were loaded or returned, and the mode do not meet.",
    law_checks.state,
    large=1,
)
# RANKS is not among them: much good code takes (B, T, D) on trust, so only the criteria that ask it do.
LAWS = (FORMULA, ANY_LENGTH, ROW_ALONE, MEMORY_LAYOUT, GRADIENTS, DTYPE, SIDE_EFFECTS, REFUSALS, STATE)

_declared: dict[tuple[str, str], str] = {}  # law and operation -> criterion
_exempt: dict[tuple[str, str], str] = {}  # law and operation -> reason
_cases: dict[str, st.SearchStrategy[Any]] = {}  # operation -> the cases of its formula


def law_holds(
    law: Law,
    criterion: str,
    cases: st.SearchStrategy[Any],
    *operations: str,
    name: str,
    sentence: str = "",
    effort: float = 1.0,
    needed: bool = True,
) -> None:
    """Register the law as a property of a criterion, for the operations that the cases draw.

    Besides the drawn cases it meets large ones, see `attest.judging.regimes`.

    One that is not offered is passed over where it is not `needed`; otherwise the criterion is not offered.
    """

    def check(impl: JudgedImplementation, case: OperationCase) -> None:
        if needed or impl.offers(case.operation):
            law.check(impl, case)

    check.__name__, check.__doc__ = name, sentence or law.sentence
    verifies(criterion, effort=effort, large=law.large)(given(case=cases)(check))
    declare_law(law, criterion, *operations)
    if law is FORMULA:
        for operation in operations:
            _cases.setdefault(operation, cases)


def laws_hold(
    criteria: Mapping[Law, str], cases: st.SearchStrategy[Any], *operations: str, name: str = ""
) -> None:
    """Several laws on the same cases, each with the criterion that asks it, of what is offered."""
    for law, criterion in criteria.items():
        called = f"{law.name}_of_{name or operations[0]}"
        law_holds(law, criterion, cases, *operations, name=called, effort=0.25, needed=False)


def declare_law(law: Law, criterion: str, *operations: str) -> None:
    """Say that a criterion checks the law for these operations by a property of its own."""
    for operation in operations:
        _declared[law.name, operation] = criterion


def law_is_exempt(law: Law, *operations: str, reason: str) -> None:
    """Say why no criterion checks the law for these operations."""
    for operation in operations:
        _exempt[law.name, operation] = reason


@after_loading
def complete_laws() -> None:
    """Ask what nobody speaks about, for each operation whose formula and side effects are declared."""
    for operation, cases in _cases.items():
        criterion = _declared.get((SIDE_EFFECTS.name, operation))
        unasked = [law for law in LAWS if not ({(law.name, operation)} & {*_declared, *_exempt})]
        if criterion:
            laws_hold(dict.fromkeys(unasked, criterion), cases, operation)


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
