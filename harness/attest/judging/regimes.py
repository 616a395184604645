"""Sizes and masks that every operation meets, in one place.

Most drawn cases are small: they are fast and fail in a way that can be read. A fault that begins at a size (a
block of a kernel, the range of a narrow integer, a layer that is skipped) is seen beyond that size only, so a
property also meets some of its cases enlarged. What a field of a case stands for follows from the case's
`settings` and from the record, so that a new operation has its large case at birth.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from attest.contract import Array

# Each size is beyond a power of two at which something may end: 130 beyond blocks of 16, 32, 64 and 128 and
# the range of int8, 260 beyond a block of 256, 300 beyond the range of uint8, 1200 beyond a table of 512 or
# 1000 rows, 6 layers as in the paper. 72 and 96 lie beyond 64; 72 is no multiple of 16, 96 is one of 32.
WIDTHS = (72, 96)
LENGTH = 130
POSITIONS = 1200
SIZES: Mapping[
    str, int
] = {  # by what a field of a case stands for: a word of a shape or a field of the config
    "B": 2,
    "T": LENGTH,
    "S": LENGTH,
    "num_heads": 4,
    "d_ff": 260,
    "num_encoder_layers": 6,
    "num_decoder_layers": 6,
    "source_vocab": 300,
    "target_vocab": 300,
    "max_len": POSITIONS,
}

# Of two enlarged cases the second is judged in float64, where a step in single precision shows.
DTYPES = ("", "float64")  # "": as drawn

# Rows of a batch in one further case, its other sizes as drawn: beyond groups of 8, 16 and 32. And heads in
# another one, beyond groups of 8 and 16.
ROWS = 33
HEADS = 20

# Keys that are hidden at the beginning of a row. Block kernels fail where a whole leading block is hidden.
RUNS = (1, 2, 4, 8, 16, 32, 64, 128)
SHOWN = 0.6  # share of the other keys that may be seen


def large_sizes(stands_for: Mapping[str, str], width: int, *, attends: bool) -> dict[str, int]:
    """The fields of a case at their large sizes. Where nothing attends, a length can be that of the table."""
    sizes = {**SIZES, "d_model": width}
    if "max_len" in stands_for.values() and not attends:
        sizes["T"] = POSITIONS
    return {field: sizes[meaning] for field, meaning in stands_for.items() if meaning in sizes}


def enlarged(drawn: Mapping[str, Any], width: int, dtype: str = "") -> dict[str, Any]:
    """What was drawn, with every case at its large sizes."""
    own = {"dtype": dtype} if dtype else {}
    return {name: x.enlarged(width).but(**own) if hasattr(x, "enlarged") else x for name, x in drawn.items()}


def crowded(drawn: Mapping[str, Any]) -> dict[str, Any]:
    """What was drawn, with every case at many rows."""
    return {name: x.with_rows(ROWS) if hasattr(x, "with_rows") else x for name, x in drawn.items()}


def many_headed(drawn: Mapping[str, Any]) -> dict[str, Any]:
    """What was drawn, with every case at many heads."""
    return {name: x.with_heads(HEADS) if hasattr(x, "with_heads") else x for name, x in drawn.items()}


def beyond_half(drawn: Mapping[str, Any]) -> dict[str, Any]:
    """What was drawn, with every stream before a norm beyond the range of float16."""
    return {name: x.beyond_half() if hasattr(x, "beyond_half") else x for name, x in drawn.items()}


def large_examples(drawn: list[dict[str, Any]], count: int) -> list[dict[str, Any]]:
    """Enlarged examples, up to `count` for each operation: of its first and of its first that hides keys.

    Beside two of them, two further ones have many rows, one has many heads and one large numbers. None where
    nothing of them can be enlarged.
    """
    operations: dict[tuple[str, ...], list[dict[str, Any]]] = {}
    for example in drawn:
        operations.setdefault(_operations(example), []).append(example)
    made = [
        (example, enlarged(example, width, dtype))
        for examples in operations.values()
        for example, width, dtype in zip(_varied(examples)[:count], WIDTHS, DTYPES)
    ]
    if count > 1:
        # Two of them, because a mask may be shared by the rows.
        last = [
            example for examples in operations.values() for example in (_hiding(examples) or examples)[-2:]
        ]
        made += [(example, crowded(example)) for example in last]
        made += [(examples[-1], many_headed(examples[-1])) for examples in operations.values()]
        made += [(e, beyond_half(e)) for examples in operations.values() for e in _altered(examples)[-1:]]
    return [large for example, large in made if large != example]


def _operations(example: Mapping[str, Any]) -> tuple[str, ...]:
    return tuple(sorted(x.operation for x in example.values() if hasattr(x, "operation")))


def _varied(examples: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The first, then one with a mask that hides something, then the others."""
    masked = _hiding(examples)
    chosen: list[dict[str, Any]] = []
    for example in (*examples[:1], *masked[:1], *examples[1:]):
        if example not in chosen:
            chosen.append(example)
    return chosen


def _altered(examples: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Those whose numbers can be made large."""
    return [example for example in examples if beyond_half(example) != example]


def _hiding(examples: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Those with a mask that may hide something."""
    return [example for example in examples if any(getattr(x, "hides", False) for x in example.values())]


def hiding_mask(rng: np.random.Generator, shape: tuple[int, ...], reach: Any = None) -> Array:
    """A random mask (..., keys) of which every row shows a key.

    Each row begins with a run of hidden keys, of length zero or one of RUNS; the first row of a long mask
    with the longest run. One key is certainly visible, at a drawn place up to `reach`, which broadcasts to
    the rows: under a causal mask a row sees no further. Without `reach` it may be any key.
    """
    keys = shape[-1]
    last = np.broadcast_to(keys - 1 if reach is None else reach, shape[:-1])
    fitting = (0, 0, 0, *(run for run in RUNS if run < keys))
    run = rng.choice(fitting, shape[:-1])
    if keys > RUNS[-1]:
        run.flat[0] = RUNS[-1]
    run = np.minimum(run, last)
    shown = rng.integers(run, last + 1)
    mask = (rng.random(shape) < SHOWN) & (np.arange(keys) >= run[..., None])
    np.put_along_axis(mask, shown[..., None], True, axis=-1)
    return np.asarray(mask)
