"""How wrong answers relate to the right ones: a factor, a number added, nothing at all, an input given back.

A relation is stated only if it holds in every wrong answer, and only if it could have failed to.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from attest.contract import Array
from attest.diagnosis.answers import close
from attest.diagnosis.conditions import settings_of
from attest.diagnosis.traces import Trace, told
from attest.records.failure import Deviant, Spread

FEWEST = 4  # answers, or numbers in them, that a relation must hold for


@dataclass(frozen=True)
class Pair:
    """What was said, what is right, and what the call was given."""

    place: str
    seen: Array
    right: Array
    inputs: Mapping[str, Any]
    settings: Mapping[str, Any]


def relations(traces: Sequence[Trace]) -> Iterator[Deviant]:
    """For each kind of answer that is wrong, the first relation that holds everywhere."""
    by_place: dict[str, list[Pair]] = {}
    for trace in traces:
        for pair in _pairs(trace):
            by_place.setdefault(pair.place, []).append(pair)
    for place, pairs in by_place.items():
        found = _relation(place, pairs)
        if found is not None:
            yield found


def spread(traces: Sequence[Trace]) -> Spread | None:
    """Where several things are answered together: which are wrong, if others never are."""
    wrong, every, answers = set[str](), set[str](), 0
    for trace in traces:
        for k in trace.wrong:
            if trace.steps[k].raised or trace.right[k].raised:
                continue
            mine, right = (told(trace.steps, k, v) for v in (trace.steps[k].values, trace.right[k].values))
            common = mine.keys() & right.keys()
            if len(common) < 2:
                continue
            answers += 1
            every |= common
            wrong |= {name for name in common if not close(mine[name], right[name])}
    if answers < FEWEST or not wrong or wrong == every:
        return None
    return Spread(tuple(sorted(wrong)), tuple(sorted(every - wrong)), answers)


def _pairs(trace: Trace) -> Iterator[Pair]:
    for k in sorted(trace.wrong):
        step = trace.steps[k]
        if step.raised or trace.right[k].raised:
            continue
        mine, right = (told(trace.steps, k, v) for v in (step.values, trace.right[k].values))
        inputs = {n: v for n, v in step.kwargs.items() if isinstance(v, np.ndarray)}
        inputs |= {f"argument {i}": v for i, v in enumerate(step.args) if isinstance(v, np.ndarray)}
        for place in mine.keys() & right.keys():
            seen, wanted = mine[place], right[place]
            if seen.dtype.kind == "f" and wanted.size and not close(seen, wanted):
                yield Pair(
                    place, seen.astype(float), wanted.astype(float), inputs, settings_of(trace.steps, k)
                )


def _relation(place: str, pairs: Sequence[Pair]) -> Deviant | None:
    pairs = [p for p in pairs if p.seen.shape == p.right.shape] if _shapes_fit(pairs) else []
    if not pairs or sum(p.right.size for p in pairs) < FEWEST:
        return None
    count = len(pairs)
    if all(not p.seen.any() and p.right.any() for p in pairs):
        return Deviant("zero", place, answers=count)
    for name in set.intersection(*(set(p.inputs) for p in pairs)):
        if all(_is_input(p, name) for p in pairs) and any(p.seen.size >= FEWEST for p in pairs):
            return Deviant("input", place, name, count)
    for finder in (_factor, _offset, _order):
        found = finder(place, pairs)
        if found is not None:
            return found
    return None


def _shapes_fit(pairs: Sequence[Pair]) -> bool:
    return all(p.seen.shape == p.right.shape and np.isfinite(p.seen).all() for p in pairs) and all(
        np.isfinite(p.right).all() for p in pairs
    )


def _is_input(pair: Pair, name: str) -> bool:
    given = pair.inputs[name]
    return given.shape == pair.seen.shape and close(given.astype(float), pair.seen)


def _factor(place: str, pairs: Sequence[Pair]) -> Deviant | None:
    """One factor for all, one that a setting explains, or one of its own for each answer."""
    factors = []
    for p in pairs:
        size = float((p.right * p.right).sum())
        factor = float((p.seen * p.right).sum()) / size if size else 0.0
        if not factor or not close(p.seen, factor * p.right):
            return None
        factors.append(factor)
    if np.allclose(factors, 1.0, rtol=1e-3):
        return None  # nearly right answers are no multiple
    if np.allclose(factors, factors[0], rtol=1e-3):
        return Deviant("factor", place, f"{float(np.median(factors)):.4g}", len(pairs))
    named = _named_factor(pairs, factors)
    if named:
        return Deviant("factor", place, named, len(pairs))
    # One number is always some factor times another: it takes several in one answer.
    if min(p.right.size for p in pairs) >= FEWEST:
        return Deviant("factors", place, answers=len(pairs))
    return None


POWERS = {1.0: "{}", -1.0: "1 / {}", 0.5: "sqrt({})", -0.5: "1 / sqrt({})", 2.0: "{}^2", -2.0: "1 / {}^2"}


def _named_factor(pairs: Sequence[Pair], factors: Sequence[float]) -> str:
    """The power of a setting that is the factor in every answer."""
    for name in sorted(set.intersection(*(set(p.settings) for p in pairs))):
        values = [p.settings[name] for p in pairs]
        if not all(isinstance(v, int | float) and not isinstance(v, bool) and v > 0 for v in values):
            continue
        for power, text in POWERS.items():
            if np.allclose(factors, np.array(values, float) ** power, rtol=1e-3):
                return text.format(name)
    return ""


def _offset(place: str, pairs: Sequence[Pair]) -> Deviant | None:
    offsets = []
    for p in pairs:
        offset = float((p.seen - p.right).mean())
        scale = float(np.max(np.abs(p.right), initial=abs(offset)))
        if abs(offset) < 1e-2 * scale or not np.allclose(p.seen, p.right + offset, rtol=0, atol=1e-3 * scale):
            return None
        offsets.append(offset)
    same = np.allclose(offsets, offsets[0], rtol=1e-3, atol=1e-9)
    if same and len(pairs) >= FEWEST:
        return Deviant("offset", place, f"{float(np.median(offsets)):.4g}", len(pairs))
    named = _named_factor(pairs, offsets) or _named_factor(pairs, [-o for o in offsets])
    return Deviant("offset", place, named, len(pairs)) if named and len(pairs) >= FEWEST else None


def _order(place: str, pairs: Sequence[Pair]) -> Deviant | None:
    """The same numbers at other places."""
    if max(p.right.size for p in pairs) < FEWEST:
        return None
    if all(close(np.sort(p.seen.ravel()), np.sort(p.right.ravel())) for p in pairs):
        return Deviant("order", place, answers=len(pairs))
    return None
