"""What an implementation that pays for every config is asked of the options it claims."""

from __future__ import annotations

from itertools import combinations, product

from attest.boundary import JudgedImplementation
from attest.contract import DECODER_ONLY, Config, ShapePolicy
from attest.contract.claims import claims_of
from attest.contract.covering import each_value, pairwise
from attest.judging.options import read_options
from attest.milestones.m06_generation.cases.generation import GenerationCase
from attest.milestones.m08_attention_variants.cases.heads import HeadsCase
from attest.milestones.m09_models_of_today.cases.language_models import LanguageModelCase
from attest.reference.implementation import ReferenceImplementation

COLUMNS = {"a": (0, 1, 2, 3), "b": (False, True), "c": ("x", "y", "z"), "d": (False, True)}


class Costly(ReferenceImplementation):
    """Claims as much as the reference, and pays for every config."""

    supports = {"positions": "any", "num_kv_heads": "any", "norm_kind": "any", "window": "any"}  # noqa: RUF012
    shape_policy = ShapePolicy(one_config=True)


class Cheap(Costly):
    shape_policy = ShapePolicy()


def test_every_pair_of_values_appears_in_some_row() -> None:
    rows = pairwise(COLUMNS)
    for one, other in combinations(COLUMNS, 2):
        together = {(row[one], row[other]) for row in rows}
        assert together == set(product(COLUMNS[one], COLUMNS[other])), f"pairs of {one} and {other}"
    assert len(rows) < 4 * 2 * 3 * 2


def test_every_pair_of_claimed_values_of_self_attention_is_drawn() -> None:
    """Kinds of positions with key heads, norms and windows, as an implementation that has them all claims."""
    claims = claims_of(Costly())
    names = ("positions", "num_kv_heads", "window")
    rows = claims.rows("self_attention", names)
    for one, other in combinations(names, 2):
        wanted = set(product(*(claims.values(name, "self_attention") for name in (one, other))))
        assert {(row[one], row[other]) for row in rows} == wanted


def test_every_value_appears_in_as_few_rows_as_can_be() -> None:
    rows = each_value(COLUMNS)
    assert len(rows) == 4 < len(pairwise(COLUMNS))
    for name, values in COLUMNS.items():
        assert {row[name] for row in rows} == set(values)
    assert rows[-1] == {"a": 0, "b": False, "c": "x", "d": False}


def test_columns_of_two_values_do_not_go_together() -> None:
    rows = each_value({"a": range(6), **dict.fromkeys("bcde", (False, True))})
    together = {tuple(row[name] for row in rows) for name in "bcde"}
    assert len(together) == 4


def test_a_column_without_a_value_has_no_row() -> None:
    assert each_value({"a": (1, 2), "b": ()}) == ()
    assert each_value({}) == ({},)


def configs(implementation: ReferenceImplementation, case: LanguageModelCase) -> set[Config]:
    judged = JudgedImplementation(implementation)
    return {case.but(pick=pick, regime="unit").fitted(judged).config.but(seed=0) for pick in range(1, 60)}


def test_cases_of_a_language_model_keep_to_few_configs_with_every_kind_of_positions() -> None:
    few, many = (configs(i, LanguageModelCase(B=2, T=4)) for i in (Costly(), Cheap()))
    assert len(few) <= LanguageModelCase.most_rows < len(many)
    kinds = {"sinusoidal", "learned", "rotary", "alibi", "relative", "none"}
    assert {config.positions for config in few} == kinds == {config.positions for config in many}


def test_what_a_criterion_wants_is_asked_with_all_else_changed_and_with_none() -> None:
    case = LanguageModelCase(B=2, T=4, wants="positions:rotary")
    few, many = (configs(i, case) for i in (Costly(), Cheap()))
    assert len(few) == 2 < len(many)
    assert {config.positions for config in few} == {"rotary"}
    assert {config.norm_kind for config in few} == {"layer", "rms"}
    assert {config.window is None for config in few} == {True, False}


def test_windows_stay_within_a_length_or_beyond_it_where_every_config_costs_a_build() -> None:
    judged = JudgedImplementation(Costly())
    drawn = [(T, W) for T in range(2, 12) for W in (1, 2, 3, T - 1, T, T + 1, T + 9)]
    cases = [HeadsCase(B=2, T=T, pick=1, wants=f"window:{W}").fitted(judged) for T, W in drawn]
    assert {case.W for case in cases} == {1, 3, 16}
    for case, (T, W) in zip(cases, drawn, strict=True):
        assert (case.W >= T) == (W >= T), f"window {W} of {T} positions became {case.W}"


def test_what_is_trained_and_written_with_keeps_to_two() -> None:
    judged = JudgedImplementation(Costly())
    drawn = [GenerationCase(B=2, S=3, seed=seed).of(DECODER_ONLY).fitted(judged) for seed in range(40)]
    assert len({case.options for case in drawn}) == 2
    assert all(read_options(case.options) for case in drawn)  # neither is the model of 2017
