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
from attest.contract import Array, Config, float_dtype
from attest.judging.evidence import note_case
from attest.judging.options import offered_form, sharpest
from attest.judging.property import given, verifies
from attest.milestones.m03_feed_forward_and_embeddings.cases.embedding import (
    PositionCase,
    TokenCase,
    position_cases,
    token_cases,
)
from attest.outcomes import Expected
from attest.reference.oracle import bounded_gradients


def with_table(impl: JudgedImplementation, operation: str, case: TokenCase) -> JudgedComponent:
    """token_embedding or input_embedding, loaded."""
    component = impl.build(operation, case.config)
    component.load({"weight": case.table})
    return component


def positions(impl: JudgedImplementation, case: PositionCase, x: Array | None = None) -> Array:
    """What positional_encoding makes of x, of zeros where none is given."""
    return impl.build("positional_encoding", case.config)(x=case.nothing if x is None else x)["output"]


@verifies("M3.3")
@given(case=token_cases())
def ids_look_up_their_rows(impl: JudgedImplementation, case: TokenCase) -> None:
    """To the bit, for every id from 0 to the last, the padding id included."""
    component = with_table(impl, "token_embedding", case)
    for ids in (case.ids, case.every_id):
        expect_same_bits(component(ids=ids)["output"], case.table[ids], "output, against the rows,")


@verifies("M3.3", effort=0.5)
@given(case=token_cases())
def the_table_is_learned(impl: JudgedImplementation, case: TokenCase) -> None:
    """It is the one parameter, of shape (V, D), and other values give other outputs."""
    component = with_table(impl, "token_embedding", case)
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
    """Wherever they stand in the input, and through the input embedding too."""
    wrong = {"size": case.V, "above": case.V + 3, "minus_one": -1, "minus_size": -case.V, "far": 10**6}[
        beyond
    ]
    ids = case.ids.copy()
    ids.flat[case.seed % ids.size] = wrong
    for operation in ("token_embedding", "input_embedding"):
        if impl.offers(operation):
            component = with_table(impl, operation, case)
            expect_refused(
                lambda component=component: component.component(ids=ids.copy()),  # type: ignore[misc]
                f"{operation} of id {wrong} in a vocabulary of {case.V}",
            )


@verifies("M3.4")
@given(case=position_cases())
def positions_are_sines_and_cosines(impl: JudgedImplementation, case: PositionCase) -> None:
    """Zeros go in, so what comes out is what was added; odd widths end in a sine."""
    seen = positions(impl, case)
    wanted = Expected(case.table.value, case.table.bound * impl.factor("positional_encoding"))
    expect_close(seen, wanted, "the encoding")


@verifies("M3.4", effort=0.4)
@given(case=position_cases(longest=40))
def positions_are_added_to_the_input(impl: JudgedImplementation, case: PositionCase) -> None:
    """Not multiplied, not joined, and the input once."""
    wanted = case.expected_for(case.x)
    bound = wanted.bound + (1e-6 + 1.5e-7 * case.T if case.dtype == "float32" else 0.0)
    expect_close(positions(impl, case, case.x), Expected(wanted.value, bound), "output")


@verifies("M3.4")
def positions_of_width_four(impl: JudgedImplementation) -> None:
    """Worked by hand."""
    case = PositionCase(T=2, D=4, max_len=8, dtype=impl.dtypes[0])
    note_case("positions 0 and 1 of width 4", "worked by hand")
    wanted = np.array([[[0, 1, 0, 1], [0.841471, 0.540302, 0.0099998, 0.99995]]])
    tolerance = 2e-6 if case.dtype in ("float32", "float64") else 1e-2
    expect_near(positions(impl, case), wanted, tolerance, "the encoding")


