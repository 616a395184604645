"""What every linear map and norm of a model reads and gives.

Of the reference with bounds, of a torch module by hooks.

An activation is named by the parameter it belongs to: `decoder.3.feed_forward.outer:in` is what the map with
the weight `decoder.3.feed_forward.outer.weight` reads.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import numpy as np

from attest.contract import Array, Arrays, Config
from attest.outcomes import Expected
from attest.reference.assembly import Parts, oracle_parts
from attest.reference.operations import run
from attest.reference.oracle import EPSILON
from attest.reference.parts.embedding import Logits
from attest.reference.parts.linear import Linear
from attest.reference.parts.norms import LayerNorm, RMSNorm
from attest.reference.parts.part import Part
from attest.reference.scope import Scope
from attest.reference.tape import Var, bound, leaf

Traced = dict[str, Expected]


class Notes:
    """Where the traced parts of one run write."""

    def __init__(self) -> None:
        self.found: Traced = {}

    def note(self, name: str, read: Var, given: Var) -> None:
        """The first use of a name counts: a tied projection comes last."""
        self.found.setdefault(f"{name}:in", Expected(read.value, bound(read)))
        self.found.setdefault(f"{name}:out", Expected(given.value, bound(given)))


def traced_parts(config: Config, notes: Notes, *pieces: type[Part]) -> Parts:
    """The oracle's parts, with maps and norms that write down what they read and give."""

    class TracedLinear(Linear):
        def __call__(self, x: Var, p: Scope, name: str) -> Var:
            y = super().__call__(x, p, name)
            notes.note(f"{p.prefix}{name}", x, y)
            return y

    class TracedLayerNorm(LayerNorm):
        def __call__(self, x: Var, p: Scope) -> Var:
            y = super().__call__(x, p)
            notes.note(p.prefix.removesuffix("."), x, y)
            return y

    class TracedRMSNorm(RMSNorm):
        def __call__(self, x: Var, p: Scope) -> Var:
            y = super().__call__(x, p)
            notes.note(p.prefix.removesuffix("."), x, y)
            return y

    class TracedLogits(Logits):
        def __call__(self, x: Var, p: Scope) -> Var:
            y = super().__call__(x, p)
            notes.note("projection", self.scaled(x), y)
            return y

    return oracle_parts(config, TracedLinear, TracedLayerNorm, TracedRMSNorm, TracedLogits, *pieces)


class Streamed(Mapping[str, Var]):
    """Parameters that become Vars when they are read and are not kept."""

    def __init__(self, parameters: Arrays, eps: float) -> None:
        self._parameters, self._eps = parameters, eps

    def __getitem__(self, name: str) -> Var:
        return leaf(self._parameters[name], eps=self._eps)

    def __iter__(self) -> Iterator[str]:
        return iter(self._parameters)

    def __len__(self) -> int:
        return len(self._parameters)


def reference_trace(operation: str, config: Config, parameters: Arrays, inputs: Arrays) -> Traced:
    """Every activation of the reference with its bound, in order, `logits` last."""
    notes = Notes()
    scope = Scope(Streamed(parameters, EPSILON[config.dtype]))
    with np.errstate(all="ignore"):
        outputs = run(traced_parts(config, notes), operation, scope, inputs)
    final = {name: Expected(var.value, bound(var)) for name, var in outputs.items()}
    return {**notes.found, **final}


@contextmanager
def hooked(component: Any) -> Iterator[dict[str, Array]]:
    """While this lasts, what each named module of a torch component reads and gives, by canonical name."""
    found: dict[str, Array] = {}
    modules = dict(component.module.named_modules())
    handles = []
    for owner, members in _by_module(component).items():
        if owner in modules:
            handles.append(modules[owner].register_forward_hook(_hook(members, component, found)))
    try:
        yield found
    finally:
        for handle in handles:
            handle.remove()


def _by_module(component: Any) -> dict[str, list[str]]:
    """The module that holds each weight, and the canonical names that lie in it."""
    owners: dict[str, list[str]] = {}
    for canonical, place in component.places.items():
        if canonical.endswith(".weight") and len(place.owned) == 1 and "embedding." not in canonical:
            owners.setdefault(place.owned[0].rpartition(".")[0], []).append(canonical)
    return owners


def _hook(members: list[str], component: Any, found: dict[str, Array]) -> Any:
    def note(module: Any, inputs: Any, output: Any) -> None:
        if not inputs or not hasattr(output, "detach"):
            return
        for canonical in members:
            name = canonical.removesuffix(".weight")
            found.setdefault(f"{name}:in", inputs[0].detach().float().cpu().numpy())
            found.setdefault(f"{name}:out", _own_part(output, component, canonical))

    return note


def _own_part(output: Any, component: Any, canonical: str) -> Array:
    """The features that belong to one of several maps in one matrix."""
    from attest.adapters.names import Place, flat, view

    place = component.places[canonical]
    rows = tuple(suffix for suffix in place.suffixes if suffix.kind != "transpose")
    features = output.detach().float().cpu().numpy()
    moved = np.moveaxis(features, -1, 0)
    part = flat(view(moved, Place(place.owned, rows), component.config), moved)
    return np.moveaxis(part, 0, -1)
