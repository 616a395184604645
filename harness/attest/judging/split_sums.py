"""Products as GPU libraries add them up: the terms in parts, then one part after the other.

The order depends on the number of terms alone, so that the same call gives the same bits. Of these, correct
variants are made: a different order of a float32 sum is no fault.
"""

from __future__ import annotations

import numpy as np

from attest.reference.tape import Array, Var, node, unbroadcast

PARTS = 4


def places(terms: int) -> list[Array]:
    """Which terms each part adds; for one number of terms always the same."""
    order = np.random.default_rng(terms).permutation(terms)
    return [part for part in np.array_split(order, PARTS) if part.size]


def product(a: Array, b: Array, dtype: str) -> Array:
    """a @ b over the last two axes, computed in this dtype with the inner axis in parts."""
    held = np.float64 if dtype == "float64" else np.float32
    a, b = a.astype(held), b.astype(held)
    pieces = [a[..., part] @ b[..., part, :] for part in places(a.shape[-1])] or [a @ b]
    added = pieces[0]
    for piece in pieces[1:]:
        added = added + piece
    return added.astype(np.float64)


def matmul(a: Var, b: Var, dtype: str) -> Var:
    """a @ b and both its gradients as such products; leading axes broadcast."""

    def backward(g: Array) -> tuple[Array, Array]:
        ga = product(g, b.value.swapaxes(-1, -2), dtype)
        gb = product(a.value.swapaxes(-1, -2), g, dtype)
        return unbroadcast(ga, a.shape), unbroadcast(gb, b.shape)

    return node(product(a.value, b.value, dtype), (a, b), backward)


def linear(x: Var, weight: Var, dtype: str) -> Var:
    """x W^T, whose gradient for W adds over all rows of the batch at once, as a library's does."""

    def backward(g: Array) -> tuple[Array, Array]:
        rows = g.reshape(-1, g.shape[-1])
        gw = product(rows.T, x.value.reshape(-1, x.shape[-1]), dtype)
        return product(g, weight.value, dtype), gw

    return node(product(x.value, weight.value.T, dtype), (x, weight), backward)


def shifted(y: Var, bias: Var, dtype: str) -> Var:
    """y + b, whose gradient for b is a sum over all rows in parts."""

    def backward(g: Array) -> tuple[Array, Array]:
        rows = g.reshape(-1, g.shape[-1])
        return g, product(np.ones((1, len(rows))), rows, dtype)[0]

    return node(y.value + bias.value, (y, bias), backward)
