"""The eager implementation's own code: what it refuses, its cache, its checkpoints, the adapter."""

import json
import re
import subprocess
import sys

import numpy as np
import pytest

torch = pytest.importorskip("torch")

from attest.adapters.torch import TorchComponent  # noqa: E402
from attest.contract import Config  # noqa: E402
from attest_impls.eager import Eager, checkpoint  # noqa: E402

EAGER = Eager()
SMALL = Config(
    d_model=16,
    num_heads=4,
    d_ff=24,
    num_encoder_layers=1,
    num_decoder_layers=2,
    source_vocab=13,
    target_vocab=11,
    max_len=12,
    warmup=10,
    dropout=0.0,
    dtype="float64",
)


def floats(*shape: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).standard_normal(shape)


def sentences(rows: int, width: int, vocab: int, seed: int) -> np.ndarray:
    """Right-padded ids of uneven lengths."""
    rng = np.random.default_rng(seed)
    ids = rng.integers(3, vocab, (rows, width))
    for row, length in enumerate(rng.integers(1, width + 1, rows)):
        ids[row, length:] = 0
    return ids


def batch(rows: int, seed: int) -> dict[str, np.ndarray]:
    target = np.zeros((rows, 8), dtype=np.int64)
    for row, words in enumerate(sentences(rows, 6, 11, seed)):
        words = words[words != 0]
        target[row, : len(words) + 2] = [1, *words, 2]
    return {"source": sentences(rows, 5, 13, seed + 100), "target": target}


def same(a: dict, b: dict) -> bool:
    return set(a) == set(b) and all(np.array_equal(a[name], b[name]) for name in a)


CONFIGS = [
    ("num_heads", 3, "num_heads=3 does not divide d_model=16; choose a divisor of 16"),
    ("num_heads", 0, "num_heads=0 is not a positive integer; give 1 or more"),
    ("num_heads", -4, "num_heads=-4 is not a positive integer"),
    ("d_model", 16.0, "d_model=16.0 is not a positive integer"),
    ("d_model", "16", "d_model='16' is not a positive integer"),
    ("d_ff", 0, "d_ff=0 is not a positive integer"),
    ("d_ff", 24.0, "d_ff=24.0 is not a positive integer"),
    ("source_vocab", 0, "source_vocab=0 is not a positive integer"),
    ("target_vocab", 2.5, "target_vocab=2.5 is not a positive integer"),
    ("max_len", 0, "max_len=0 is not a positive integer"),
    ("num_encoder_layers", 0, "num_encoder_layers=0 is not a positive integer"),
    ("num_decoder_layers", True, "num_decoder_layers=True is not a positive integer"),
    ("dropout", 1.0, "dropout=1.0 is outside [0, 1)"),
    ("dropout", -0.1, "dropout=-0.1 is outside [0, 1)"),
    ("dropout", float("nan"), "dropout=nan is outside [0, 1)"),
    ("norm", "middle", "norm='middle' is unknown; choose one of post, pre"),
    ("activation", "tanh", "activation='tanh' is unknown; choose one of relu, gelu"),
    ("pad_id", 1, "pad_id=1, bos_id=1, eos_id=2 are not three different ids"),
    ("eos_id", 11, "eos_id=11 is outside target_vocab=11"),
    ("bos_id", -1, "bos_id=-1 is not an index"),
]


@pytest.mark.parametrize(("field", "value", "message"), CONFIGS)
def test_a_bad_config_is_refused_by_name(field, value, message):
    with pytest.raises(ValueError, match=re.escape(message)):
        EAGER.transformer(SMALL.but(**{field: value}))


def test_refusals_survive_optimised_python():
    code = """
import json, sys
from attest.contract import Config
from attest_impls.eager import Eager
bad = []
for field, value in json.loads(sys.argv[1]):
    try:
        Eager().transformer(Config(d_model=16, num_heads=4, d_ff=24).but(**{field: value}))
        bad.append(field)
    except ValueError:
        pass
print(bad)
"""
    cases = json.dumps([[field, value] for field, value, _ in CONFIGS if field not in ("eos_id",)])
    done = subprocess.run(
        [sys.executable, "-O", "-c", code, cases], capture_output=True, text=True, check=True
    )
    assert done.stdout.strip() == "[]"


