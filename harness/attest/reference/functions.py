"""The plain functions of the contract: positional arguments in, one array out."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from attest.contract import operation_of
from attest.reference.formulas import Formulas
from attest.reference.tape import Array


def run_function(formulas: Formulas, operation: str, args: Sequence[Any], **settings: Any) -> Any:
    """The answer of one function."""
    function = _FUNCTIONS.get(operation) or operation_of(operation).formula
    if function is None:
        raise ValueError(f"operation={operation!r} has no formula; give its record one")
    return function(formulas, *args, **settings)


def _next_token_distribution(
    formulas: Formulas,
    logits: Array,
    temperature: float = 1.0,
    top_k: int | None = None,
    top_p: float | None = None,
) -> Array:
    formulas.check_sampling(temperature, top_k, top_p)
    logits = np.asarray(logits)
    with np.errstate(all="ignore"):
        p = formulas.next_token_distribution(logits, temperature, top_k, top_p)
    return p.astype(logits.dtype if logits.dtype == np.float64 else np.float32)


_FUNCTIONS: Mapping[str, Callable[..., Any]] = {
    "length_mask": lambda f, lengths, size: f.length_mask(np.asarray(lengths), size),
    "padding_mask": lambda f, ids, pad_id: f.padding_mask(np.asarray(ids), pad_id),
    "causal_mask": lambda f, T, S: f.causal_allowed(T, S),
    "next_token_distribution": _next_token_distribution,
}
