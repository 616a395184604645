"""What numpy_scratch refuses, what it leaves as it was, and that its Python-level work does not grow."""

import numpy as np
import pytest

from attest.checks.side_effects import bytecodes
from scratch_cases import IDS, IMPL, SIMPLE, SMALL, attention_inputs, block_inputs, rng


@pytest.mark.parametrize(
    "operation", [*SIMPLE, "encoder", "decoder", "attention", "multi_head_attention", "transformer"]
)
def test_float32_stays_float32_and_inputs_stay_as_they_are(operation):
    component = getattr(IMPL, operation)(SMALL.but(dtype="float32", activation="gelu"))
    special = {
        "attention": attention_inputs(),
        "multi_head_attention": {
            "query": rng(1).normal(size=(2, 3, 8)),
            "key_value": rng(2).normal(size=(2, 5, 8)),
        },
        "transformer": IDS,
    }
    inputs = special.get(operation) or SIMPLE.get(operation) or block_inputs(operation)
    inputs = {n: x.astype("float32") if x.dtype.kind == "f" else x.copy() for n, x in inputs.items()}
    before = {n: x.copy() for n, x in inputs.items()}
    for x in inputs.values():
        x.flags.writeable = False
    component.train(1)
    outputs = component(**inputs)
    given = component.gradients(inputs, {n: np.ones_like(o) for n, o in outputs.items()})
    arrays = [outputs, component.parameters(), component.buffers(), given.inputs, given.parameters]
    assert {a.dtype for mapping in arrays for a in mapping.values()} == {np.dtype("float32")}
    for name in inputs:
        np.testing.assert_array_equal(inputs[name], before[name])
    assert not any(np.shares_memory(o, x) for o in outputs.values() for x in inputs.values())


def test_gradients_of_one_call_do_not_add_to_those_of_the_next():
    component, inputs = IMPL.feed_forward(SMALL), SIMPLE["feed_forward"]
    first, second = (component.gradients(inputs, {"output": np.ones((2, 3, 8))}).parameters for _ in range(2))
    for name in first:
        np.testing.assert_array_equal(first[name], second[name])
        assert first[name] is not second[name]


BAD_CONFIGS = [
    ("transformer", {"num_heads": 3}, "num_heads=3 does not divide d_model=8; choose a divisor of 8"),
    ("multi_head_attention", {"num_heads": 0}, "num_heads=0 is not a positive integer"),
    ("transformer", {"num_heads": -2}, "num_heads=-2 is not"),
    ("transformer", {"d_model": 8.0}, r"d_model=8\.0 is not"),
    ("transformer", {"d_ff": 0}, "d_ff=0 is not"),
    ("feed_forward", {"d_ff": 2.5}, "d_ff=2.5 is not"),
    ("encoder", {"num_encoder_layers": 0}, "num_encoder_layers=0 is not"),
    ("transformer", {"max_len": True}, "max_len=True is not"),
    ("transformer", {"dropout": 1.0}, "dropout=1.0 is outside"),
    ("encoder_layer", {"dropout": float("nan")}, "dropout=nan is outside"),
    ("transformer", {"eos_id": 1}, "eos_id=1 is bos_id as well"),
    ("transformer", {"pad_id": 9}, "pad_id=9 is outside source_vocab=9"),
    ("transformer", {"bos_id": -1}, "bos_id=-1 is outside target_vocab=7"),
    ("decoder", {"norm": "middle"}, "norm='middle' is unknown; choose one of post, pre"),
    ("feed_forward", {"activation": "swish"}, "activation='swish' is unknown"),
    ("loss", {"label_smoothing": 1.0}, "label_smoothing=1.0 is outside"),
    ("learning_rate", {"schedule": "step"}, "schedule='step' is unknown"),
    ("clip_gradients", {"clip_norm": 0}, "clip_norm=0 is not"),
]


@pytest.mark.parametrize(("operation", "changes", "message"), BAD_CONFIGS)
def test_a_bad_config_is_refused_on_construction(operation, changes, message):
    with pytest.raises(ValueError, match=message):
        getattr(IMPL, operation)(SMALL.but(**changes))


def real(*shape):
    return np.ones(shape)


