"""numpy_scratch's trainer: the gradient it follows, the update it makes, and what a run depends on."""

import math

import numpy as np
import pytest

from attest.checks.side_effects import bytecodes
from scratch_cases import IMPL, SMALL, randomised, rng, tensors

torch = pytest.importorskip("torch")

PLAIN = SMALL.but(dropout=0.0, warmup=3, label_smoothing=0.1, activation="gelu")


def batch(seed=0, B=3, S=4, T=5):
    """Sources and targets that end at different places: BOS ... EOS pad."""
    draw = rng(seed)
    source, target = draw.integers(3, 9, (B, S)), draw.integers(3, 7, (B, T))
    target[:, 0] = 1
    for row, last in enumerate(draw.integers(1, T, B)):
        target[row, last], target[row, last + 1 :] = 2, 0
        source[row, 1 + last :] = 0
    return {"source": source, "target": target}


def loss_of(config, parameters, given):
    """The loss of the shifted target, from the operations that the trainer does not use."""
    model = IMPL.transformer(config)
    model.load(parameters)
    logits = model(source=given["source"], target=given["target"][:, :-1])["logits"]
    return float(IMPL.loss(config)(logits=logits, labels=given["target"][:, 1:])["loss"])


@pytest.mark.parametrize(
    "config", [PLAIN, PLAIN.but(norm="pre", tie=True, bias=False)], ids=["post", "pre and tied"]
)
def test_the_gradient_of_a_step_equals_central_differences(config):
    trainer, given, draw = IMPL.trainer(config), batch(), rng(4)
    randomised(trainer.model)
    start = trainer.model.parameters()
    report = trainer.step(given)
    assert report["loss"] == pytest.approx(loss_of(config, start, given), rel=1e-14)
    gradients = {name: g.copy() for name, g in trainer.model.layer.all_grads().items()}
    for name, value in start.items():
        direction, size = draw.normal(size=value.shape), 1e-6
        ahead, behind = (loss_of(config, start | {name: value + s * direction}, given) for s in (size, -size))
        numeric = (ahead - behind) / (2 * size)
        analytic = (gradients[name] * direction).sum()
        np.testing.assert_allclose(analytic, numeric, rtol=1e-5, atol=1e-7, err_msg=name)
    norm = math.sqrt(sum((g * g).sum() for g in gradients.values()))
    assert report["norm"] == pytest.approx(norm, rel=1e-13)


@pytest.mark.parametrize("clip_norm", [0.05, math.inf])
def test_steps_are_those_of_torchs_adam(clip_norm):
    config = PLAIN.but(clip_norm=clip_norm)
    trainer = IMPL.trainer(config)
    p = tensors(trainer.model.parameters())
    theirs = torch.optim.Adam(p.values(), betas=(0.9, 0.98), eps=1e-9)
    for n in range(1, 5):
        report = trainer.step(batch(n))
        assert report["rate"] == IMPL.learning_rate(config)(step=n)
        factor = min(1.0, clip_norm / report["norm"])
        assert (factor < 1) == (clip_norm == 0.05)
        for name, gradient in trainer.model.layer.all_grads().items():
            p[name].grad = torch.tensor(gradient * factor)
        theirs.param_groups[0]["lr"] = report["rate"]
        theirs.step()
        for name, value in trainer.model.parameters().items():
            np.testing.assert_allclose(value, p[name].detach().numpy(), atol=1e-12, err_msg=name)


def test_accumulated_batches_have_the_gradient_of_their_concatenation():
    """The gradient and not the update: Adam makes much of a key's bias, whose gradient is rounding alone."""
    parts = [batch(1, B=1), batch(2, B=4)]
    whole = {name: np.concatenate([part[name] for part in parts]) for name in parts[0]}
    ours, theirs = IMPL.trainer(PLAIN), IMPL.trainer(PLAIN)
    seen, wanted = ours.accumulate(parts), theirs.step(whole)
    assert seen == pytest.approx(wanted, rel=1e-12)
    expected = theirs.model.layer.all_grads()
    for name, gradient in ours.model.layer.all_grads().items():
        np.testing.assert_allclose(gradient, expected[name], atol=1e-14, err_msg=name)


