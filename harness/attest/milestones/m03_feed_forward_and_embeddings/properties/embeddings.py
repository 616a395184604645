"""M3: token lookup, positions, and their sum. Shapes: ids (B, T), table (V, D), x (B, T, D)."""

from __future__ import annotations

import numpy as np
from hypothesis import strategies as st

from attest.boundary import JudgedComponent, JudgedImplementation
from attest.checks.arrays import (
    expect,
    expect_close,
    expect_finite,
    expect_gradients,
    expect_near,
    expect_refused,
    expect_same_bits,
    expect_shape,
    expect_zero,
)
from attest.contract import Array
from attest.contract.parameters import token_tables
from attest.evidence import note_case
from attest.judging.laws import FORMULA, law_holds
from attest.judging.options import offered_form
from attest.judging.property import given, verifies
from attest.milestones.m03_feed_forward_and_embeddings.cases.embedding import (
    LimitCase,
    PositionCase,
    TokenCase,
    position_cases,
    token_cases,
)
from attest.outcomes import Expected


def positions(impl: JudgedImplementation, case: PositionCase, x: Array | None = None) -> Array:
    """What positional_encoding makes of x, of zeros where none is given."""
    return impl.build("positional_encoding", case.config)(x=case.nothing if x is None else x)["output"]


@verifies("M3.3", large=2)
@given(case=token_cases())
def ids_look_up_their_rows(impl: JudgedImplementation, case: TokenCase) -> None:
    """Every id from 0 to the last, padding included, gives its row to the bit."""
    component = case.loaded(impl)
    for ids in (case.ids, case.every_id):
        expect_same_bits(component(ids=ids)["output"], case.table[ids], "output, against the rows,")


@verifies("M3.3", effort=0.5)
@given(case=token_cases())
def the_table_is_learned(impl: JudgedImplementation, case: TokenCase) -> None:
    """The table (V, D) is the only parameter, and other values give other outputs."""
    component = case.loaded(impl)
    found = component.parameters()
    expect(set(found) == {"weight"}, f"the parameters are {sorted(found)}, should be weight alone")
    expect_shape(found["weight"], (case.V, case.D), "weight")
    expect_same_bits(found["weight"], case.table, "weight, read back,")
    other = (-case.table[::-1]).copy()
    component.load({"weight": other})
    expect_same_bits(component(ids=case.ids)["output"], other[case.ids], "output after loading other rows")


@verifies("M3.3a")
@given(case=token_cases(), beyond=st.sampled_from(("size", "above", "minus_one", "minus_size", "far")))
def ids_outside_the_vocabulary_are_refused(impl: JudgedImplementation, case: TokenCase, beyond: str) -> None:
    """An id outside the vocabulary is refused anywhere in the input."""
    wrong = {"size": case.V, "above": case.V + 3, "minus_one": -1, "minus_size": -case.V, "far": 10**6}[
        beyond
    ]
    ids = case.ids.copy()
    ids.flat[case.seed % ids.size] = wrong
    for operation in ("token_embedding", "input_embedding"):
        if impl.offers(operation):
            component = case.but(lookup=operation).loaded(impl)
            expect_refused(
                lambda component=component: component.component(ids=ids.copy()),  # type: ignore[misc]
                f"{operation} of id {wrong} in a vocabulary of {case.V}",
            )


@verifies("M3.4", large=2)
@given(case=position_cases())
def positions_are_sines_and_cosines(impl: JudgedImplementation, case: PositionCase) -> None:
    """Zeros in give the table out: sines and cosines in turn, an odd width ending in a sine."""
    seen = positions(impl, case)
    wanted = Expected(case.table.value, case.table.bound * impl.factor("positional_encoding"))
    expect_close(seen, wanted, "the encoding")


@verifies("M3.4", effort=0.4)
@given(case=position_cases(longest=40))
def positions_are_added_to_the_input(impl: JudgedImplementation, case: PositionCase) -> None:
    """Positions are added to the input once, neither multiplied nor joined."""
    wanted = case.output
    bound = wanted.bound + (1e-6 + 1.5e-7 * case.T if case.dtype == "float32" else 0.0)
    expect_close(positions(impl, case, case.x), Expected(wanted.value, bound), "output")


@verifies("M3.4")
def positions_of_width_four(impl: JudgedImplementation) -> None:
    """The table of width 4 equals one worked out by hand."""
    case = PositionCase(T=2, D=4, max_len=8, dtype=impl.dtypes[0])
    note_case("positions 0 and 1 of width 4", "worked by hand")
    wanted = np.array([[[0, 1, 0, 1], [0.841471, 0.540302, 0.0099998, 0.99995]]])
    tolerance = 2e-6 if case.dtype in ("float32", "float64") else 1e-2
    expect_near(positions(impl, case), wanted, tolerance, "the encoding")


