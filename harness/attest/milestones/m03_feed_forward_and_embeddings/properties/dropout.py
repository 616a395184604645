"""M3: dropout at its places, and off in evaluation. Masks are True where a number was dropped."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import combinations

import numpy as np

from attest.boundary import JudgedComponent, JudgedImplementation
from attest.checks.arrays import (
    expect,
    expect_close,
    expect_finite,
    expect_near,
    expect_same_bits,
    expect_shape,
    expect_zero,
)
from attest.checks.statistics import expect_share
from attest.contract import Array, Config
from attest.evidence import note_case
from attest.judging.options import offered_form, takes
from attest.judging.property import verifies
from attest.milestones.m03_feed_forward_and_embeddings.cases.dropout import (
    NARROW,
    SUBLAYERS,
    BareLayer,
    EmbeddedSample,
    OpenAttention,
    QuietCase,
    disjoint_pairs,
    quiet_cases,
)
from attest.outcomes import Expected, NotOffered
from attest.reference.oracle import expected, random_parameters

RATES = (0.1, 0.7)  # below a half and above, where p and 1 - p change places
SCORE_SEEDS = range(7, 31)  # 24 masks of 30 weights tell a factor that is missing, with z near 13
VISIBLE = 0.02  # a weight that is clearly not a zero


def embedded(impl: JudgedImplementation, rate: float) -> tuple[EmbeddedSample, JudgedComponent]:
    """The sample and its component with the table loaded, in the most exact dtype."""
    sample = EmbeddedSample(rate=rate, dtype=impl.dtypes[-1]).fitted(impl)
    return sample, sample.loaded(impl)


@verifies("M3.7")
def embedded_input_is_dropped(impl: JudgedImplementation) -> None:
    """Each number is zero with probability p and otherwise times 1/(1-p), independently of the others."""
    for sample, component in dict(embedded(impl, rate) for rate in RATES).items():
        rate = sample.rate
        note_case(f"input_embedding B={sample.B} T={sample.T} D={sample.D} p={rate} seed=11", f"p={rate}")
        component.train(11)
        seen = component(ids=sample.ids)["output"]
        component.eval()
        expect_shape(seen, sample.kept.value.shape, "output")
        dropped = seen == 0
        wanted = Expected(np.where(dropped, 0.0, sample.kept.value), sample.kept.bound)
        expect_close(seen, wanted, "a number that was kept", factor=impl.factor("input_embedding"))
        expect_dropped(dropped, rate, "numbers of the embedded input dropped")


def expect_dropped(dropped: Array, rate: float, what: str) -> None:
    """(B, T, D): the share, and along each axis neighbours and halves independent."""
    expect_share(int(dropped.sum()), dropped.size, rate, what)
    for axis, name in enumerate(("batch rows", "positions", "features")):
        first, second = disjoint_pairs(dropped, axis)
        expect_independent(first, second, rate, f"{what} or kept alike in neighbouring {name}")
        first, second = np.split(dropped, 2, axis)
        expect_independent(first, second, rate, f"{what} or kept alike in both halves of the {name}")


def expect_independent(first: Array, second: Array, rate: float, what: str) -> None:
    """Two masks of rate p agree in p^2 + (1-p)^2 of their places."""
    expect_share(int((first == second).sum()), first.size, rate**2 + (1 - rate) ** 2, what)


@verifies("M3.7")
def dropout_is_a_function_of_the_seed(impl: JudgedImplementation) -> None:
    """The same seed gives the same bits after any other calls; another seed gives another mask."""
    sample, component = embedded(impl, 0.4)
    note_case(f"input_embedding B={sample.B} T={sample.T} D={sample.D} p=0.4 seeds 1, 2", "seeds")
    component.train(1)
    first = component(ids=sample.ids)["output"]
    expect_same_bits(component(ids=sample.ids)["output"], first, "output of a second call with one seed")
    component.train(2)
    other = component(ids=sample.ids)["output"]
    component(ids=sample.ids[:, ::-1].copy())
    component.train(1)
    again = component(ids=sample.ids)["output"]
    component.eval()
    expect_same_bits(again, first, "output after another seed and back")
    expect(not np.array_equal(first, other), "train(1) and train(2) dropped the same numbers")


@verifies("M3.10")
def gradients_follow_what_was_dropped(impl: JudgedImplementation) -> None:
    """The backward pass uses the mask of the forward pass and its factor."""
    if not impl.offers("input_embedding"):
        return
    sample, component = embedded(impl, 0.4)
    note_case(f"input_embedding B={sample.B} T={sample.T} D={sample.D} p=0.4 seed=5", "train")
    inputs, cotangents = sample.inputs, sample.cotangents()
    distance = sample.gradients_for()["weight"].bound
    component.train(5)
    dropped = component(**inputs)["output"] == 0
    seen = component.gradients(inputs, cotangents).parameters["weight"]
    component.eval()
    expect_shape(dropped, sample.kept.value.shape, "output")
    expect_close(
        seen, Expected(sample.gradient(dropped), 4 * distance), "the gradient of weight in train mode"
    )


@verifies("M3.7a")
def sublayers_of_a_pre_norm_layer_are_dropped(impl: JudgedImplementation) -> None:
    """out - x is a sum of the sublayers' constants, each dropped or times 1/(1-p)."""
    for operation in SUBLAYERS:
        for layer in dict.fromkeys(bare_layer(impl, operation, "pre", rate) for rate in RATES):
            if layer is not None:
                expect_each_dropped(read_sum(impl, layer), layer)