q, k, v = floats(2, 3, 4), floats(2, 5, 4), floats(2, 5, 6)
ATTENTION = [
    ({"q": q[0]}, "k shape=(2, 5, 4) is not (..., T, d) with the rank of q=2"),
    ({"q": q[..., :3]}, "k width=4 is not the width of q=3"),
    ({"k": k[:1]}, "k shape=(1, 5, 4) has another batch than q=(2, 3, 4)"),
    ({"v": v[:, :4]}, "v length=4 is not the length of k=5"),
    ({"k": k[:, :0], "v": v[:, :0]}, "k length=0 leaves nothing to attend to"),
    ({"mask": np.ones((2, 3, 4), bool)}, "mask shape=(2, 3, 4) does not broadcast to (2, 3, 5)"),
    ({"mask": np.ones((1, 2, 3, 5), bool)}, "mask shape=(1, 2, 3, 5) does not broadcast"),
    ({"mask": np.ones((3, 5))}, "mask dtype=torch.float64 is not bool"),
]


@pytest.mark.parametrize(("change", "message"), ATTENTION)
def test_attention_refuses_what_does_not_fit(change, message):
    with pytest.raises(ValueError, match=re.escape(message)):
        EAGER.attention(SMALL)(**{"q": q, "k": k, "v": v, **change})


x, memory = floats(2, 3, 16), floats(2, 5, 16)
MODULES = [
    ("multi_head_attention", {"query": x[..., :8], "key_value": memory}, "query shape=(2, 3, 8)"),
    (
        "multi_head_attention",
        {"query": x, "key_value": memory[:1]},
        "key_value batch=1 is not that of query=2",
    ),
    ("multi_head_attention", {"query": x, "key_value": memory[:, :0]}, "key_value length=0"),
    (
        "multi_head_attention",
        {"query": x, "key_value": x, "mask": np.ones((2, 3), bool)},
        "mask shape=(2, 3)",
    ),
    ("feed_forward", {"x": x[0]}, "x shape=(3, 16) is not (B, T, 16)"),
    ("encoder", {"x": x, "mask": np.ones((3, 1, 3), bool)}, "mask shape=(3, 1, 3) fits neither (3, 3) nor"),
    ("decoder", {"x": x, "memory": memory[:1]}, "memory batch=1 is not that of x=2"),
    ("decoder", {"x": x, "memory": memory, "memory_mask": np.ones((2, 1, 3), bool)}, "memory_mask shape="),
    ("token_embedding", {"ids": np.array([[0, 13]])}, "ids id=13 is outside the vocabulary of 13"),
    ("token_embedding", {"ids": np.array([[0, -1]])}, "ids id=-1 is outside the vocabulary of 13"),
    ("token_embedding", {"ids": np.array([[0.0]])}, "is not int64 (B, T)"),
    ("positional_encoding", {"x": floats(1, 13, 16)}, "x length=13 is beyond max_len=12"),
    ("transformer", {"source": np.array([[3]]), "target": np.array([[11]])}, "target id=11 is outside"),
    (
        "transformer",
        {"source": np.zeros((1, 13), int), "target": np.array([[1]])},
        "source length=13 is beyond",
    ),
    ("transformer", {"source": np.zeros((2, 3), int), "target": np.array([[1]])}, "target batch=1"),
    ("loss", {"logits": floats(1, 2, 4), "labels": np.array([[1, -100]])}, "labels id=-100 is outside"),
    ("loss", {"logits": floats(1, 2, 4), "labels": np.array([[1]])}, "are not (B, T, V) and (B, T)"),
]


@pytest.mark.parametrize(("operation", "inputs", "message"), MODULES)
def test_a_component_refuses_what_does_not_fit(operation, inputs, message):
    component = getattr(EAGER, operation)(SMALL)
    with pytest.raises(ValueError, match=re.escape(message)):
        component(**inputs)


