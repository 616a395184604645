"""Cases that are named and not drawn: they run in every profile and print and replay as drawn ones do.

@verifies("M5.6", effort=ONCE)
@given(case=named(TrainingCase(steps=40)))
def forty_steps_equal_the_reference(impl, case): ...
"""

from __future__ import annotations

from typing import Any, TypeVar

from hypothesis import strategies as st

Named = TypeVar("Named")

# So little effort asks for the fewest examples in every profile, three, and for one at least. Hypothesis
# stops when it has tried every value of a strategy, so up to three named cases each run once.
ONCE = 0.005
MOST = 3


def named(*cases: Named) -> st.SearchStrategy[Named]:
    """Each of these once."""
    assert 0 < len(cases) <= MOST, f"{len(cases)} named cases; a property runs {MOST} of them at most"
    strategy: Any = st.sampled_from(cases)
    return strategy  # type: ignore[no-any-return]
