"""Scripts of a cache that may go back, and the places of a state that no token has taken yet.

Shapes: B rows, t tokens so far.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import fields, is_dataclass
from typing import Any

import numpy as np
from hypothesis import strategies as st

from attest.contract import DECODER_ONLY
from attest.milestones.m06_generation.cases.caching import CacheCase, cache_cases

DEEPEST = 8  # levels of containers in which arrays are looked for


@st.composite
def rewinding_scripts(draw: st.DrawFn) -> str:
    """One session that goes back by less and by more than its last step, and then on; rows may change."""
    words = ["o", f"s0:{draw(st.integers(2, 5))}"]
    for _ in range(draw(st.integers(1, 3))):
        words.append(f"b0:{draw(st.sampled_from((1, 2, 3, 5)))}")
        words.append(draw(st.sampled_from(("s0:1", "s0:3", "r0:1-0.s0:2", "s0:2.b0:1.s0:2"))))
    return ".".join(words)


def rewinding_cases() -> st.SearchStrategy[CacheCase]:
    """Cases of a language model with such a script."""
    plain = cache_cases(scripted=False)
    return st.builds(
        lambda case, script: case.of(DECODER_ONLY).but(script=script), plain, rewinding_scripts()
    )


def language_model_caches() -> st.SearchStrategy[CacheCase]:
    """Cases of a language model without a script."""
    return cache_cases(scripted=False).map(lambda case: case.of(DECODER_ONLY))


def free_places(state: Any, case: CacheCase, length: int) -> Iterator[Any]:
    """Views of the places behind the first `length` tokens, in every floating array that the state shows.

    Of an axis that is longer and has none of the model's own sizes, only tokens can be the meaning.
    """
    c = case.config
    own = {case.B, c.num_heads, c.kv_heads, c.d_head, c.d_model, c.inner_width, c.target_vocab}
    own |= {c.num_heads * c.d_head, c.kv_heads * c.d_head, c.num_decoder_layers}
    for array in shown_arrays(state):
        for axis, size in enumerate(array.shape):
            if size > length and size not in own:
                yield array[(slice(None),) * axis + (slice(length, None),)]
                break


def shown_arrays(value: Any, depth: int = 0) -> Iterator[Any]:
    """Floating arrays of numpy and of torch, in containers, dataclasses and objects with fields."""
    if hasattr(value, "shape") and hasattr(value, "dtype"):
        if "float" in str(value.dtype):
            yield np.asarray(value) if isinstance(value, np.ndarray) else value
        return
    if depth < DEEPEST:
        for inner in _inside(value):
            yield from shown_arrays(inner, depth + 1)


def _inside(value: Any) -> list[Any]:
    if isinstance(value, dict):
        return list(value.values())
    if isinstance(value, list | tuple):
        return list(value)
    if is_dataclass(value) and not isinstance(value, type):
        return [getattr(value, f.name) for f in fields(value)]
    slots = [getattr(value, n, None) for n in getattr(type(value), "__slots__", ()) if isinstance(n, str)]
    return [*slots, *getattr(value, "__dict__", {}).values()]