BAD_INPUTS = [
    (
        "attention",
        {"q": real(2, 3), "k": real(1, 2, 3), "v": real(1, 2, 3)},
        r"k.shape=\(1, 2, 3\) does not lead",
    ),
    ("attention", {"q": real(3), "k": real(3), "v": real(3)}, r"q.shape=\(3,\) has fewer"),
    (
        "attention",
        {"q": real(1, 2, 3), "k": real(1, 2, 4), "v": real(1, 2, 3)},
        "k.shape=.* is not of width 3",
    ),
    (
        "attention",
        {"q": real(1, 2, 3), "k": real(1, 2, 3), "v": real(1, 3, 3)},
        "v.shape=.* is not of length 2",
    ),
    ("attention", {"q": real(1, 2, 3), "k": real(1, 0, 3), "v": real(1, 0, 3)}, "k.shape=.* has no keys"),
    ("attention", {"q": real(2, 2, 3), "k": real(1, 2, 3), "v": real(1, 2, 3)}, "k.shape=.* does not lead"),
    (
        "attention",
        {"q": real(1, 2, 3), "k": real(1, 4, 3), "v": real(1, 4, 3), "mask": np.ones((2, 3), bool)},
        r"mask.shape=\(2, 3\) does not broadcast",
    ),
    (
        "multi_head_attention",
        {"query": real(2, 3, 8), "key_value": real(1, 3, 8)},
        "key_value.shape=.* batch 2",
    ),
    ("multi_head_attention", {"query": real(2, 3, 7), "key_value": real(2, 3, 8)}, "query.shape=.* end in 8"),
    (
        "multi_head_attention",
        {"query": real(2, 3, 8), "key_value": real(2, 4, 8), "mask": np.ones((2, 4), bool)},
        "mask.shape=.* does not fit 3 queries and 4 keys",
    ),
    ("token_embedding", {"ids": np.array([[9]])}, "ids=9 is outside"),
    ("input_embedding", {"ids": np.array([[-1]])}, "ids=-1 is outside"),
    ("input_embedding", {"ids": np.ones((1, 11), int)}, "length of ids=11 is beyond max_len=10"),
    ("positional_encoding", {"x": real(1, 11, 8)}, "length of x=11 is beyond max_len=10"),
    ("encoder", {"x": real(2, 3, 8), "mask": np.ones((3, 1, 3), bool)}, "mask.shape="),
    ("decoder", {"x": real(2, 3, 8), "memory": real(2, 0, 8)}, "memory.shape=.* has no keys"),
    (
        "transformer",
        {"source": np.ones((2, 3), int), "target": np.ones((1, 3), int)},
        "target.shape=.* batch 2",
    ),
    (
        "transformer",
        {"source": np.ones((1, 0), int), "target": np.ones((1, 3), int)},
        "source.shape=.* is empty",
    ),
    ("loss", {"logits": real(2, 3, 7), "labels": np.ones((3, 2), int)}, "labels.shape=.* does not fit"),
    ("loss", {"logits": real(1, 1, 7), "labels": np.array([[7]])}, "labels=7 is outside"),
]


@pytest.mark.parametrize(("operation", "inputs", "message"), BAD_INPUTS)
def test_bad_arguments_are_refused_by_name(operation, inputs, message):
    component = getattr(IMPL, operation)(SMALL)
    with pytest.raises(ValueError, match=message):
        component(**inputs)


def test_load_refuses_missing_unknown_and_misshapen_parameters():
    component = IMPL.layer_norm(SMALL)
    good = component.parameters()
    for bad in ({"weight": good["weight"]}, good | {"extra": good["bias"]}, good | {"bias": np.zeros(3)}):
        with pytest.raises(ValueError, match="; "):
            component.load(bad)
    kept = np.zeros(8)
    component.load({"weight": kept, "bias": kept})
    kept += 1
    assert not component.parameters()["bias"].any()


def test_python_level_work_does_not_grow_with_batch_length_or_heads():
    def work(config, B, T):
        component = IMPL.transformer(config)
        ids = {"source": np.ones((B, T), int), "target": np.ones((B, T), int)}
        cotangents = {"logits": np.ones((B, T, 7))}
        component.gradients(ids, cotangents)
        return bytecodes(lambda: component.gradients(ids, cotangents))

    assert work(SMALL.but(num_heads=8), 9, 10) == work(SMALL.but(num_heads=1), 1, 2)
