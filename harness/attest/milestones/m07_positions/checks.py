"""What M7 asks in numbers of its own."""

from __future__ import annotations

import math

import numpy as np

from attest.boundary import JudgedImplementation
from attest.checks.arrays import expect, expect_close, expect_shape
from attest.contract import Array
from attest.milestones.m07_positions.cases.models import cuts
from attest.milestones.m07_positions.cases.self_attention import SelfAttentionCase
from attest.milestones.m09_models_of_today.cases.language_models import LanguageModelCase
from attest.outcomes import Expected, NotClaimed
from attest.reference.oracle import EPSILON


def leave_out_unless_offered(impl: JudgedImplementation, operation: str) -> None:
    """A criterion of several operations is judged on those that are there, and on none it is not claimed."""
    if not impl.offers(operation):
        raise NotClaimed(f"{operation} is not offered")


def expect_the_same_in_training(impl: JudgedImplementation, case: SelfAttentionCase) -> None:
    """In train mode, where no dropout is configured, the output is that of the formula."""
    component = case.loaded(impl)
    if not hasattr(component.component, "train"):
        raise NotClaimed(f"{case.operation} has no train mode")
    component.train(case.seed)
    try:
        seen = component(**case.inputs)["output"]
    finally:
        component.eval()
    expect_close(seen, case.output, "output in train mode without dropout", factor=component.widening)


def slopes_of(heads: int) -> Array:
    """(H): the slopes by recursion, as the paper's code makes them; the reference has closed forms.

    https://github.com/ofirpress/attention_with_linear_biases, get_slopes
    """
    exponent = math.log2(heads)
    if exponent.is_integer():
        ratio = 2.0 ** (-8 / heads)
        return np.array([ratio ** (i + 1) for i in range(heads)])
    below = 2 ** math.floor(exponent)
    return np.concatenate([slopes_of(below), slopes_of(2 * below)[0::2][: heads - below]])


def most_moved(seen: Expected, before: Expected, order: Array) -> tuple[tuple[int, ...], float, float]:
    """Where the formula moves most when tokens come in another order, by how much, and the bound there."""
    moved: Array = np.abs(seen.value[:, order] - before.value)
    place = tuple(int(i) for i in np.unravel_index(int(moved.argmax()), moved.shape))
    bounds = [np.broadcast_to(b, moved.shape)[place] for b in (seen.bound[:, order], before.bound)]
    return place, float(moved[place]), float(sum(bounds))


def expect_alibi(weights: Array, case: SelfAttentionCase) -> None:
    """log w(i, j) - log w(i, i) is minus the slope times the distance, where a weight is a normal number."""
    expect_shape(weights, (case.B, case.H, case.T, case.T), "weights")
    far = np.abs(case.positions[:, None, :] - case.positions[:, :, None])[:, None]
    own: Array = np.diagonal(weights, axis1=-2, axis2=-1)[..., None]
    wanted = -slopes_of(case.H)[:, None, None] * far
    seen = weights > 1e-30  # below, float32 has fewer digits
    with np.errstate(divide="ignore"):
        found = np.log(weights.astype(np.float64)) - np.log(own.astype(np.float64))
    # A weight is the exponential of a number of at most 70, rounded, over a sum of T terms.
    tolerance = (16 + case.T) * EPSILON[case.dtype] * (1 + np.abs(wanted))
    error = np.where(seen, np.abs(found - wanted) / tolerance, 0.0)
    at = tuple(int(i) for i in np.unravel_index(int(error.argmax()), error.shape))
    told = f"the logarithm of weights{list(at)} lies {found[at]:.6g} from that of its query's own key"
    expect(error[at] <= 1.0, f"{told}, should be {np.broadcast_to(wanted, found.shape)[at]:.6g}")


def expect_buckets(seen: Array, wanted: Array, offsets: Array) -> None:
    """Whole numbers, each the bucket of its offset."""
    expect_shape(seen, wanted.shape, "relative_buckets")
    wrong = np.argwhere(seen != wanted)
    if len(wrong):
        at = tuple(int(i) for i in wrong[0])
        told = f"the bucket of offset {int(offsets[at])} is {seen[at]}, should be {int(wanted[at])}"
        expect(False, f"{told} ({len(wrong)} of {seen.size} are wrong)")


def expect_steps(impl: JudgedImplementation, case: LanguageModelCase, cut: int) -> None:
    """The ids read in steps of several sizes have the logits of the full pass."""
    if "cache" not in impl.claims.features:
        raise NotClaimed("decoding with a cache is not claimed")
    model = case.loaded(impl)
    state, seen, first = model.start(case.B), [], 0
    for size in cuts(cut, case.T):
        logits, state = model.step(state, case.ids[:, first : first + size])
        expect_shape(logits, (case.B, size, case.V), "the logits of a step")
        seen.append(logits)
        first += size
    found = case.specified(np.concatenate(seen, axis=1), case.output.value)
    expect_close(found, case.output, "the logits of a step", factor=2 * model.widening)


def expect_rows_alone(impl: JudgedImplementation, case: LanguageModelCase) -> None:
    """Each row without its padding has the logits that it has with it."""
    model = case.loaded(impl)
    whole = model(**case.inputs)["logits"].astype(np.float64)
    expect_shape(whole, case.output.value.shape, "logits")
    for row, real in enumerate(case.real):
        ids = np.repeat(case.ids[row : row + 1, real], case.least, axis=0)
        alone, bound = model(ids=ids)["logits"][:1], case.output.bound[row : row + 1, real]
        wanted = Expected(whole[row : row + 1, real], bound)
        expect_close(alone, wanted, f"the logits of row {row} alone", factor=2 * model.widening)