REQUESTS = [
    ({"width": 0}, "width=0 is not a positive integer"),
    ({"num_results": 5}, "num_results=5 is above the 4 that beam keeps; raise width=4"),
    ({"num_results": 2, "method": "greedy"}, "num_results=2 is above the 1 that greedy keeps"),
    ({"max_len": 0}, "max_len=0 is not a positive integer"),
    ({"max_len": 13}, "max_len=13 is beyond the 12 positions of the model"),
    ({"temperature": -1.0}, "temperature=-1.0 is not a finite number from 0"),
    ({"temperature": float("nan")}, "temperature=nan is not a finite number from 0"),
    ({"top_k": 0}, "top_k=0 is not a positive integer"),
    ({"top_p": 0.0}, "top_p=0.0 is outside (0, 1]"),
    ({"top_p": 1.5}, "top_p=1.5 is outside (0, 1]"),
    ({"alpha": float("nan")}, "alpha=nan is not a finite number"),
    ({"method": "best"}, "method='best' is unknown; choose one of greedy, beam, sample"),
    ({"source": np.zeros((1, 0), int)}, "source length=0 is empty"),
    ({"source": np.full((1, 13), 3)}, "source length=13 is beyond max_len=12"),
    ({"source": np.array([[13]])}, "source id=13 is outside the vocabulary of 13"),
]


@pytest.mark.parametrize(("change", "message"), REQUESTS)
def test_generation_refuses_what_makes_no_sense(change, message):
    with pytest.raises(ValueError, match=re.escape(message)):
        EAGER.generate(SMALL)(**{"source": np.array([[3, 4]]), "max_len": 5, **change})


def test_junk_behind_a_mask_is_inert_even_when_it_is_not_a_number():
    spoiled_k, spoiled_v = k.copy(), v.copy()
    spoiled_k[:, 3:], spoiled_v[:, 3:] = np.nan, np.inf
    mask = np.arange(5) < 3
    attention = EAGER.attention(SMALL)
    clean = attention(q=q, k=k, v=v, mask=mask)
    spoiled = attention(q=q, k=spoiled_k, v=spoiled_v, mask=mask)
    assert same(clean, spoiled)


def test_a_blind_query_gives_the_output_bias_and_finite_gradients():
    component = EAGER.multi_head_attention(SMALL)
    component.load({name: floats(*value.shape) for name, value in component.parameters().items()})
    inputs = {"query": x, "key_value": memory, "mask": np.zeros((3, 5), bool)}
    assert np.array_equal(component(**inputs)["output"][0, 0], component.parameters()["output.bias"])
    found = component.gradients(inputs, {"output": floats(2, 3, 16)})
    assert all(np.isfinite(g).all() for g in [*found.inputs.values(), *found.parameters.values()])


@pytest.mark.parametrize("norm", ["post", "pre"])
def test_cached_steps_equal_the_full_pass(norm):
    model = EAGER.transformer(SMALL.but(norm=norm))
    source, target = sentences(3, 6, 13, 1), np.random.default_rng(2).integers(0, 11, (3, 12))
    state, place = model.start(source), 0
    for size, rows in ((1, [2, 0, 0, 1]), (3, [3, 1]), (2, [0, 1, 1]), (6, [0])):
        logits, state = model.step(state, target[:, place : place + size])
        place += size
        full = model(source=source, target=target[:, :place])["logits"][:, -size:]
        np.testing.assert_allclose(logits, full, atol=1e-12)
        state, source, target = model.reorder(state, np.array(rows)), source[rows], target[rows]
    with pytest.raises(ValueError, match="tokens length=13 is beyond the 12 allocated"):
        model.step(state, target[:, :1])


def test_a_state_is_used_up_by_a_step():
    model = EAGER.transformer(SMALL)
    state = model.start(np.array([[3]]))
    model.step(state, np.array([[1]]))
    with pytest.raises(ValueError, match="is used up; go on with the one that step or reorder returned"):
        model.step(state, np.array([[1]]))


def test_a_beam_of_one_is_greedy_and_padding_on_either_side_changes_nothing():
    model = EAGER.generate(SMALL)
    source = sentences(4, 5, 13, 5)
    greedy = model(source=source, max_len=8, method="greedy")
    assert np.array_equal(model(source=source, max_len=8, width=1)["tokens"], greedy["tokens"])
    right = np.pad(source, ((0, 0), (0, 3)))
    left = np.stack([np.r_[row[row == 0], row[row != 0]] for row in right])
    for padded in (right, left):
        again = model(source=padded, max_len=8, method="greedy")
        assert np.array_equal(again["tokens"], greedy["tokens"])
        np.testing.assert_allclose(again["scores"], greedy["scores"], atol=1e-12)


