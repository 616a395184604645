"""The information-flow map: which output (row, position) depends on which input (stream, row, position).

Shapes: B batch, T output positions, L positions of one input stream. A map of one stream is a boolean array
(B, T, B, L): output row and position, then input row and position.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from attest.boundary import JudgedComponent
from attest.checks.arrays import expect
from attest.contract import Array, operation_of
from attest.outcomes import Violation

CLAIM = {"perturbation": "changes when {input} changes", "gradient": "has a gradient at {input}"}
DENIAL = {
    "perturbation": "does not change when {input} changes",
    "gradient": "has no gradient at {input}",
}
Maps = dict[str, Array]


@dataclass(frozen=True)
class Flow:
    """Required and seen: a row per output place, a column per input place. `judged`: the rows that count."""

    rows: tuple[str, ...]
    columns: tuple[str, ...]
    required: Array
    seen: Array
    judged: Array
    means: str

    @property
    def leaks(self) -> Array:
        """Seen and not allowed."""
        found: Array = self.seen & ~self.required & self.judged[:, None]
        return found

    @property
    def gaps(self) -> Array:
        """Required and not seen."""
        found: Array = self.required & ~self.seen & self.judged[:, None]
        return found

    @property
    def agrees(self) -> bool:
        """Whether what was seen is what is required, wherever it counts."""
        return not (self.leaks.any() or self.gaps.any())

    def sentence(self) -> str:
        """The first difference in words, and how many there are; empty where there is none."""
        if self.leaks.any():
            return self._first(self.leaks, CLAIM, "and should not")
        return self._first(self.gaps, DENIAL, "and should") if self.gaps.any() else ""

    def _first(self, wrong: Array, words: Mapping[str, str], verdict: str) -> str:
        row, column = np.argwhere(wrong)[0]
        what = words[self.means].format(input=self.columns[column])
        return f"{self.rows[row]} {what}, {verdict} ({int(wrong.sum())} such pairs)"

    def as_data(self) -> dict[str, Any]:
        """What a report draws; rows that do not count are drawn as required."""
        seen = np.where(self.judged[:, None], self.seen, self.required)
        return {
            "required": self.required.astype(int).tolist(),
            "seen": seen.astype(int).tolist(),
            "rows": list(self.rows),
            "columns": list(self.columns),
            "means": self.means,
        }

    def text(self) -> str:
        """Both maps side by side: # flows, . does not, ! leaks, o is missing, - unspecified."""
        width = max(map(len, self.rows))
        heads = self._heads()
        gap = " " * 5
        lines = [f"{'':{width}}  {'required':{len(self.columns)}}{gap}seen by {self.means}"]
        lines += [f"{'':{width}}  {head}{gap}{head}" for head in heads]
        for i, name in enumerate(self.rows):
            required = "".join("#" if flows else "." for flows in self.required[i])
            seen = "".join(self._mark(i, j) for j in range(len(self.columns)))
            lines.append(f"{name:{width}}  {required}{gap}{seen}".rstrip())
        return "\n".join(lines)

    def _mark(self, i: int, j: int) -> str:
        if not self.judged[i]:
            return "-"
        if self.leaks[i, j]:
            return "!"
        return "o" if self.gaps[i, j] else "#" if self.seen[i, j] else "."

    def _heads(self) -> list[str]:
        """Initial of the stream, batch row and position, one above the other."""
        places = [(c[0], *c.partition("[")[2].rstrip("]").split(",")) for c in self.columns]
        return ["".join(part[-1] for part in line) for line in zip(*places)]


def flow(required: Maps, seen: Maps, judged: Array, *, output: str = "output", means: str) -> Flow:
    """Join the streams' maps into one table. `judged` is (B, T)."""
    rows = tuple(f"{output}[{b},{t}]" for b, t in np.ndindex(judged.shape))
    columns = tuple(f"{name}[{b},{p}]" for name in required for b, p in np.ndindex(required[name].shape[2:]))
    tables = [
        np.concatenate([maps[name].reshape(len(rows), -1) for name in required], 1)
        for maps in (required, seen)
    ]
    return Flow(rows, columns, tables[0], tables[1], judged.ravel(), means)


def within_rows(visible: Array) -> Array:
    """(B, T, L) inside each batch row as a map (B, T, B, L) with nothing between rows."""
    B, T, L = visible.shape
    whole = np.zeros((B, T, B, L), bool)
    for b in range(B):
        whole[b, :, b] = visible[b]
    return whole


