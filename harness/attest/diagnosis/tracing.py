"""What every linear map and norm of a model reads and gives.

Of the reference with bounds, of a torch module by hooks.

An activation is named by the parameter it belongs to: `decoder.3.feed_forward.outer:in` is what the map with
the weight `decoder.3.feed_forward.outer.weight` reads.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np

from attest.contract import Array, Arrays, Config
from attest.outcomes import Expected
from attest.reference.assembly import SLOTS, Parts, oracle_parts
from attest.reference.operations import run
from attest.reference.oracle import EPSILON
from attest.reference.parts.embedding import Logits
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


def traced_parts(config: Config, notes: Notes, pieces: Sequence[type[Part]] | None = None) -> Parts:
    """Parts with maps and norms that write down what they read and give: the oracle's, or the reference's
    with these pieces.

    A piece that takes the place of one of them is traced too: the traced class is derived from it.
    """
    made = oracle_parts if pieces is None else Parts
    parts = made(config, *(pieces or ()))
    kinds: list[tuple[type[Any], Callable[..., str]]] = [
        (type(parts.linear), lambda p, name: f"{p.prefix}{name}"),
        (type(parts.norm), lambda p: p.prefix.removesuffix(".")),
        (type(parts.logits), lambda p: "projection"),
    ]
    return made(config, *(pieces or ()), *(_traced(kind, named, notes) for kind, named in kinds))


def _traced(kind: type[Any], named: Callable[..., str], notes: Notes) -> type[Part]:
    """The same part, which notes what it reads and gives under the name of its parameters."""

    def call(self: Any, x: Var, p: Scope, *name: str) -> Var:
        y: Var = kind.__call__(self, x, p, *name)
        notes.note(named(p, *name), self.scaled(x) if isinstance(self, Logits) else x, y)
        return y

    return type(f"Traced{kind.__name__}", (kind,), {"__call__": call})


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
    return defect_trace(operation, config, parameters, inputs, None)


def defect_trace(
    operation: str, config: Config, parameters: Arrays, inputs: Arrays, pieces: Sequence[type[Part]] | None
) -> Traced:
    """The same with pieces of a known defect in place of those of the reference; None: the oracle's."""
    notes = Notes()
    scope = Scope(Streamed(parameters, EPSILON[config.dtype]))
    with np.errstate(all="ignore"):
        outputs = run(traced_parts(config, notes, pieces), operation, scope, inputs)
    final = {name: Expected(var.value, bound(var)) for name, var in outputs.items()}
    return {**notes.found, **final}


class _Noting(Parts):
    """Parts that note which of them are asked for."""

    asked: set[str] | None = None

    def __getattribute__(self, name: str) -> Any:
        if name in SLOTS and (asked := object.__getattribute__(self, "asked")) is not None:
            asked.add(name)
        return object.__getattribute__(self, name)


def used_parts(operation: str, config: Config, parameters: Arrays, inputs: Arrays) -> set[type[Part]]:
    """The classes of the reference that one run of this model needs."""
    parts = _Noting(config)
    parts.asked = set()
    run(parts, operation, Scope(Streamed(parameters, EPSILON[config.dtype])), inputs)
    return {SLOTS[name].chosen(config) for name in parts.asked}


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