@verifies("M3.4")
@given(case=position_cases(longest=200, even=True), shift=st.integers(0, 40))
def pairs_turn_by_a_constant_angle(impl: JudgedImplementation, case: PositionCase, shift: int) -> None:
    """Squares of a pair sum to one, and the product of rows p and p + k depends on k alone."""
    case = case.but(T=case.T + shift, max_len=case.max_len + shift, B=1).fitted(impl)
    k = min(shift, case.T - 1)
    seen = positions(impl, case)
    expect_shape(seen, (case.B, case.T, case.D), "the encoding")
    expect_finite(seen, "the encoding")
    pairs = seen[0, :, : case.D // 2 * 2].astype(np.float64).reshape(case.T, -1, 2)
    p = np.arange(case.T - k)[:, None]
    eased = 1.0 if case.dtype in ("float32", "float64") else 1e4
    allowed = eased * (2e-6 + 3e-7 * np.arange(case.T)[:, None])
    expect_close((pairs**2).sum(-1), Expected(np.ones(pairs.shape[:2]), allowed), "the squares of a pair")
    products = (pairs[: case.T - k] * pairs[k:]).sum(-1)
    alike = np.broadcast_to(products[:1], products.shape)
    expect_close(
        products,
        Expected(alike, eased * (2e-6 + 3e-7 * (p + k))),
        f"the product of the rows of positions p and p + {k}, against p = 0,",
    )


@verifies("M3.5")
@given(case=position_cases(longest=64))
def positions_depend_on_nothing_else(impl: JudgedImplementation, case: PositionCase) -> None:
    """Positions do not depend on the seed, the length, the batch row or earlier calls."""
    seen = positions(impl, case)
    expect_close(seen, case.table, "the encoding")
    other = impl.build("positional_encoding", case.config.but(seed=1))
    expect_same_bits(other(x=case.nothing)["output"], seen, "the encoding built with another seed")
    first = case.but(T=max(1, case.T // 2), B=1).fitted(impl)
    bound = np.broadcast_to(2 * case.table.bound, (case.B, case.T, 1))
    wanted = Expected(seen[:1, : first.T].astype(np.float64), bound[:1, : first.T])
    expect_close(positions(impl, first), _repeated(wanted, first.B), "the encoding of a shorter input")
    rows = Expected(np.broadcast_to(seen[:1].astype(np.float64), seen.shape), bound[:1])
    expect_close(seen, rows, "the encoding of another batch row")


def _repeated(wanted: Expected, rows: int) -> Expected:
    value = np.broadcast_to(wanted.value, (rows, *wanted.value.shape[1:]))
    return Expected(value, wanted.bound)


@verifies("M3.5", effort=0.5)
@given(case=position_cases(longest=24))
def positions_are_not_learned(impl: JudgedImplementation, case: PositionCase) -> None:
    """There are no parameters, and training mode and gradients leave the table the same to the bit."""
    component = impl.build("positional_encoding", case.config)
    learned = sorted(component.parameters())
    expect(not learned, f"positional_encoding has the parameters {', '.join(learned)}, should have none")
    before = component(x=case.nothing)["output"]
    if hasattr(component.component, "train"):
        component.train(case.seed)
        component(x=case.x)["output"]
        component.eval()
    expect_same_bits(component(x=case.nothing)["output"], before, "the encoding after train and eval")


@verifies("M3.5")
def max_len_is_reached_and_not_passed(impl: JudgedImplementation) -> None:
    """Position max_len - 1 is encoded and position max_len refused, also for max_len = 1."""
    # A table of one row would broadcast to any length, so a length of 1 is among these.
    limits = (
        LimitCase(part=part, B=B, max_len=max_len, dtype=impl.dtypes[0]).fitted(impl)
        for max_len in (1, 2, 5, 33)
        for part in ("positional_encoding", "input_embedding")
        for B in (1, 3)
        if impl.offers(part)
    )
    for case in dict.fromkeys(limits):
        note_case(str(case), "refusal")
        expect_limit(impl, case)


def expect_limit(impl: JudgedImplementation, case: LimitCase) -> None:
    """At max_len there is an answer, at max_len + 1 an exception."""
    component, longest = impl.build(case.part, case.config), case.max_len
    if longest >= case.least:
        seen = component(**case.of_length(longest))["output"]
        expect_shape(seen, (case.B, longest, component.config.d_model), f"output at length {longest}")
    beyond = case.of_length(longest + 1)
    what = f"{case.part} of {longest + 1} positions with max_len={longest}"
    expect_refused(lambda: component.component(**beyond), what)


INPUT = ("input_embedding",)

law_holds(
    FORMULA,
    "M3.6",
    token_cases(lookups=INPUT),
    *INPUT,
    name="tokens_are_scaled_and_positions_added_once",
    sentence="row * sqrt(D) + position, or row + position with scale_embeddings false.",
)


@verifies("M3.6", effort=0.5)
@given(case=token_cases(min_length=2, lookups=INPUT))
def the_factor_is_read_off_differences(impl: JudgedImplementation, case: TokenCase) -> None:
    """Two tables at the same positions give outputs that differ by the factor times their difference."""
    component = case.loaded(impl)
    first = component(ids=case.ids)["output"].astype(np.float64)
    expect_finite(first, "output")
    moved, bound = case.table[::-1].copy(), case.output_for(parameters={"weight": case.table[::-1]}).bound
    component.load({"weight": moved})
    second = component(ids=case.ids)["output"]
    factor = np.sqrt(case.D) if case.scaled else 1.0
    step = factor * (moved.astype(np.float64) - case.table.astype(np.float64))[case.ids]
    expect_shape(second, step.shape, "output")
    expect_close(second, Expected(first + step, 2 * (case.output.bound + bound)), "output for another table")


@verifies("M3.9")
def the_pad_row_starts_at_zero(impl: JudgedImplementation) -> None:
    """The pad row is zero in a new table and in both tables of a new model."""
    for operation in ("token_embedding", "input_embedding", "transformer"):
        for pad_id in (0, 1, 6) if impl.offers(operation) else ():
            note_case(f"a new {operation} with pad_id={pad_id}", "init")
            for name, table in tables_of_a_new(impl, operation, pad_id).items():
                expect_zero(table[pad_id], f"row {pad_id} of {name} in a new {operation}")


def tables_of_a_new(impl: JudgedImplementation, operation: str, pad_id: int) -> dict[str, Array]:
    """The embeddings of a component as it was built, before any load."""
    case = TokenCase(V=7, D=8, pad_id=pad_id, dtype=impl.dtypes[0])
    config = case.config.but(num_heads=2, num_encoder_layers=1, num_decoder_layers=1, seed=5)
    config = impl.with_run_options(offered_form(impl, operation, config))
    component = JudgedComponent(operation, impl.construct(operation, config), config, impl)
    names = token_tables(operation, config)
    found = component.parameters()
    for name in names:
        expect(name in found, f"{name} is not among the parameters of {operation}")
        expect_shape(found[name], (7, 8), name)
    return {name: found[name] for name in names}


@verifies("M3.9a")
@given(case=token_cases(), operation=st.sampled_from(("token_embedding", "input_embedding")))
def the_pad_row_gets_no_gradient(impl: JudgedImplementation, case: TokenCase, operation: str) -> None:
    """The pad row gets no gradient, for any number of pads."""
    if not impl.offers(operation):
        operation = "token_embedding"
    ids = case.ids.copy()
    ids[:, -1] = case.pad_id
    seen = case.but(lookup=operation).loaded(impl).gradients({"ids": ids}, case.cotangents_everywhere())
    expect_shape(seen.parameters["weight"], (case.V, case.D), "the gradient of weight")
    expect_zero(seen.parameters["weight"][case.pad_id], "the gradient of the pad row")


@verifies("M3.9a")
def the_pad_row_gets_no_gradient_from_many_pads(impl: JudgedImplementation) -> None:
    """The pad row gets no gradient from over a thousand tokens."""
    # More than 1000 ids: there torch's kernel gave the pad row a gradient once
    # (https://github.com/pytorch/pytorch/issues/26302).
    case = TokenCase(B=2, T=1100, V=9, D=8, pad_id=3, max_len=1100).fitted(impl)
    note_case(str(case), "long")
    seen = case.loaded(impl).gradients({"ids": case.ids}, case.cotangents_everywhere())
    expect_shape(seen.parameters["weight"], (case.V, case.D), "the gradient of weight")
    expect_zero(seen.parameters["weight"][case.pad_id], "the gradient of the pad row")


@verifies("M3.10b")
@given(case=token_cases(min_length=3))
def repeated_tokens_add_up(impl: JudgedImplementation, case: TokenCase) -> None:
    """The gradient of a row is the sum over all its uses in the batch, and zero without any."""
    case = case.sharpest(impl)
    seen = case.loaded(impl).gradients(case.inputs, case.cotangents())
    distance = case.gradients_for()["weight"].bound
    expect_gradients(seen, {"weight": Expected(case.summed(), distance)})
    absent = np.setdiff1d(np.arange(case.V), case.ids)
    expect_zero(seen.parameters["weight"][absent], "the gradient of a row that does not occur")
