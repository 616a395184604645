"""Every law speaks about every component, and generic cases do what their properties rely on."""

import numpy as np
import pytest
from hypothesis import strategies as st

from attest.boundary import JudgedImplementation
from attest.contract import Form, Operation, ShapePolicy
from attest.contract import operation as registry
from attest.contract.operation import floats
from attest.judging.cases import parse_value
from attest.judging.laws import FORMULA, LAWS, Law, _declared, contradictions, law_holds, uncovered
from attest.judging.property import _registry, load_properties
from attest.milestones.m01_attention.cases.attention import AttentionCase
from attest.milestones.m02_multi_head.cases.multi_head import MultiHeadCase
from attest.milestones.m03_feed_forward_and_embeddings.cases.dropout import QuietCase
from attest.milestones.m03_feed_forward_and_embeddings.cases.embedding import TokenCase
from attest.milestones.m04_layers.cases.layers import LayerCase, NormCase
from attest.reference.implementation import ReferenceImplementation
from attest.spec import load_spec

# M4.2a is the formula of a stack with a norm behind it, and stands on the stack of layers itself.
OTHER_WAY_ROUND = {("M4.6", "M4.2a")}


class Pinned(ReferenceImplementation):
    """The reference with the shape policy of a compiled implementation."""

    shape_policy = ShapePolicy(min_size=2, one_config=True, always_mask=True)


def test_no_component_is_left_out_of_a_law_in_silence():
    load_properties()
    assert uncovered() == []
    assert contradictions() == []


def below(id: str) -> set[str]:
    """What a criterion stands on, at any depth."""
    direct = load_spec().by_id[id].stands_on
    return set(direct).union(*(below(other) for other in direct))


def test_a_law_stands_on_the_formula_of_its_operation():
    """So that a wrong formula is the one thing to fix, and not also every law that it breaks."""
    load_properties()
    milestones = [m.id for m in load_spec().milestones]
    wrong = set()
    for (law, operation), id in _declared.items():
        formula = _declared.get((FORMULA.name, operation), id)
        earlier = milestones.index(formula.split(".")[0]) <= milestones.index(id.split(".")[0])
        if law != FORMULA.name and id != formula and earlier and formula not in below(id):
            wrong.add((id, formula))
    assert wrong == OTHER_WAY_ROUND


def test_a_new_component_about_which_no_law_is_declared_is_found(monkeypatch):
    load_properties()
    new = Operation(
        name="brand_new",
        form=Form.COMPONENT,
        milestone="M99",
        takes={"x": floats("B T D")},
        gives={"output": "B T D"},
    )
    monkeypatch.setitem(registry._registered, "brand_new", new)
    assert uncovered() == [f"{law.name} of brand_new" for law in LAWS]


def test_a_policy_is_applied_where_a_case_is_fitted():
    pinned = JudgedImplementation(Pinned())
    free = MultiHeadCase(B=1, H=4, T=1, S=3, d=5, seed=1)
    case = free.fitted(pinned)
    assert (case.B, case.H, case.T, case.d, case.mask) == (2, 3, 2, 4, "all")
    assert (case.least, case.fixed) == (2, True)
    assert free.fitted(JudgedImplementation(ReferenceImplementation())) == free


@pytest.mark.parametrize(
    "case",
    [
        AttentionCase(B=3, H=2, T=4, S=5, d_k=3, d_v=2, mask="keys"),
        AttentionCase(B=4, T=4, S=5, d_k=3, d_v=2, mask="shared"),
        MultiHeadCase(B=3, H=2, T=3, S=5, d=2, mask="shared"),
        LayerCase(part="decoder", B=2, T=3, S=4, D=4, H=2, N=2, mask="pairs", memory_mask="keys"),
        TokenCase(B=3, T=4, lookup="input_embedding"),
        NormCase(B=2, T=3),
    ],
    ids=str,
)
def test_a_row_alone_is_that_row_of_the_batch(case):
    component = case.loaded(JudgedImplementation(ReferenceImplementation()))
    whole = component(**case.inputs)["output"]
    for least in (1, 2):
        for row in range(case.B):
            alone = component(**case.but(least=least).alone(row))["output"]
            assert len(alone) == least
            np.testing.assert_allclose(alone[0], whole[row], rtol=1e-5, atol=1e-6)


def test_a_case_prints_what_differs_from_the_default_and_reads_either_line():
    case = AttentionCase(B=2, S=3, mask="keys")
    assert str(case) == "attention[B=2 S=3 mask=keys]"
    assert parse_value(str(case)) == case
    full = "attention[regime=unit dtype=float32 seed=0 B=2 H=0 T=1 S=3 d_k=1 d_v=1 mask=keys causal=False]"
    assert parse_value(full) == case


def test_a_law_passes_over_what_is_not_needed_and_not_offered():
    class Nothing:
        name = "nothing"

    checked = []
    noting = Law("formula", "", lambda impl, case: checked.append(case))
    law_holds(noting, "X.1", st.just(NormCase()), "layer_norm", name="never", needed=False)
    law_holds(noting, "X.1", st.just(NormCase()), "layer_norm", name="always")
    optional, needed = _registry.pop("X.1")
    optional.check(JudgedImplementation(Nothing()), case=NormCase())
    assert checked == []
    needed.check(JudgedImplementation(Nothing()), case=NormCase())
    assert checked == [NormCase()]


def test_the_small_model_has_the_sizes_of_training_where_every_config_costs_a_build():
    free, pinned = QuietCase(part="transformer"), QuietCase(part="transformer", fixed=True)
    assert (free.config.d_model, pinned.config.d_model) == (8, 32)
    assert QuietCase(part="decoder").fitted(JudgedImplementation(Pinned())).part == "encoder_layer"
