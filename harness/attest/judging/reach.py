"""How far a criterion goes: the largest sizes among the cases that its properties draw.

The cases are drawn here, without an implementation, so what is printed follows from the strategies.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import fields
from typing import Any

from attest.judging.cases import Case
from attest.judging.property import EXAMPLES, Property, load_properties
from attest.judging.regimes import large_examples

NO_SIZES = frozenset(f.name for f in fields(Case)) | {"pick"}  # which of the offered parts is drawn


def judged_up_to(criterion: str) -> dict[str, int]:
    """The largest value of each size by its name in the case; empty where no case is drawn."""
    largest: dict[str, int] = {}
    for property in load_properties().get(criterion, []):
        for example in _examples(property):
            for name, size in _sizes(example):
                largest[name] = max(size, largest.get(name, 0))
    return largest


def _examples(property: Property) -> Iterator[dict[str, Any]]:
    """What a quick run draws with seed 0, and what follows enlarged."""
    import hypothesis
    from hypothesis import Phase, settings, strategies

    if not property.strategies:
        return
    drawn: list[dict[str, Any]] = []

    @settings(
        max_examples=EXAMPLES["quick"],
        database=None,
        deadline=None,
        phases=[Phase.generate],
        suppress_health_check=list(hypothesis.HealthCheck),
    )
    @hypothesis.seed(0)
    @hypothesis.given(strategies.fixed_dictionaries(dict(property.strategies)))
    def draw(example: dict[str, Any]) -> None:
        drawn.append(example)

    draw()
    yield from drawn
    yield from large_examples(drawn, property.large)


def _sizes(example: dict[str, Any]) -> Iterator[tuple[str, int]]:
    for case in example.values():
        if isinstance(case, Case):
            for field in fields(case):
                value = getattr(case, field.name)
                if field.name not in NO_SIZES and not field.name.endswith("_id") and type(value) is int:
                    yield field.name, value
