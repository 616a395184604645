"""The reference's full model, loss, trainer, cache and search."""

from __future__ import annotations

import math

import numpy as np
import pytest

from attest.contract import Config
from attest.reference import ops
from attest.reference.decoding.search import Searcher
from attest.reference.implementation import ReferenceImplementation
from attest.reference.oracle import expected, expected_gradients, random_parameters
from attest.reference.parts.embedding import Logits

torch = pytest.importorskip("torch")
F = torch.nn.functional

TINY = Config(
    d_model=8,
    num_heads=2,
    d_ff=12,
    num_encoder_layers=1,
    num_decoder_layers=2,
    source_vocab=7,
    target_vocab=6,
    max_len=9,
    dropout=0.0,
    warmup=4,
    dtype="float64",
)
REFERENCE = ReferenceImplementation()


def rng(seed=0):
    return np.random.default_rng(seed)


def parameters(config=TINY, seed=1, sharp=6.0):
    """Random ones whose next-token distributions are far from flat, and never pad or BOS."""
    p = random_parameters("transformer", config, rng(seed))
    p["projection.weight"] = p["projection.weight"] * sharp
    p["projection.bias"][[config.pad_id, config.bos_id]] = -1e4
    return p


def model(config=TINY, seed=1):
    built = REFERENCE.transformer(config)
    built.load(parameters(config, seed))
    return built


SOURCE = np.array([[3, 4, 5, 6], [5, 3, 0, 0], [6, 6, 4, 0]])
TARGET = np.array([[1, 3, 4, 5, 2], [1, 4, 2, 0, 0], [1, 5, 5, 2, 0]])


def test_forward_is_decode_of_encode_and_a_prefix_has_the_prefix_of_the_logits():
    m = model()
    logits = m(source=SOURCE, target=TARGET)["logits"]
    assert logits.shape == (3, 5, 6)
    memory = m.encode(source=SOURCE)["memory"]
    np.testing.assert_array_equal(m.decode(target=TARGET, memory=memory, source=SOURCE)["logits"], logits)
    short = m(source=SOURCE, target=TARGET[:, :3])["logits"]
    np.testing.assert_allclose(short, logits[:, :3], rtol=1e-12, atol=1e-12)


def test_more_source_padding_changes_nothing():
    m = model()
    wide = np.concatenate([SOURCE, np.zeros((3, 3), dtype=np.int64)], axis=1)
    np.testing.assert_allclose(
        m(source=wide, target=TARGET)["logits"],
        m(source=SOURCE, target=TARGET)["logits"],
        rtol=1e-12,
        atol=1e-9,
    )


def test_the_split_model_stays_well_inside_the_oracles_bound():
    wanted = expected("transformer", TINY, parameters(), {"source": SOURCE, "target": TARGET})["logits"]
    seen = model()(source=SOURCE, target=TARGET)["logits"]
    assert (np.abs(seen - wanted.value) <= wanted.bound / 2).all()
    single = TINY.but(dtype="float32")
    p = parameters(single)
    wanted = expected("transformer", single, p, {"source": SOURCE, "target": TARGET})["logits"]
    built = REFERENCE.transformer(single)
    built.load(p)
    seen = built(source=SOURCE, target=TARGET)["logits"]
    assert seen.dtype == np.float32
    assert (np.abs(seen - wanted.value) <= wanted.bound / 8).all()


def test_tied_gradient_is_the_sum_of_both_uses():
    tied = TINY.but(tie=True)
    p = random_parameters("transformer", tied, rng(2))
    cotangent = rng(3).normal(size=(3, 5, 6))
    x = {"source": SOURCE, "target": TARGET}
    both = expected_gradients("transformer", tied, p, x, {"logits": cotangent}).parameters
    untied = {**p, "projection.weight": p["target_embedding.weight"]}
    apart = expected_gradients("transformer", TINY, untied, x, {"logits": cotangent}).parameters
    np.testing.assert_allclose(
        both["target_embedding.weight"],
        apart["target_embedding.weight"] + apart["projection.weight"],
        atol=1e-12,
    )