def required_maps(part: str, visible: Array, memory_visible: Array | None = None, depth: int = 1) -> Maps:
    """What the spec requires: `visible` (B, T, T) and `memory_visible` (B, T, S) followed through the layers.

    In each layer a position reads itself (the residual), what it may see, and what it may see of the memory.
    """
    reads = visible | np.eye(visible.shape[1], dtype=bool)
    own = np.broadcast_to(np.eye(visible.shape[1], dtype=bool), visible.shape)
    memory = None if memory_visible is None else np.zeros_like(memory_visible)
    for _ in range(depth):
        own = _follow(reads, own)
        if memory is not None and memory_visible is not None:
            memory = _follow(reads, memory) | memory_visible
    record = operation_of(part)
    found = dict(zip(record.streams, (own, memory)))
    return {name: within_rows(seen) for name in record.takes if (seen := found.get(name)) is not None}


def _follow(reads: Array, held: Array) -> Array:
    followed: Array = (reads.astype(np.int64) @ held.astype(np.int64)) > 0
    return followed


def by_perturbation(
    component: JudgedComponent, inputs: Mapping[str, Any], required: Maps, *, seed: int = 0, tries: int = 2
) -> Maps:
    """Change one place at a time; an output depends on it if any bit moves.

    A second, larger change is tried where the first moved less than required: it may be rounded away.
    """
    output = operation_of(component.operation).output
    before = _output(component, inputs, output)
    seen = {name: np.zeros_like(wanted) for name, wanted in required.items()}
    rng = np.random.default_rng([seed, 7])
    for name, wanted in required.items():
        for row, position in np.ndindex(wanted.shape[2:]):
            for attempt in range(tries):
                changed = {**inputs, name: _changed(inputs[name], (row, position), rng, attempt)}
                seen[name][:, :, row, position] |= _moved(_output(component, changed, output), before)
                if np.all(seen[name][:, :, row, position] | ~wanted[:, :, row, position]):
                    break
    return seen


def _changed(array: Array, place: tuple[int, int], rng: np.random.Generator, attempt: int) -> Array:
    other = array.copy()
    if array.dtype.kind == "f":
        size = 3.0 * 10.0**attempt
        other[place] += np.asarray(size * rng.standard_normal(array.shape[-1]), array.dtype)
    else:  # ids are given without padding: changing one to pad_id would change the mask
        choices = [i for i in np.unique(array).tolist() if i != array[place]]
        other[place] = choices[attempt % len(choices)]
    return other


def _moved(after: Array, before: Array) -> Array:
    """(B, T): whether any feature moved by a bit."""
    same = (after == before) | (np.isnan(after) & np.isnan(before))
    moved: Array = ~same.all(-1)
    return moved


def _output(component: JudgedComponent, inputs: Mapping[str, Any], name: str) -> Array:
    seen = component(**inputs)
    expect(name in seen, f"{component.operation} returned {sorted(seen)}, should return {name}")
    record = operation_of(component.operation)
    axes = len(record.gives[name].split())
    wanted = np.shape(inputs[record.streams[0]])[: axes - 1]
    if seen[name].shape[:-1] != wanted:
        raise Violation(f"{name} has shape {seen[name].shape}, should begin with {wanted}")
    found: Array = seen[name] if axes == 3 else seen[name][:, None]  # one answer for a row: T = 1
    return found


def by_gradient(
    component: JudgedComponent, inputs: Mapping[str, Any], required: Maps, judged: Array, *, seed: int = 0
) -> Maps:
    """A random cotangent at one output place at a time: it depends on inputs whose gradient is not zero."""
    rng = np.random.default_rng([seed, 8])
    seen = {name: np.zeros_like(wanted) for name, wanted in required.items()}
    for row, position in np.argwhere(judged):
        cotangent = np.zeros_like(inputs["x"])
        cotangent[row, position] = rng.standard_normal(cotangent.shape[-1])
        found = component.gradients(inputs, {"output": cotangent}).inputs
        for name in required:
            expect(name in found, f"the gradient of {name} is missing")
            if found[name].shape != np.shape(inputs[name]):
                raise Violation(f"the gradient of {name} has shape {found[name].shape}")
            seen[name][row, position] = (found[name] != 0).any(-1)
    return seen
