"""Every operation meets large sizes, and masks that hide leading keys."""

import numpy as np
import pytest
from hypothesis import strategies as st

from attest.boundary import JudgedImplementation
from attest.contract import ShapePolicy
from attest.evidence import collecting
from attest.judging.cases import parse_value
from attest.judging.laws import FORMULA, law_holds
from attest.judging.property import _registry, parse_drawn, run_property
from attest.judging.regimes import HEADS, ROWS, RUNS, hiding_mask, large_examples
from attest.milestones.m01_attention.cases.attention import AttentionCase
from attest.milestones.m02_multi_head.cases.multi_head import MultiHeadCase
from attest.milestones.m03_feed_forward_and_embeddings.cases.embedding import PositionCase, TokenCase
from attest.milestones.m03_feed_forward_and_embeddings.cases.feed_forward import FeedForwardCase
from attest.milestones.m04_layers.cases.layers import LayerCase, NormCase
from attest.milestones.m09_models_of_today.cases.feed_forward import GatedCase
from attest.outcomes import Violation
from attest.reference.implementation import ReferenceImplementation
from attest.reference.parts.feed_forward import FeedForward


class Pinned(ReferenceImplementation):
    """The reference with the shape policy of a compiled implementation."""

    shape_policy = ShapePolicy(min_size=2, one_config=True, always_mask=True)


@pytest.mark.parametrize(
    ("case", "sizes"),
    [
        (AttentionCase(), {"T": 130, "S": 130, "d_k": 72, "d_v": 72}),
        (MultiHeadCase(own=True), {"T": 130, "S": 130, "H": 4, "D": 72}),
        (FeedForwardCase(), {"T": 130, "D": 72, "d_ff": 260}),
        (GatedCase(), {"T": 130, "D": 72, "d_ff": 260}),
        (PositionCase(), {"T": 1200, "max_len": 1200, "D": 72}),
        (TokenCase(), {"T": 1200, "V": 300, "D": 72}),
        (NormCase(), {"T": 130, "D": 72}),
        (LayerCase(part="decoder"), {"T": 130, "S": 130, "N": 6, "D": 72, "F": 260, "H": 4}),
    ],
    ids=str,
)
def test_a_case_is_enlarged_by_what_its_fields_stand_for(case, sizes):
    large = case.enlarged(72)
    assert {name: getattr(large, name) for name in sizes} == sizes
    assert parse_value(str(large)) == large
    assert np.isfinite(large.output.value).all()  # the sizes fit each other


def test_ids_of_a_large_case_go_beyond_eight_bits():
    assert TokenCase(seed=3).enlarged(72).ids.max() > 255


def test_a_large_case_keeps_to_the_shape_policy():
    pinned = JudgedImplementation(Pinned())
    case = LayerCase(part="encoder").enlarged(96).fitted(pinned)
    assert (case.D, case.N, case.T) == (8, 2, 130)
    tokens = TokenCase(lookup="input_embedding").enlarged(96).fitted(pinned)
    assert (tokens.T, tokens.max_len) == (64, 64)


def test_each_operation_has_its_large_cases_and_one_of_them_a_mask():
    drawn = [
        {"case": LayerCase(part=part, mask=mask, seed=seed)}
        for seed, (part, mask) in enumerate(
            (("encoder", "none"), ("encoder", "none"), ("encoder", "keys"), ("decoder", "none"))
        )
    ]
    found = [e["case"] for e in large_examples(drawn, 2)]
    crowded = [(c.part, c.mask, c.T) for c in found if c.B == ROWS]
    assert crowded == [("encoder", "keys", 1), ("decoder", "none", 1)]
    headed = [(c.part, c.mask, c.D) for c in found if c.H == HEADS]
    assert headed == [("encoder", "keys", 80), ("decoder", "none", 80)]
    large = [(c.part, c.mask, c.D, c.dtype) for c in found if c.B != ROWS and c.H != HEADS]
    assert large == [
        ("encoder", "none", 72, "float32"),
        ("encoder", "keys", 96, "float64"),  # the sharp judge meets one
        ("decoder", "none", 72, "float32"),
    ]
    assert large_examples([{"number": 3}], 2) == []


class tail_lost(FeedForward):
    def features(self, x, p):
        from attest.reference import ops

        inner = super().features(x, p)
        return ops.scale(inner, (np.arange(inner.shape[-1]) < 256).astype(float))


def test_a_failure_of_a_large_case_prints_a_line_that_replays_it():
    law_holds(FORMULA, "X.2", st.just(FeedForwardCase(D=3)), "feed_forward", name="formula")
    (found,) = _registry.pop("X.2")
    broken = JudgedImplementation(ReferenceImplementation(tail_lost))
    with collecting() as evidence, pytest.raises(Violation) as first:
        run_property(found, broken, profile="quick", seed=0)
    assert "T=130 D=72 d_ff=260" in first.value.case
    assert parse_drawn(first.value.case)["case"].d_ff == 260
    assert evidence.examples > 1
    with pytest.raises(Violation) as again:
        run_property(found, broken, profile="quick", seed=0, witness=first.value.case)
    assert again.value.seen == first.value.seen


def test_a_mask_shows_a_key_at_any_place_and_hides_leading_runs():
    masks = np.concatenate([hiding_mask(np.random.default_rng(i), (4, 1, 9))[:, 0] for i in range(200)])
    assert masks.any(-1).all()
    leading = set(masks.argmax(-1))
    assert leading >= {0, 1, 2, 4, 8}
    long = hiding_mask(np.random.default_rng(0), (2, 1, 130))
    assert long[0, 0].argmax() >= RUNS[-1]


def test_under_a_causal_mask_every_query_still_sees_a_key():
    for seed in range(50):
        case = AttentionCase(B=2, T=5, S=7, mask="pairs", causal=True, seed=seed)
        assert case.visible.any(-1).all()
        layer = LayerCase(part="decoder", B=2, T=6, mask="shared", seed=seed)
        assert layer.visible.any(-1).all()


def test_a_stream_that_a_norm_reads_first_meets_numbers_beyond_half_precision():
    pre, post = (LayerCase(part="encoder_layer", B=2, T=3, norm=norm) for norm in ("pre", "post"))
    assert post.beyond_half() == post  # its scores would be those of the raw numbers
    assert AttentionCase().beyond_half() == AttentionCase()
    found = [e["case"].regime for e in large_examples([{"case": pre}, {"case": post}], 2)]
    assert found.count("beyond_half") == 1
    assert np.abs(pre.beyond_half().inputs["x"]).max() > 65504
    assert np.isfinite(pre.beyond_half().output.bound).all()
    assert np.isfinite(pre.beyond_half().but(dtype="float16").inputs["x"]).all()