def bare_layer(impl: JudgedImplementation, operation: str, norm: str, rate: float) -> BareLayer | None:
    """None where this placement of the norm is not offered."""
    layer = BareLayer(part=operation, norm=norm, rate=rate, dtype=impl.dtypes[-1]).fitted(impl)
    note_case(
        f"{norm}-norm {operation} B={layer.B} T={layer.T} D={layer.D} p={layer.rate} seed=7",
        f"{norm}-norm",
        f"p={layer.rate}",
    )
    return layer if takes(impl, operation, layer.config) else None


def trained_output(impl: JudgedImplementation, layer: BareLayer, constants: dict[str, float]) -> Array:
    """One call in train mode."""
    component = layer.loaded(impl, layer.showing(constants))
    component.train(7)
    seen = component(**layer.inputs)["output"]
    component.eval()
    expect_shape(seen, layer.inputs["x"].shape, "output")
    expect_finite(seen, "output")
    return seen


def read_sum(impl: JudgedImplementation, layer: BareLayer) -> dict[str, Array]:
    """Which numbers of which sublayer were dropped, from one call."""
    moved = trained_output(impl, layer, layer.powers).astype(np.float64) - layer.inputs["x"]
    expect_zero(moved[..., 1::2], "output - x where every sublayer gives 0")
    added = moved[..., 0::2]
    everything = 2 ** len(layer.sublayers) - 1
    chosen = np.clip(np.rint(np.nan_to_num(added) * (1 - layer.rate)), 0, everything)
    wanted = Expected(chosen / (1 - layer.rate), np.where(chosen == 0, 1e-38, layer.tolerance))
    total = ", ".join(f"{c:g}" for c in layer.powers.values())
    expect_close(added, wanted, f"output - x, a sum of some of {total} over 1 - {layer.rate:g},")
    return {name: chosen.astype(int) >> i & 1 == 0 for i, name in enumerate(layer.sublayers)}


def expect_each_dropped(masks: Mapping[str, Array], layer: BareLayer) -> None:
    """Each sublayer at rate p; numbers, and sublayers among each other, independent."""
    for name, dropped in masks.items():
        expect_share(int(dropped.sum()), dropped.size, layer.rate, f"numbers dropped after {name}")
    together = np.concatenate(list(masks.values()), axis=-1)
    for axis, name in enumerate(("batch rows", "positions", "features")):
        first, second = disjoint_pairs(together, axis)
        expect_independent(first, second, layer.rate, f"dropped or kept alike in neighbouring {name}")
    pairs = list(combinations(masks.values(), 2))  # each pair at positions of its own
    first, second = (
        np.concatenate([pair[side][:, i :: len(pairs)] for i, pair in enumerate(pairs)], axis=1)
        for side in (0, 1)
    )
    expect_independent(first, second, layer.rate, "dropped or kept alike in two sublayers")


@verifies("M3.7a")
def sublayers_of_a_post_norm_layer_are_dropped(impl: JudgedImplementation) -> None:
    """Behind the norm each sublayer's constant is dropped or times 1/(1-p), one sublayer at a time."""
    for operation, sublayers in SUBLAYERS.items():
        layer = bare_layer(impl, operation, "post", 0.4)
        if layer is None and bare_layer(impl, operation, "pre", 0.4) is None:
            raise NotOffered(f"{operation} takes neither norm='pre' nor norm='post'")
        for index, name in enumerate(sublayers if layer is not None else ()):
            assert layer is not None
            tolerance = 1e-4 if layer.dtype not in NARROW else 0.1
            added, untouched = layer.undo_norms(trained_output(impl, layer, {name: 1.0}), index)
            nothing = np.zeros(untouched.shape)
            expect_near(untouched, nothing, tolerance, f"what reaches the norm beside x where {name} gives 0")
            kept = np.rint(np.clip(np.nan_to_num(added) * (1 - layer.rate), 0, 1))
            wanted = kept / (1 - layer.rate)
            expect_near(added, wanted, 2 * tolerance, f"what {name} adds, 0 or 1 over 1 - {layer.rate:g},")
            expect_share(int((kept == 0).sum()), kept.size, layer.rate, f"numbers dropped after {name}")


