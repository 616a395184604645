"""Where two implementations part with the same weights, and which of them is wrong.

Every activation is judged against float64 with its bound, so that the answer is not that the two differ but
which one is wrong, and where first. Torch modules are watched by hooks that the table of names gives. Any
other code is narrowed down by depth: a model of the first k layers is built for the k that halve what is
left, and then by surgery on the first wrong layer.

Shapes: B rows, T tokens.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from attest.contract import Array, Arrays, Config
from attest.contract.parameters import shapes
from attest.diagnosis.likeness import Diagnosis
from attest.diagnosis.resemblance import LOGITS, in_numbers, nearest_defects
from attest.diagnosis.tracing import Traced, hooked, reference_trace
from attest.outcomes import Expected
from attest.reference.oracle import expected

DEPTHS = ("num_decoder_layers", "num_encoder_layers")


@dataclass(frozen=True)
class Activation:
    """One activation of one implementation: how far it is from float64, in bounds."""

    name: str
    ratio: float

    @property
    def good(self) -> bool:
        """Within its bound."""
        return self.ratio <= 1.0


@dataclass(frozen=True)
class Findings:
    """What is known of one implementation: its activations in order, or how deep it is right."""

    implementation: str
    logits: float  # error over bound
    activations: tuple[Activation, ...] = ()
    way: str = "hooks"  # hooks, depth or none
    first_wrong: str = ""
    last_good: str = ""
    notes: tuple[str, ...] = field(default=())
    numbers: str = ""  # how the first wrong activation differs from what is right
    nearest: Diagnosis | None = None  # None: nothing is wrong in a small model with the same options

    @property
    def right(self) -> bool:
        """Whether the logits are within their bound."""
        return self.logits <= 1.0


Build = Callable[[Config], Any]


def examine(
    name: str, build: Build, operation: str, config: Config, parameters: Arrays, inputs: Arrays,
    trace: Traced | None = None,
) -> Findings:  # fmt: skip
    """Judge one implementation of a whole model on these inputs, and find where it goes wrong."""
    found, seen, trace = _found(name, build, operation, config, parameters, inputs, trace)
    if found.right and not found.first_wrong:
        return found
    at = found.first_wrong if found.way == "hooks" else LOGITS
    numbers = in_numbers(_as_right(seen[at], trace[at], hidden_positions(inputs, config)), trace, at)
    return replace(found, numbers=numbers, nearest=nearest_defects(build, operation, config, at))


def _as_right(seen: Array, wanted: Expected, hidden: Array | None) -> Array:
    """What is unspecified under padding counts as right."""
    if hidden is None or seen.shape[: hidden.ndim] != hidden.shape:
        return seen
    return np.where(hidden[..., None], wanted.value, seen)


def _found(
    name: str, build: Build, operation: str, config: Config, parameters: Arrays, inputs: Arrays,
    trace: Traced | None,
) -> tuple[Findings, Arrays, Traced]:  # fmt: skip
    """Where it goes wrong, what was seen of it, and what is right."""
    trace = trace or reference_trace(operation, config, parameters, inputs)
    component = build(config)
    component.load(parameters)
    hidden = hidden_positions(inputs, config)
    if not hasattr(component, "places") or not hasattr(component, "module"):
        given = {LOGITS: component(**inputs)[LOGITS]}
        logits = ratio_of(given[LOGITS], trace[LOGITS], hidden)
        return _by_depth(name, build, operation, config, parameters, inputs, logits), given, trace
    with hooked(component) as seen:
        seen[LOGITS] = component(**inputs)[LOGITS]
    logits = ratio_of(seen[LOGITS], trace[LOGITS], hidden)
    found = tuple(
        Activation(key, ratio_of(seen[key], wanted, hidden))
        for key, wanted in trace.items()
        if key in seen and key != LOGITS
    )
    if not found:
        return _by_depth(name, build, operation, config, parameters, inputs, logits), seen, trace
    return _from_activations(name, logits, found), seen, trace


def _from_activations(name: str, logits: float, found: tuple[Activation, ...]) -> Findings:
    wrong = next((i for i, activation in enumerate(found) if not activation.good), None)
    if wrong is None:
        first = "" if logits <= 1 else LOGITS
        return Findings(name, logits, found, first_wrong=first, last_good=found[-1].name)
    last_good = found[wrong - 1].name if wrong else ""
    return Findings(name, logits, found, first_wrong=found[wrong].name, last_good=last_good)


def hidden_positions(inputs: Arrays, config: Config) -> Array | None:
    """(B, T): padding, under which activations are unspecified; None for several streams."""
    if set(inputs) != {"ids"} or config.pad_id is None:
        return None
    hidden: Array = np.asarray(inputs["ids"]) == config.pad_id
    return hidden


def ratio_of(seen: Array, wanted: Expected, hidden: Array | None) -> float:
    """The largest error over its bound; infinite for another shape or for numbers that are not finite."""
    if seen.shape != wanted.value.shape:
        if seen.size != wanted.value.size:
            return float("inf")
        seen = seen.reshape(wanted.value.shape)
    with np.errstate(all="ignore"):
        ratio = np.abs(seen - wanted.value) / wanted.bound
    if hidden is not None and ratio.shape[: hidden.ndim] == hidden.shape:
        ratio = ratio[~hidden]
    worst = float(np.max(ratio, initial=0.0))
    return worst if np.isfinite(worst) else float("inf")


def _by_depth(
    name: str, build: Build, operation: str, config: Config, parameters: Arrays, inputs: Arrays, logits: float
) -> Findings:
    """Bisect over the number of layers, then look into the first wrong one."""
    if logits <= 1:
        return Findings(name, logits, way="depth")
    depth = DEPTHS[0] if operation == "language_model" else DEPTHS[1]
    low, high = 0, int(getattr(config, depth))  # wrong with `high` layers; `low` is not known to be right yet

    def right(k: int) -> bool:
        return _error(build, operation, config.but(**{depth: k}), parameters, inputs) <= 1

    if high > 0 and not _can_have_none(right):
        low = 1 if right(1) else 0
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if right(middle) else (low, middle)
    place = f"layer {high - 1}" if low or _right_or_unknown(right) else "before the first layer"
    notes = _surgery(build, operation, config.but(**{depth: high}), parameters, inputs, high - 1)
    return Findings(name, logits, way="depth", first_wrong=place, last_good=_layers(low), notes=tuple(notes))


def _layers(count: int) -> str:
    return "1 layer" if count == 1 else f"{count} layers"


def _can_have_none(right: Callable[[int], bool]) -> bool:
    try:
        right(0)
    except Exception:
        return False
    return True


def _right_or_unknown(right: Callable[[int], bool]) -> bool:
    try:
        return right(0)
    except Exception:
        return True


def _error(build: Build, operation: str, config: Config, parameters: Arrays, inputs: Arrays) -> float:
    own = {name: parameters[name] for name in shapes(operation, config)}
    component = build(config)
    component.load(own)
    wanted = expected(operation, config, own, inputs)[LOGITS]
    return ratio_of(component(**inputs)[LOGITS], wanted, hidden_positions(inputs, config))


def _surgery(
    build: Build, operation: str, config: Config, parameters: Arrays, inputs: Arrays, layer: int
) -> list[str]:
    """Silence one piece of the layer at a time: where the error goes, that piece has it."""
    side = "decoder" if operation == "language_model" else "encoder"
    names = list(shapes(operation, config))
    cuts: Mapping[str, tuple[str, ...]] = {
        "attention": (f"{side}.{layer}.self_attention.output.",),
        "the feed-forward network": (f"{side}.{layer}.feed_forward.outer.",),
        "the queries": (f"{side}.{layer}.self_attention.query.",),
    }
    found = []
    for what, prefixes in cuts.items():
        silenced = {
            n: np.zeros_like(parameters[n]) if n.startswith(prefixes) else parameters[n] for n in names
        }
        good = _error(build, operation, config, silenced, inputs) <= 1
        found.append(f"with {what} of layer {layer} silent it is {'right' if good else 'still wrong'}")
    first = {name: x[:, :1] for name, x in inputs.items()}
    alone = _error(build, operation, config, parameters, first) <= 1
    found.append(f"with one token it is {'right' if alone else 'wrong'}")
    return found