@verifies("M3.4")
@given(case=position_cases(longest=200, even=True), shift=st.integers(0, 40))
def pairs_turn_by_a_constant_angle(impl: JudgedImplementation, case: PositionCase, shift: int) -> None:
    """Squares of a pair sum to one; the product of rows p and p + k depends on k alone. No reference."""
    case = case.but(T=case.T + shift, max_len=case.max_len + shift, B=max(1, impl.policy.min_size)).fitted(
        impl
    )
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
    """Not on the seed, the length of the input, the batch row, or what was called before."""
    seen = positions(impl, case)
    expect_close(seen, case.table, "the encoding")
    other = impl.build("positional_encoding", case.config.but(seed=1))
    expect_same_bits(other(x=case.nothing)["output"], seen, "the encoding built with another seed")
    first = case.but(T=max(impl.policy.min_size, case.T // 2), B=max(impl.policy.min_size, 1))
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
    """No parameters, and the same to the bit after training mode and gradients."""
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
    """The last position is encoded, one more is refused; with one row nothing is broadcast."""
    for max_len in (1, 64) if impl.policy.one_config else (1, 2, 5, 33):
        for operation in ("positional_encoding", "input_embedding"):
            if impl.offers(operation):
                note_case(f"{operation} with max_len={max_len}", "refusal")
                reaches_and_stops(impl, operation, max_len)


def reaches_and_stops(impl: JudgedImplementation, operation: str, max_len: int) -> None:
    """At max_len there is an answer, at max_len + 1 an exception."""
    config = Config(d_model=6, num_heads=1, source_vocab=9, max_len=max_len, dtype=impl.dtypes[0])
    component = impl.build(operation, config)
    for batch in (max(1, impl.policy.min_size), 3):
        if max_len >= impl.policy.min_size:
            seen = component(**blank(operation, config, batch, max_len))["output"]
            expect_shape(seen, (batch, max_len, 6), f"output at length {max_len}")
        beyond = blank(operation, config, batch, max_len + 1)
        expect_refused(
            lambda beyond=beyond: component.component(**beyond),  # type: ignore[misc]
            f"{operation} of {max_len + 1} positions with max_len={max_len}",
        )


def blank(operation: str, config: Config, batch: int, length: int) -> dict[str, Array]:
    """Inputs of this size."""
    if operation == "input_embedding":
        return {"ids": np.ones((batch, length), np.int64)}
    return {"x": np.zeros((batch, length, config.d_model), float_dtype(config.dtype))}


@verifies("M3.6")
@given(case=token_cases())
def tokens_are_scaled_and_positions_added_once(impl: JudgedImplementation, case: TokenCase) -> None:
    """row * sqrt(D) + position, or row + position with scale_embeddings false."""
    seen = with_table(impl, "input_embedding", case)(ids=case.ids)["output"]
    expect_close(seen, case.expected, "output", factor=impl.factor("input_embedding"))


@verifies("M3.6", effort=0.5)
@given(case=token_cases(min_length=2))
def the_factor_is_read_off_differences(impl: JudgedImplementation, case: TokenCase) -> None:
    """Two tables at the same positions differ by the factor times their difference. No reference."""
    component = with_table(impl, "input_embedding", case)
    first = component(ids=case.ids)["output"].astype(np.float64)
    expect_finite(first, "output")
    moved, bound = case.table[::-1].copy(), case.expected_for(case.table[::-1]).bound
    component.load({"weight": moved})
    second = component(ids=case.ids)["output"]
    factor = np.sqrt(case.D) if case.scaled else 1.0
    step = factor * (moved.astype(np.float64) - case.table.astype(np.float64))[case.ids]
    expect_shape(second, step.shape, "output")
    expect_close(
        second, Expected(first + step, 2 * (case.expected.bound + bound)), "output for another table"
    )


@verifies("M3.9")
def the_pad_row_starts_at_zero(impl: JudgedImplementation) -> None:
    """In a new table, and in both tables of a new model."""
    for operation in ("token_embedding", "input_embedding", "transformer"):
        for pad_id in (0, 1, 6) if impl.offers(operation) else ():
            note_case(f"a new {operation} with pad_id={pad_id}", "init")
            for name, table in tables_of_a_new(impl, operation, pad_id).items():
                expect_zero(table[pad_id], f"row {pad_id} of {name} in a new {operation}")


def tables_of_a_new(impl: JudgedImplementation, operation: str, pad_id: int) -> dict[str, Array]:
    """The embeddings of a component nobody has loaded anything into."""
    case = TokenCase(V=7, D=8, pad_id=pad_id, dtype=impl.dtypes[0])
    config = case.config.but(num_heads=2, num_encoder_layers=1, num_decoder_layers=1, seed=5)
    config = impl.placed(offered_form(impl, operation, config))
    component = JudgedComponent(operation, impl.construct(operation, config), config, impl)
    names = (
        ("source_embedding.weight", "target_embedding.weight") if operation == "transformer" else ("weight",)
    )
    found = component.parameters()
    for name in names:
        expect(name in found, f"{name} is not among the parameters of {operation}")
        expect_shape(found[name], (7, 8), name)
    return {name: found[name] for name in names}


@verifies("M3.9a")
@given(case=token_cases(), operation=st.sampled_from(("token_embedding", "input_embedding")))
def the_pad_row_gets_no_gradient(impl: JudgedImplementation, case: TokenCase, operation: str) -> None:
    """However many pads there are."""
    if not impl.offers(operation):
        operation = "token_embedding"
    ids = case.ids.copy()
    ids[:, -1] = case.pad_id
    seen = with_table(impl, operation, case).gradients({"ids": ids}, case.cotangents())
    expect_shape(seen.parameters["weight"], (case.V, case.D), "the gradient of weight")
    expect_zero(seen.parameters["weight"][case.pad_id], "the gradient of the pad row")


@verifies("M3.9a")
def the_pad_row_gets_no_gradient_from_many_pads(impl: JudgedImplementation) -> None:
    """Over a thousand tokens: https://github.com/pytorch/pytorch/issues/26302."""
    case = TokenCase(B=2, T=1100, V=9, D=8, pad_id=3, max_len=1100).fitted(impl)
    note_case(str(case), "long")
    seen = with_table(impl, "token_embedding", case).gradients({"ids": case.ids}, case.cotangents())
    expect_shape(seen.parameters["weight"], (case.V, case.D), "the gradient of weight")
    expect_zero(seen.parameters["weight"][case.pad_id], "the gradient of the pad row")


@verifies("M3.10b")
@given(case=token_cases(min_length=3))
def repeated_tokens_add_up(impl: JudgedImplementation, case: TokenCase) -> None:
    """Over a sentence and over the batch; a row that does not occur gets nothing."""
    case = sharpest(impl, case)
    table, ids, cotangents = {"weight": case.table}, {"ids": case.ids}, case.cotangents()
    seen = with_table(impl, "token_embedding", case).gradients(ids, cotangents)
    distance = bounded_gradients("token_embedding", case.config, table, ids, cotangents)["weight"].bound
    expect_gradients(seen, {"weight": Expected(case.summed(), distance)})
    absent = np.setdiff1d(np.arange(case.V), case.ids)
    expect_zero(seen.parameters["weight"][absent], "the gradient of a row that does not occur")
