"""The eager implementation's models of today: what is refused and in which words, what a past holds."""

import re

import numpy as np
import pytest

pytest.importorskip("torch")

from attest.contract import Config
from attest_impls.eager import Eager, positions

EAGER = Eager()
SMALL = Config(
    d_model=12,
    num_heads=6,
    num_kv_heads=2,
    d_ff=10,
    num_encoder_layers=1,
    num_decoder_layers=2,
    source_vocab=11,
    target_vocab=11,
    max_len=8,
    dropout=0.0,
    positions="rotary",
    dtype="float64",
)
RNG = np.random.default_rng(0)
IDS = RNG.integers(3, 11, (2, 6))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"num_kv_heads": 4}, "num_kv_heads=4 does not divide num_heads=6; choose a divisor of 6"),
        ({"num_kv_heads": 0}, "num_kv_heads=0 is not a positive integer"),
        ({"num_heads": 4, "num_kv_heads": None, "d_model": 12}, "rotary_fraction=1.0 of a head of width 3"),
        ({"rotary_fraction": 0.5}, "rotary_fraction=0.5 of a head of width 2 is not an even number"),
        ({"rotary_fraction": 1.5}, "rotary_fraction=1.5 is outside (0, 1]"),
        ({"rotary_base": 0.0}, "rotary_base=0.0 is not a positive number; give one, such as 10000"),
        (
            {"rotary_pairing": "thirds"},
            "rotary_pairing='thirds' is unknown; choose one of halves, interleaved",
        ),
        ({"positions": "absolute"}, "positions='absolute' is unknown"),
        ({"window": 0}, "window=0 is not a positive integer"),
        ({"head_width": 2.0}, "head_width=2.0 is not a positive integer"),
        (
            {"attention_scale": -1.0},
            "attention_scale=-1.0 is not a positive number; give None for 1 / sqrt(d)",
        ),
        ({"score_cap": 0.0}, "score_cap=0.0 is not a positive number; give None for no cap"),
        (
            {"positions": "relative", "relative_buckets": 2},
            "relative_buckets=2 is below 4; give two or more for each side",
        ),
        (
            {"positions": "relative", "relative_distance": 16},
            "relative_distance=16 is not above half of relative_buckets=32; give 17 or more",
        ),
        ({"norm_kind": "batch"}, "norm_kind='batch' is unknown; choose one of layer, rms"),
        ({"qk_norm": 1}, "qk_norm=1 is neither True nor False"),
        ({"pad_id": 2}, "pad_id=2, bos_id=1, eos_id=2 are not three different ids"),
    ],
)
def test_a_bad_config_of_a_language_model_is_refused_by_name(change, message):
    with pytest.raises(ValueError, match=re.escape(message)):
        EAGER.language_model(SMALL.but(**change))


def test_heads_of_a_width_of_their_own_need_not_divide_the_model():
    model = EAGER.language_model(SMALL.but(d_model=13, head_width=4))
    assert model.parameters()["decoder.0.self_attention.query.weight"].shape == (24, 13)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda m: m(ids=IDS + 5), "ids id=15 is outside the vocabulary of 11"),
        (lambda m: m.packed(ids=IDS, lengths=np.array([[4, 3], [1, 0]])), "do not fit rows of 6 ids"),
        (lambda m: m.packed(ids=IDS, lengths=np.array([[4, 3]])), "lengths shape=(1, 2) is not int64 (2,"),
        (lambda m: m.start(0), "rows=0 is not a positive integer; give the number of texts"),
        (lambda m: m.step(m.start(3), IDS), "tokens rows=2 are not the state's 3"),
        (lambda m: m.step("nothing", IDS), "state='nothing' is none of this model"),
        (lambda m: m.reorder(m.start(2), np.array([2])), "rows=[2] are not row numbers below 2"),
        (lambda m: m.rewind(m.start(2), 1), "count=1 is not among the 0 tokens read"),
        (lambda m: m.rewind(m.start(2), -1), "count=-1 is not among the 0 tokens read"),
    ],
)
def test_a_call_that_does_not_fit_is_refused_by_name(call, message):
    with pytest.raises(ValueError, match=re.escape(message)):
        call(EAGER.language_model(SMALL))


@pytest.mark.parametrize("kind", ["learned", "sinusoidal"])
def test_a_table_of_positions_ends_and_says_so(kind):
    model = EAGER.language_model(SMALL.but(positions=kind))
    _, past = model.step(model.start(2), IDS)
    with pytest.raises(ValueError, match="tokens length=9 is beyond max_len=8; stop or raise max_len"):
        model.step(past, IDS[:, :3])
    with pytest.raises(ValueError, match="max_len=4 behind a prompt of 6 tokens is beyond the 8 positions"):
        EAGER.complete(SMALL.but(positions=kind))(prompt=IDS, max_len=4)