def test_accumulated_batches_equal_the_large_batch():
    config = SMALL.but(label_smoothing=0.1)
    parts = [batch(1, 0), batch(4, 1), batch(2, 2)]
    whole = {name: np.concatenate([part[name] for part in parts]) for name in parts[0]}
    apart, together = EAGER.trainer(config), EAGER.trainer(config)
    first, second = apart.accumulate(parts), together.step(whole)
    assert first == pytest.approx(second, rel=1e-12)
    for name, value in apart.model.parameters().items():
        # Key biases have no gradient but rounding, which Adam blows up to the size of its epsilon.
        np.testing.assert_allclose(value, together.model.parameters()[name], atol=1e-8, err_msg=name)


@pytest.mark.parametrize("tie", [False, True])
def test_a_saved_run_continues_to_the_bit(tmp_path, tie):
    config = SMALL.but(dropout=0.3, dtype="float32", tie=tie)
    straight, stopped = EAGER.trainer(config), EAGER.trainer(config)
    reports = [straight.step(batch(3, i)) for i in range(6)]
    for i in range(3):
        stopped.step(batch(3, i))
    stopped.save(tmp_path)
    resumed = EAGER.trainer(config.but(seed=7))
    resumed.load(tmp_path)
    assert [resumed.step(batch(3, i)) for i in range(3, 6)] == reports[3:]
    assert same(resumed.model.parameters(), straight.model.parameters())
    assert checkpoint.config_of(tmp_path) == config
    assert [path.name for path in tmp_path.iterdir()] == ["checkpoint.safetensors"]


def test_a_missing_or_foreign_checkpoint_is_refused(tmp_path):
    trainer = EAGER.trainer(SMALL)
    with pytest.raises(ValueError, match=r"holds no checkpoint\.safetensors; give one that save wrote"):
        trainer.load(tmp_path)
    EAGER.trainer(SMALL.but(d_ff=32)).save(tmp_path)
    with pytest.raises(ValueError, match=r"shape=\(32.* is not \(24.*; build the model from its own config"):
        trainer.load(tmp_path)


def test_evaluation_and_steps_leave_mode_and_random_state_alone():
    trainer = EAGER.trainer(SMALL.but(dropout=0.5))
    trainer.model.train(3)
    before = torch.get_rng_state()
    trainer.step(batch(2, 0))
    trainer.evaluate([batch(2, 1), batch(3, 2)])
    assert trainer.model.module.training
    assert torch.equal(torch.get_rng_state(), before)


def test_fit_logs_every_n_steps_and_stops_when_validation_no_longer_improves():
    logs = []
    trainer = EAGER.trainer(SMALL.but(warmup=1))
    batches = (batch(3, 0) for _ in range(200))
    trainer.fit(batches, 5, logs.append, validation=[batch(8, 50)], patience=3)
    assert [entry["step"] for entry in logs] == list(range(5, 5 * len(logs) + 1, 5))
    losses = [entry["validation"] for entry in logs]
    assert len(logs) < 40
    assert min(losses) == losses[-4]


class PerHead(torch.nn.Module):
    """Names as other code bases have them: packed, transposed, one module per head."""

    def __init__(self) -> None:
        super().__init__()
        self.packed = torch.nn.Parameter(torch.arange(24.0).reshape(6, 4))
        self.conv = torch.nn.Parameter(torch.arange(12.0).reshape(2, 6))
        self.heads = torch.nn.ModuleList(torch.nn.Linear(3, 2) for _ in range(3))
        self.other = torch.nn.Parameter(torch.ones(1))

    def forward(self, x):
        return x * self.packed.sum() * self.conv.sum() + sum(
            h.weight.sum() + h.bias.sum() for h in self.heads
        )