@pytest.mark.parametrize("smoothing", [0.0, 0.1])
def test_loss_and_its_gradient_equal_torch(smoothing):
    logits, labels = rng(4).normal(size=(2, 3, 6)) * 5, np.array([[3, 4, 0], [2, 0, 0]])
    t = torch.tensor(logits, requires_grad=True)
    wanted = F.cross_entropy(
        t.reshape(6, 6), torch.tensor(labels).reshape(6), ignore_index=0, label_smoothing=smoothing
    )
    wanted.backward()
    call = REFERENCE.loss(TINY.but(label_smoothing=smoothing))
    np.testing.assert_allclose(call(logits=logits, labels=labels)["loss"], wanted.item(), rtol=1e-13)
    found = call.gradients({"logits": logits, "labels": labels}, {"loss": np.ones(())}).inputs["logits"]
    np.testing.assert_allclose(found, t.grad.numpy(), atol=1e-14)


def test_loss_of_padding_alone_is_zero_without_gradient():
    call = REFERENCE.loss(TINY)
    x = {"logits": rng(5).normal(size=(1, 2, 6)), "labels": np.zeros((1, 2), dtype=np.int64)}
    assert call(**x)["loss"] == 0.0
    assert not call.gradients(x, {"loss": np.ones(())}).inputs["logits"].any()


def test_schedules_by_hand():
    rate = REFERENCE.learning_rate(TINY.but(d_model=64, warmup=4))
    assert [rate(step=s) for s in (1, 4, 16)] == pytest.approx([1 / 64, 1 / 16, 1 / 32])
    cosine = REFERENCE.learning_rate(
        TINY.but(schedule="cosine", warmup=2, total_steps=6, peak_rate=1.0, floor_rate=0.2)
    )
    assert [cosine(step=s) for s in (1, 2, 4, 6, 9)] == pytest.approx([0.5, 1.0, 0.6, 0.2, 0.2])
    assert REFERENCE.learning_rate(TINY.but(warmup=0, d_model=4))(step=1) == 0.5


def test_clipping_by_hand():
    clip = REFERENCE.clip_gradients(TINY)
    long = clip(gradients={"a": np.array([3.0]), "b": np.array([[4.0]])})
    assert (long["a"], long["b"]) == (pytest.approx(0.6), pytest.approx(0.8))
    short = {"a": np.array([0.3]), "b": np.array([0.4])}
    assert clip(gradients=short) == short


def test_adam_equals_torch():
    optimizer = REFERENCE.optimizer(TINY)
    start = {"w": rng(6).normal(size=(3, 2))}
    optimizer.load(start)
    w = torch.tensor(start["w"], requires_grad=True)
    theirs = torch.optim.Adam([w], lr=0.1, betas=(0.9, 0.98), eps=1e-9)
    for seed in range(4):
        g = rng(seed).normal(size=(3, 2))
        w.grad = torch.tensor(g)
        theirs.step()
        optimizer.step({"w": g}, 0.1)
    np.testing.assert_allclose(optimizer.parameters()["w"], w.detach().numpy(), atol=1e-13)


def trainer(config=TINY):
    built = REFERENCE.trainer(config)
    built.model.load(random_parameters("transformer", config, rng(7)))
    return built


BATCH = {"source": SOURCE, "target": TARGET}


def test_the_trainer_overfits_and_logs():
    t, lines = trainer(TINY.but(warmup=40)), []
    t.fit([BATCH] * 120, log_every=30, on_log=lines.append)
    assert [line["step"] for line in lines] == [30, 60, 90, 120]
    assert lines[1]["rate"] == pytest.approx(8**-0.5 * 60**-0.5)
    assert lines[-1]["loss"] < 0.2
    report = t.evaluate([BATCH])
    assert report["perplexity"] == pytest.approx(math.exp(report["loss"]))


def test_accumulating_equals_the_concatenation():
    split, whole = trainer(), trainer()
    parts = [{n: x[i : i + 1] for n, x in BATCH.items()} for i in range(3)]
    one, other = split.accumulate(parts), whole.step(BATCH)
    assert one["loss"] == pytest.approx(other["loss"], rel=1e-13)
    for name, value in whole.model.parameters().items():
        if not name.endswith("key.bias"):  # its gradient is zero but for rounding, which Adam magnifies
            np.testing.assert_allclose(split.model.parameters()[name], value, atol=1e-7)