def test_the_last_token_that_is_written_needs_no_position():
    done = EAGER.complete(SMALL.but(positions="learned"))(prompt=IDS, max_len=3, method="greedy")
    assert done["tokens"].shape[-1] <= 3


def test_a_past_holds_the_key_heads_only():
    """That is what grouping saves: 2 of 6 heads."""
    model = EAGER.language_model(SMALL)
    _, past = model.step(model.start(2), IDS)
    assert [tuple(layer.k.shape) for layer in past.layers] == [(2, 2, 6, 2)] * 2


def test_an_old_past_goes_on_as_if_nothing_had_been_read_since():
    model = EAGER.language_model(SMALL)
    _, past = model.step(model.start(2), IDS[:, :3])
    first, _ = model.step(past, IDS[:, 3:4])
    model.step(past, IDS[:, 5:])
    again, _ = model.step(past, IDS[:, 3:4])
    assert np.array_equal(first, again)


@pytest.mark.parametrize("method", ["greedy", "beam"])
def test_a_prompt_is_continued_the_same_wherever_its_padding_stands(method):
    complete = EAGER.complete(SMALL)
    left = IDS.copy()
    left[1, :2] = 0
    right, between = left.copy(), left.copy()
    right[1] = np.roll(left[1], -2)
    between[1, :3] = [left[1, 2], 0, 0]
    texts = [complete(prompt=ids, max_len=4, method=method)["tokens"] for ids in (left, right, between)]
    assert np.array_equal(texts[0], texts[1])
    assert np.array_equal(texts[0], texts[2])


def test_without_padding_every_id_is_a_token():
    plain = EAGER.language_model(SMALL.but(pad_id=None))
    ids = IDS.copy()
    ids[:, 2] = 0
    changed = ids.copy()
    changed[:, 2] = 4
    assert not np.allclose(plain(ids=ids)["logits"][:, -1], plain(ids=changed)["logits"][:, -1])
    with pytest.raises(ValueError, match="pad_id=None leaves nothing to write behind a row that has ended"):
        EAGER.complete(SMALL.but(pad_id=None))


def test_limits_of_buckets_are_exact_where_logarithms_are_rounded():
    """5 * 32^(1/5) is 10, but log(10 / 5) / log(160 / 5) * 5 is below 1 in float64 torch."""
    assert positions.bucket_limits(16, 128) == (1, 2, 3, 4, 5, 6, 7, 8, 12, 16, 23, 32, 46, 64, 91)
    assert positions.bucket_limits(10, 160) == (1, 2, 3, 4, 5, 10, 20, 40, 80)
    found = EAGER.relative_buckets(-np.array([[9, 10, 159, 160, 9999]]), 10, 160, True)
    assert found.tolist() == [[5, 6, 9, 9, 9]]


@pytest.mark.parametrize(
    ("operation", "change", "message"),
    [
        ("chunked_attention", {"chunk": 0}, "chunk=0 is not a positive integer"),
        ("block_sparse_attention", {"block": 1.0}, "block=1.0 is not a positive integer"),
        ("classifier", {"num_classes": 1}, "num_classes=1 is not an integer from 2"),
        ("classifier", {"pooling": "max"}, "pooling='max' is unknown; choose one of mean, first, last"),
        ("masked_language_model", {"mask_id": 0}, "mask_id=0 is pad_id too; give each its own"),
        ("masked_language_model", {"mask_id": 11}, "mask_id=11 is outside source_vocab=11"),
        (
            "transformer",
            {"positions": "none", "share_embeddings": True, "source_vocab": 12},
            "source_vocab=12",
        ),
    ],
)
def test_other_operations_refuse_bad_configs_by_name(operation, change, message):
    with pytest.raises(ValueError, match=re.escape(message)):
        getattr(EAGER, operation)(SMALL.but(**change))


def test_a_transformer_says_which_positions_it_has():
    with pytest.raises(NotImplementedError, match="positions='rotary' is not offered; choose sinusoidal"):
        EAGER.transformer(SMALL)


def test_block_masks_of_another_shape_are_refused():
    q = RNG.standard_normal((1, 2, 5, 4))
    with pytest.raises(ValueError, match=re.escape("blocks shape=(2, 2, 3) is not (2 or 1, 3, 3)")):
        EAGER.block_sparse_attention(SMALL.but(block=2))(q=q, k=q, v=q, blocks=np.ones((2, 2, 3), bool))


def test_segments_that_the_model_does_not_have_are_refused():
    with pytest.raises(ValueError, match="with segments=0 do not fit"):
        EAGER.classifier(SMALL)(ids=IDS, segments=np.zeros_like(IDS))