def test_each_step_has_dropout_of_its_own_and_evaluation_has_none():
    still = SMALL.but(dropout=0.5, clip_norm=1e-300)  # so small a gradient that nothing moves
    trainer, given = IMPL.trainer(still.but(warmup=10**9)), batch()
    seen = [trainer.step(given)["loss"] for _ in range(3)]
    assert len(set(seen)) == 3
    plain = loss_of(SMALL, trainer.model.parameters(), given)
    evaluated = trainer.evaluate(iter([given, given]))
    assert evaluated["loss"] == pytest.approx(plain, rel=1e-14)
    assert evaluated["perplexity"] == pytest.approx(math.exp(plain), rel=1e-13)


def test_a_saved_run_continues_to_the_bit_under_another_seed(tmp_path):
    config = SMALL.but(dtype="float32", dropout=0.3, warmup=4)
    straight, saved, resumed = (IMPL.trainer(c) for c in (config, config, config.but(seed=9)))
    wanted = [straight.step(batch(n)) for n in range(5)]
    for n in range(2):
        saved.step(batch(n))
    saved.save(str(tmp_path / "run"))
    resumed.load(str(tmp_path / "run"))
    logged = []
    resumed.fit((batch(n) for n in range(2, 5)), 2, logged.append)
    assert logged == [{"step": 4, "loss": wanted[3]["loss"], "rate": wanted[3]["rate"]}]
    expected = straight.model.parameters()
    for name, value in resumed.model.parameters().items():
        np.testing.assert_array_equal(value, expected[name], err_msg=name)
    assert [p.name for p in (tmp_path / "run").iterdir()] == ["checkpoint.npz"]


def test_a_checkpoint_that_does_not_fit_is_refused_and_nothing_is_loaded(tmp_path):
    IMPL.trainer(SMALL).save(str(tmp_path))
    wider, deeper = IMPL.trainer(SMALL.but(d_ff=20)), IMPL.trainer(SMALL.but(num_encoder_layers=3))
    before = wider.model.parameters()
    with pytest.raises(ValueError, match=r"is not the model's \(20, 8\) of float64; build the trainer from"):
        wider.load(str(tmp_path))
    for name, value in wider.model.parameters().items():
        np.testing.assert_array_equal(value, before[name])
    with pytest.raises(ValueError, match=r"checkpoint=\['mean/encoder.2.* differs from the model"):
        deeper.load(str(tmp_path))
    with pytest.raises(ValueError, match=r"directory='nowhere' holds no checkpoint.npz; give one"):
        deeper.load("nowhere")


BAD_BATCHES = [
    ({"source": np.ones((1, 3), int)}, r"batch=\['source'\] lacks target"),
    ({"target": np.array([[1]])}, r"target.shape=\(1, 1\) has nothing to predict; give BOS"),
    ({"target": np.array([[1, 7]])}, "target=7 is outside the vocabulary of 7"),
    ({"target": np.ones((2, 3), int)}, "target.shape=.* is not of batch 1"),
    ({"target": np.ones((1, 12), int)}, "length of target=11 is beyond max_len=10"),
]


@pytest.mark.parametrize(("changes", "message"), BAD_BATCHES)
def test_a_bad_batch_is_refused_before_anything_moves(changes, message):
    trainer = IMPL.trainer(SMALL)
    given = changes if "lacks" in message else {"source": np.ones((1, 3), int), **changes}
    with pytest.raises(ValueError, match=message):
        trainer.step(given)
    assert trainer.steps == 0


def test_no_batches_and_no_steps_between_logs_are_refused():
    trainer = IMPL.trainer(SMALL)
    with pytest.raises(ValueError, match=r"batches=\[\] gives no gradient"):
        trainer.accumulate([])
    with pytest.raises(ValueError, match="log_every=0 is not a number of steps"):
        trainer.fit([batch()], 0, print)


def test_python_level_work_of_a_step_does_not_grow_with_batch_or_length():
    def work(B, T):
        trainer = IMPL.trainer(SMALL)
        given = {"source": np.full((B, T), 3), "target": np.full((B, T), 3)}
        trainer.step(given)
        return bytecodes(lambda: trainer.step(given))

    assert work(9, 10) == work(1, 2)