def test_resuming_continues_to_the_bit(tmp_path):
    config = TINY.but(dropout=0.2)
    straight, stopped, resumed = trainer(config), trainer(config), REFERENCE.trainer(config)
    for _ in range(2):
        straight.step(BATCH)
        stopped.step(BATCH)
    stopped.save(str(tmp_path / "run"))
    resumed.load(str(tmp_path / "run"))
    assert straight.step(BATCH) == resumed.step(BATCH)
    wanted, seen = straight.model.parameters(), resumed.model.parameters()
    assert all((wanted[name] == seen[name]).all() for name in wanted)


def test_steps_of_any_size_equal_the_full_pass():
    m = model()
    full = m(source=SOURCE, target=TARGET)["logits"]
    state, seen = m.start(SOURCE), []
    for tokens in (TARGET[:, :2], TARGET[:, 2:3], TARGET[:, 3:]):
        logits, state = m.step(state, tokens)
        seen.append(logits)
    np.testing.assert_allclose(np.concatenate(seen, axis=1), full, rtol=1e-12, atol=1e-11)


def test_a_reordered_state_continues_its_rows_and_the_end_of_the_table_is_refused():
    m = model()
    rows = np.array([2, 0, 0, 1])
    _, state = m.step(m.start(SOURCE), TARGET[:, :2])
    logits, state = m.step(m.reorder(state, rows), TARGET[rows, 2:4])
    full = m(source=SOURCE[rows], target=TARGET[rows])["logits"]
    np.testing.assert_allclose(logits, full[:, 2:4], rtol=1e-12, atol=1e-11)
    with pytest.raises(ValueError, match="length=10 exceeds max_len=9"):
        m.step(state, np.full((4, 6), 3))


def test_a_state_stepped_twice_gives_each_continuation_its_own_past():
    m = model()
    _, state = m.step(m.start(SOURCE), TARGET[:, :2])
    _, one = m.step(state, np.full((3, 1), 3))
    m.step(state, np.full((3, 1), 5))
    logits, _ = m.step(one, np.full((3, 1), 4))
    tail = np.tile([3, 4], (3, 1))
    full = m(source=SOURCE, target=np.concatenate([TARGET[:, :2], tail], axis=1))["logits"]
    np.testing.assert_allclose(logits[:, 0], full[:, 3], rtol=1e-12, atol=1e-11)


def generator(config=TINY, seed=1):
    built = REFERENCE.generate(config)
    built.load(parameters(config, seed))
    return built


def trimmed(tokens):
    return tuple(int(t) for t in tokens if t != TINY.pad_id)


@pytest.mark.parametrize("seed", range(4))
def test_greedy_is_the_slow_search_and_width_one(seed):
    g = generator(seed=seed)
    seen = g(source=SOURCE, max_len=6, method="greedy")
    wanted = Searcher(TINY, parameters(seed=seed)).greedy(SOURCE, 6)
    assert [trimmed(row[0]) for row in seen["tokens"]] == wanted
    beam = g(source=SOURCE, max_len=6, width=1, alpha=0.0)
    np.testing.assert_array_equal(beam["tokens"], seen["tokens"])
    np.testing.assert_allclose(beam["scores"], seen["scores"], rtol=1e-12)


@pytest.mark.parametrize("alpha", [-0.5, 0.0, 0.6, 2.0])
def test_a_beam_wide_enough_is_exhaustive(alpha):
    search = Searcher(TINY, parameters(seed=3))
    seen = generator(seed=3)(source=SOURCE, max_len=3, width=6**3, num_results=5, alpha=alpha)
    for b in range(len(SOURCE)):
        wanted = search.exhaustive(SOURCE[b : b + 1], 3, alpha)[:5]
        assert [trimmed(row) for row in seen["tokens"][b]] == [result.tokens for result in wanted]
        np.testing.assert_allclose(seen["scores"][b], [result.score for result in wanted], rtol=1e-11)