@verifies("M3.7a")
def scores_are_not_dropped(impl: JudgedImplementation) -> None:
    """Weights come through as they are or dropped at some rate; scores are never dropped."""
    for operation, sublayers in SUBLAYERS.items():
        for attention in sublayers[:-1]:
            shown = OpenAttention(part=operation, attention=attention, dtype=impl.dtypes[-1]).fitted(impl)
            if shown.dtype in NARROW or not takes(impl, operation, shown.config):
                continue
            note_case(f"pre-norm {operation}, {attention} shown, p=0.4 seed=7", "scores")
            expect_weights_kept(impl, shown)


def expect_weights_kept(impl: JudgedImplementation, shown: OpenAttention) -> None:
    """Each number is 0 or c w / (1-p), with one c: 1, or 1/(1-r) where weights are dropped at any rate r."""
    moved = np.stack([shown_in_training(impl, shown, seed) for seed in SCORE_SEEDS])
    whole = np.broadcast_to(shown.shown / (1 - shown.rate), moved.shape)
    factor = factor_of_weights(moved, whole)
    choices = np.stack([np.zeros(moved.shape), factor * whole])
    nearest = np.take_along_axis(choices, np.abs(choices - moved).argmin(0)[None], 0)[0]
    expect_near(moved, nearest, 1e-4, f"a weight of {shown.attention} after dropout")
    visible = whole > VISIBLE
    lost = int((nearest[visible] == 0).sum())
    # A mask may be shared by the rows of a batch and by the heads, as some libraries do. Numbers that fall
    # together count once.
    alike = shown.B * shown.H
    what = f"weights of {shown.attention} lost where those kept are multiplied by {factor:.4g} / (1 - p)"
    expect_share(round(lost / alike), int(visible.sum()) // alike, 1 - (1 - shown.rate) / factor, what)


def shown_in_training(impl: JudgedImplementation, shown: OpenAttention, seed: int) -> Array:
    """The weights as they come through in train mode."""
    component = shown.loaded(impl)
    component.train(seed)
    seen = component(**shown.inputs)["output"]
    component.eval()
    expect_shape(seen, shown.inputs["x"].shape, "output")
    expect_finite(seen, "output")
    return np.asarray(seen.astype(np.float64) - shown.inputs["x"])


def factor_of_weights(moved: Array, whole: Array) -> float:
    """What kept weights are multiplied by beside 1/(1-p), read off the larger ones; 1 where none is kept."""
    kept = (whole > VISIBLE) & (np.abs(moved) > 1e-4)
    factor = float(np.median(moved[kept] / whole[kept])) if kept.any() else 1.0
    expect(factor > 1 - 1e-3, f"kept weights are multiplied by {factor:.4g} / (1 - p), should be at least 1")
    return max(factor, 1.0)


@verifies("M3.8")
def evaluation_drops_nothing(impl: JudgedImplementation) -> None:
    """Eval is the formula, and train with p = 0 equals eval, for every operation with a rate."""
    for case in dict.fromkeys(case.fitted(impl) for case in quiet_cases(impl.dtypes[0])):
        if impl.offers(case.operation):
            config = offered_form(impl, case.operation, case.config)
            if case.operation == "input_embedding" or takes(impl, case.operation, config):
                note_case(str(case), case.operation)
                expect_quiet_evaluation(impl, case, config)


def expect_quiet_evaluation(impl: JudgedImplementation, case: QuietCase, config: Config) -> None:
    """Equal to the bit twice, after training mode, and to the formula; p = 0 in training mode too."""
    name, operation, inputs = case.record.output, case.operation, case.inputs
    parameters = random_parameters(operation, config, np.random.default_rng(6))
    wanted = expected(operation, config, parameters, inputs)[name]
    component = impl.build(operation, config)
    component.load(parameters)
    first = component(**inputs)[name]
    expect_close(first, wanted, f"{name} in eval", factor=impl.factor(operation))
    expect_same_bits(component(**inputs)[name], first, f"{name} of a second call in eval")
    if operation != "input_embedding" and not hasattr(component.component, "train"):
        return
    component.train(3)
    component(**inputs)
    component.eval()
    expect_same_bits(component(**inputs)[name], first, f"{name} in eval after train")
    undropped = impl.build(operation, config.but(dropout=0.0))
    undropped.load(parameters)
    undropped.train(3)
    seen = undropped(**inputs)[name]
    undropped.eval()
    expect_close(seen, wanted, f"{name} in train with p = 0", factor=impl.factor(operation))