NAMES = {
    "a": "packed[0/3]",
    "b": "packed[1/3]",
    "c": "packed[2/3]",
    "d": "conv.T[0/2]",
    "e": "conv.T[1/2]",
    "w": "heads.{}.weight",
    "bias": "heads.{}.bias",
}


def test_the_adapter_reads_slices_transposes_and_heads():
    module = PerHead()
    component = TorchComponent(module, Config(), NAMES)
    values = component.parameters()
    shapes = {"a": (2, 4), "b": (2, 4), "c": (2, 4), "d": (3, 2), "e": (3, 2), "w": (6, 3), "bias": (6,)}
    assert {name: value.shape for name, value in values.items()} == shapes | {"other": (1,)}
    assert np.array_equal(values["b"], np.arange(8, 16).reshape(2, 4))
    assert np.array_equal(values["e"], np.arange(12).reshape(2, 6).T[3:])
    assert np.array_equal(values["w"][2:4], module.heads[1].weight.detach().numpy())


def test_the_adapter_loads_in_place_and_gives_gradients_under_the_same_names():
    module = PerHead()
    storage = module.packed.data_ptr()
    component = TorchComponent(module, Config(), NAMES)
    wanted = {name: floats(*value.shape).astype(np.float32) for name, value in component.parameters().items()}
    component.load(wanted)
    assert same(component.parameters(), wanted)
    assert module.packed.data_ptr() == storage
    found = component.gradients({"x": np.ones((2,), np.float32)}, {"output": np.ones((2,), np.float32)})
    assert {n: g.shape for n, g in found.parameters.items()} == {n: v.shape for n, v in wanted.items()}
    assert np.array_equal(found.parameters["w"], np.full((6, 3), 2.0))
    assert np.array_equal(found.parameters["other"], [0.0])


def test_the_adapter_says_which_name_is_wrong():
    with pytest.raises(
        ValueError, match=r"names\['a'\]='pack' is not a parameter of the module; it has conv,"
    ):
        TorchComponent(PerHead(), Config(), {"a": "pack"})
    component = TorchComponent(PerHead(), Config())
    values = dict(component.parameters())
    with pytest.raises(ValueError, match=r"parameters lacks \['other'\]"):
        component.load({name: value for name, value in values.items() if name != "other"})
    with pytest.raises(ValueError, match=r"conv has shape=\(6, 2\), not \(2, 6\); weights are \(out, in\)"):
        component.load(values | {"conv": values["conv"].T})


class Tied(torch.nn.Module):
    """The head is the embedding, or has a weight of its own."""

    def __init__(self, tied):
        super().__init__()
        self.head = torch.nn.Linear(3, 5, bias=False)
        self.table = torch.nn.Embedding(5, 3)
        if tied:
            self.table.weight = self.head.weight


TIED_NAMES = {"embedding.weight": "table.weight", "projection.weight": "head.weight"}


def test_the_adapter_knows_a_tied_projection_by_the_name_of_the_embedding():
    tied = TorchComponent(Tied(tied=True), Config(tie=True), TIED_NAMES)
    assert list(tied.parameters()) == ["embedding.weight"]
    apart = TorchComponent(Tied(tied=False), Config(), TIED_NAMES)
    assert sorted(apart.parameters()) == ["embedding.weight", "projection.weight"]


def test_the_adapter_refuses_two_names_for_one_parameter():
    said = r"names\['embedding.weight'\] and names\['projection.weight'\] are one parameter of the module"
    with pytest.raises(ValueError, match=f"{said}, head.weight; give each its own, or tie only where"):
        TorchComponent(Tied(tied=True), Config(), TIED_NAMES)


def test_the_adapter_never_aliases_its_inputs_and_keeps_the_random_state():
    component = TorchComponent(torch.nn.Dropout(0.5), Config(), call=lambda module, x: module(x))
    given = np.ones((4, 8), np.float32)
    given.flags.writeable = False
    assert not np.shares_memory(component(x=given)["output"], given)
    component.train(5)
    before = torch.get_rng_state()
    first = component(x=given)["output"]
    assert np.array_equal(first, component(x=given[::-1])["output"])
    assert torch.equal(torch.get_rng_state(), before)
    assert 0 < (first == 0).sum() < first.size