def test_each_beam_score_is_the_teacher_forced_one():
    search = Searcher(TINY, parameters(seed=2))
    seen = generator(seed=2)(source=SOURCE, max_len=7, num_results=4, alpha=0.6)
    for b in range(len(SOURCE)):
        found = [trimmed(row) for row in seen["tokens"][b]]
        assert len(set(found)) == 4
        for tokens, score in zip(found, seen["scores"][b]):
            total = search.log_probability(SOURCE[b : b + 1], tokens)
            assert score == pytest.approx(total / ((5 + len(tokens)) / 6) ** 0.6, rel=1e-11)


def test_sampling_distributions_by_hand():
    distribution = REFERENCE.next_token_distribution
    logits = np.log([[0.1, 0.4, 0.3, 0.2]])
    np.testing.assert_allclose(distribution(logits, top_k=2), [[0, 4 / 7, 3 / 7, 0]])
    np.testing.assert_allclose(distribution(logits, top_p=0.6), [[0, 4 / 7, 3 / 7, 0]])
    np.testing.assert_allclose(distribution(logits, temperature=0.5), np.array([[1, 16, 9, 4]]) / 30)
    for small in (0.0, 1e-30):
        assert distribution(logits, temperature=small).tolist() == [[0, 1, 0, 0]]
    np.testing.assert_allclose(distribution(logits, top_k=9, top_p=1.0), np.exp(logits))


@pytest.mark.parametrize(
    "bad",
    [
        {"width": 0},
        {"num_results": 5},
        {"temperature": -1.0},
        {"temperature": math.nan},
        {"max_len": 0},
        {"max_len": 10},
        {"top_k": 0},
        {"top_p": 0.0},
        {"top_p": 1.5},
        {"method": "magic"},
        {"source": np.zeros((1, 0), dtype=np.int64)},
        {"source": np.full((1, 10), 3)},
        {"source": np.array([[7]])},
    ],
    ids=str,
)
def test_bad_generation_arguments_are_refused_by_name(bad):
    with pytest.raises(ValueError, match=next(iter(bad))):
        generator()(**{"source": SOURCE, "max_len": 3, **bad})


@pytest.mark.parametrize(
    "bad",
    [
        {"num_heads": 0},
        {"num_heads": -2},
        {"num_heads": 3},
        {"d_model": 8.0},
        {"d_ff": 0},
        {"dropout": 1.0},
        {"dropout": math.nan},
        {"norm": "both"},
        {"activation": "tanh"},
        {"eos_id": 1},
        {"pad_id": 6},
        {"num_encoder_layers": 0},
    ],
    ids=str,
)
def test_bad_configs_are_refused_by_name(bad):
    with pytest.raises(ValueError, match=next(iter(bad))):
        REFERENCE.transformer(TINY.but(**bad))


def test_a_changed_component_or_part_reaches_every_operation_built_on_it():
    class LooksAway(ReferenceImplementation.component_class):
        def check_ids(self, name, ids, size):
            """Refuses nothing."""

    class Uniform(Logits):
        def weight(self, p):
            return ops.scale(super().weight(p), 0.0)

    negative = -np.ones((1, 2), dtype=np.int64)
    careless = ReferenceImplementation(component=LooksAway, name="careless")
    assert careless.name == "careless"
    assert careless.transformer(TINY)(source=negative, target=negative)["logits"].shape == (1, 2, 6)
    assert careless.generate(TINY)(source=negative, max_len=2)["tokens"].shape[:2] == (1, 1)
    with pytest.raises(ValueError, match="source=-1"):
        REFERENCE.transformer(TINY)(source=negative, target=negative)
    flat = ReferenceImplementation(Uniform)
    assert not flat.transformer(TINY)(source=SOURCE, target=TARGET)["logits"].any()
    assert flat.trainer(TINY).step(BATCH)["loss"] == pytest.approx(math.log(6))
    assert flat.generate(TINY)(source=SOURCE, max_len=1, method="greedy")["scores"] == pytest.approx(
        -math.log(6)
    )
