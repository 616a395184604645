"""Analytic gradients beside numerical ones, array by array, and a picture of where they differ."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from attest.boundary import JudgedImplementation
from attest.checks.differences import numerical_gradients, tolerance
from attest.contract import OPERATIONS, Array, Config, float_dtype
from attest.judging.inputs import inputs_of
from attest.reference.oracle import random_parameters

LENGTHS = {"B": 2, "T": 3, "S": 4}
MOST_DRAWN = 9  # arrays in a picture


@dataclass(frozen=True)
class Comparison:
    """One array: its gradient as the implementation says, and as differences say where they were taken."""

    name: str
    analytic: Array
    numerical: Array  # nan where no difference was taken
    scale: float  # the largest gradient of the array, or a hundredth of the largest of all
    allowed: float  # relative to the scale

    @property
    def errors(self) -> Array:
        """Of each entry, relative to the scale; nan where no difference was taken."""
        found: Array = np.abs(self.analytic - self.numerical) / self.scale
        return np.where(np.isfinite(self.analytic), found, np.inf)

    @property
    def worst(self) -> tuple[int, ...]:
        """The entry with the largest error."""
        at = int(np.nanargmax(np.where(np.isnan(self.numerical), np.nan, self.errors)))
        return tuple(int(i) for i in np.unravel_index(at, self.analytic.shape))

    @property
    def error(self) -> float:
        """The largest error."""
        return float(self.errors[self.worst])

    @property
    def right(self) -> bool:
        """Whether every entry that was looked at is within what is allowed."""
        return self.error <= self.allowed

    @property
    def looked_at(self) -> int:
        """How many entries."""
        return int((~np.isnan(self.numerical)).sum())


def gradcheck(
    judged: JudgedImplementation, operation: str, config: Config, *, seed: int, entries: int
) -> list[Comparison]:
    """Every floating input and parameter; at most `entries` of each, chosen by the seed; 0 means all."""
    rng = np.random.default_rng(seed)
    config = config.but(dtype=judged.sharpest)
    record = OPERATIONS[operation]
    component = judged.build(operation, config)
    parameters = random_parameters(operation, config, rng)
    component.load(parameters)
    inputs = inputs_of(record, config, LENGTHS, rng)
    outputs = component(**inputs)
    cotangents = {
        name: np.asarray(rng.standard_normal(outputs[name].shape)).astype(float_dtype(config.dtype))
        for name in record.gives
    }
    found = component.gradients(inputs, cotangents)
    analytic = {**found.inputs, **found.parameters}

    def places(x: Array) -> Iterator[tuple[int, ...]]:
        count = x.size if entries == 0 else min(entries, x.size)
        for at in sorted(rng.choice(x.size, count, replace=False).tolist()):
            yield tuple(int(i) for i in np.unravel_index(at, x.shape))

    wanted = numerical_gradients(component, inputs, parameters, cotangents, places)
    largest = max((float(np.nanmax(np.abs(g))) for g in wanted.values() if g.size), default=0.0)
    return [
        _comparison(name, analytic.get(name), want, largest, config.dtype)
        for name, want in wanted.items()
        if want.size
    ]


def _comparison(name: str, seen: Array | None, want: Array, largest: float, dtype: str) -> Comparison:
    """A gradient that is missing, or of another shape, counts as not a number."""
    usable = seen is not None and seen.shape == want.shape
    analytic = np.asarray(seen, np.float64) if usable else np.full(want.shape, np.nan)
    scale = max(float(np.nanmax(np.abs(want))), 1e-2 * largest, 1e-12)
    return Comparison(name, analytic, want, scale, tolerance(dtype))


def draw_errors(comparisons: list[Comparison], title: str, path: Path) -> None:
    """A map of each wrong array, dark where the two gradients differ, on a logarithmic scale."""
    from matplotlib.colors import LogNorm
    from matplotlib.figure import Figure

    wrong = [c for c in comparisons if not c.right][:MOST_DRAWN]
    columns = min(3, len(wrong))
    rows = -(-len(wrong) // columns)
    figure = Figure(figsize=(1 + 3.4 * columns, 0.8 + 2.8 * rows), layout="constrained")
    figure.suptitle(title)
    norm, image = LogNorm(wrong[0].allowed, 1.0, clip=True), None
    for i, comparison in enumerate(wrong):
        axes: Any = figure.add_subplot(rows, columns, i + 1)
        flat = _as_rows(comparison.errors)
        image = axes.imshow(np.maximum(flat, comparison.allowed), norm=norm, cmap="Reds", aspect="auto")
        axes.set_title(f"{comparison.name} {comparison.analytic.shape}", fontsize=9)
        axes.set_xlabel("last axis", fontsize=8)
        axes.set_ylabel("other axes", fontsize=8)
        axes.tick_params(labelsize=7)
        axes.locator_params(integer=True, min_n_ticks=1)
        axes.set_yticks(range(len(flat)) if len(flat) < 12 else axes.get_yticks()[1:-1])
    assert image is not None
    bar = figure.colorbar(image, ax=figure.axes, shrink=0.8)
    bar.set_label("|analytic - numerical| / largest gradient of the array", fontsize=8)
    figure.savefig(path, dpi=120)


def _as_rows(errors: Array) -> Array:
    """All axes but the last as one; entries that were not looked at stay empty."""
    finite = np.where(np.isinf(errors), 1.0, errors)
    return finite.reshape(-1, finite.shape[-1]) if finite.ndim > 1 else finite.reshape(1, -1)
