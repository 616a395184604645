"""numpy_scratch's generation: the cache against the full pass, and each search against the obvious one."""

from itertools import product

import numpy as np
import pytest

from attest.checks.side_effects import bytecodes
from attest_impls.numpy_scratch.sampling import drawn
from scratch_cases import IMPL, SMALL, randomised, rng

SOURCE = np.array([[3, 4, 5, 0], [6, 7, 8, 3], [8, 0, 0, 0]])
TINY = SMALL.but(target_vocab=4, num_encoder_layers=1, num_decoder_layers=1, bos_id=1, eos_id=2)


def model_and_generator(config=SMALL, seed=1, hide=()):
    """Both with the same random weights; the hidden ids are never likely."""
    model = randomised(IMPL.transformer(config), seed)
    parameters = model.parameters()
    parameters["projection.bias"][list(hide)] = -1e4
    model.load(parameters)
    generator = IMPL.generate(config)
    generator.load(parameters)
    return model, generator


def log_p(model, source, tokens):
    """Log-probabilities (V,) of what follows these tokens, by the full pass."""
    target = np.array([[SMALL.bos_id, *tokens]])
    logits = model(source=source, target=target)["logits"][0, -1]
    return logits - logits.max() - np.log(np.exp(logits - logits.max()).sum())


def unpadded(row):
    return tuple(int(token) for token in row if token != SMALL.pad_id)


@pytest.mark.parametrize("norm", ["post", "pre"])
@pytest.mark.parametrize("sizes", [(1, 1, 1, 1), (3, 1), (2, 2), (4,)])
def test_cached_steps_give_the_logits_of_the_full_pass(norm, sizes):
    model, _ = model_and_generator(SMALL.but(norm=norm))
    target = np.array([[1, 3, 4, 5], [1, 6, 0, 0], [1, 5, 5, 3]])  # padding may be fed as well
    wanted = model(source=SOURCE, target=target)["logits"]
    state, at = model.start(SOURCE), 0
    for size in sizes:
        logits, state = model.step(state, target[:, at : at + size])
        np.testing.assert_allclose(logits, wanted[:, at : at + size], atol=1e-12)
        at += size


def test_reordered_rows_go_on_as_the_rows_they_were():
    model, _ = model_and_generator()
    rows, prefix, more = np.array([2, 0, 0, 1]), np.array([[1, 3], [1, 4], [1, 0]]), np.full((4, 1), 5)
    _, state = model.step(model.start(SOURCE), prefix)
    logits, _ = model.step(model.reorder(state, rows), more)
    target = np.concatenate([prefix[rows], more], axis=1)
    wanted = model(source=SOURCE[rows], target=target)["logits"]
    np.testing.assert_allclose(logits[:, 0], wanted[:, -1], atol=1e-12)


def test_a_state_is_used_once_and_holds_max_len_tokens():
    model, _ = model_and_generator()
    first = model.start(SOURCE)
    _, full = model.step(first, np.ones((3, 10), int))
    with pytest.raises(ValueError, match="state='<after 0 tokens>' is used up; go on with the state that"):
        model.step(first, np.ones((3, 1), int))
    with pytest.raises(ValueError, match="length of tokens=11 is beyond max_len=10"):
        model.step(full, np.ones((3, 1), int))
    for rows in ([3], [-1], [[0]], [], [0.5]):
        with pytest.raises(ValueError, match="rows="):
            model.reorder(full, np.array(rows))
    with pytest.raises(ValueError, match=r"tokens.shape=\(2, 1\) is not of batch 3"):
        model.step(full, np.ones((2, 1), int))


def test_greedy_takes_the_likeliest_token_of_the_full_pass():
    model, generator = model_and_generator(hide=(0, 1))
    found = generator(source=SOURCE, max_len=6, method="greedy")
    for row, source in enumerate(SOURCE):
        tokens, score = [], 0.0
        while len(tokens) < 6 and SMALL.eos_id not in tokens:
            step = log_p(model, source[None], tokens)
            tokens.append(int(step.argmax()))
            score += step.max()
        assert unpadded(found["tokens"][row, 0]) == tuple(tokens)
        assert found["scores"][row, 0] == pytest.approx(score, abs=1e-12)


@pytest.mark.parametrize("alpha", [0.0, 0.6, 2.0, -1.0])
def test_a_wide_beam_is_exhaustive_search(alpha):
    model, generator = model_and_generator(TINY, hide=(0, 1))
    source, limit = SOURCE[:1], 3
    scored = {}
    for tokens in product((2, 3), repeat=limit):
        written = tokens[: tokens.index(2) + 1] if 2 in tokens else tokens
        total = sum(log_p(model, source, written[:n])[token] for n, token in enumerate(written))
        scored[written] = total / ((5 + len(written)) / 6) ** alpha
    wanted = sorted(scored, key=scored.get, reverse=True)
    found = generator(source=source, max_len=limit, width=4**limit, num_results=4, alpha=alpha)
    assert [unpadded(row) for row in found["tokens"][0]] == wanted[:4]
    np.testing.assert_allclose(found["scores"][0], [scored[t] for t in wanted[:4]], atol=1e-12)


def test_a_beam_of_one_is_greedy_and_rows_do_not_depend_on_each_other():
    _, generator = model_and_generator(hide=(0, 1))
    greedy = generator(source=SOURCE, max_len=6, method="greedy")["tokens"]
    beam = generator(source=SOURCE, max_len=6, width=1)["tokens"]
    np.testing.assert_array_equal(beam, greedy)
    together = generator(source=SOURCE, max_len=6, width=3, num_results=3)
    for row, source in enumerate(SOURCE):
        alone = generator(source=source[source != 0][None], max_len=6, width=3, num_results=3)
        assert [unpadded(t) for t in together["tokens"][row]] == [unpadded(t) for t in alone["tokens"][0]]
        np.testing.assert_allclose(together["scores"][row], alone["scores"][0], atol=1e-12)


def test_padding_on_the_left_and_the_training_mode_change_nothing():
    _, generator = model_and_generator(SMALL.but(dropout=0.5), hide=(0, 1))
    plain = generator(source=SOURCE[:1, :3], max_len=6)
    generator.train(3)
    shifted = generator(source=np.array([[0, 0, 3, 4, 5]]), max_len=6)
    np.testing.assert_array_equal(shifted["tokens"], plain["tokens"])
    np.testing.assert_allclose(shifted["scores"], plain["scores"], atol=1e-12)


def test_the_distribution_after_temperature_top_k_and_top_p():
    p = np.array([[0.4, 0.3, 0.2, 0.1]])
    distribution = IMPL.next_token_distribution
    np.testing.assert_allclose(distribution(np.log(p), 1.0), p, atol=1e-15)
    np.testing.assert_allclose(distribution(np.log(p), 0.5), p**2 / (p**2).sum(), atol=1e-15)
    np.testing.assert_allclose(distribution(np.log(p), 1.0, 2), [[4 / 7, 3 / 7, 0, 0]], atol=1e-15)
    np.testing.assert_allclose(distribution(np.log(p), 1.0, 9, 1.0), p, atol=1e-15)
    np.testing.assert_allclose(distribution(np.log(p), 1.0, None, 0.6), [[4 / 7, 3 / 7, 0, 0]], atol=1e-15)
    np.testing.assert_array_equal(distribution(np.array([[1.0, 3.0, 3.0]]), 0.0), [[0, 1, 0]])
    assert distribution(np.float32(p), 1.0).dtype == np.float32


def test_draws_follow_the_distribution_and_never_take_what_is_impossible():
    p, count = np.array([0.0, 0.5, 0.3, 0.2, 0.0]), 20_000
    tokens = drawn(np.broadcast_to(p, (count, 5)), rng(3))
    seen = np.bincount(tokens, minlength=5) / count
    deviation = np.sqrt(p * (1 - p) / count)
    assert (np.abs(seen - p) <= 5 * deviation).all(), seen


def test_sampling_repeats_with_its_seed_and_one_kept_token_is_greedy():
    _, generator = model_and_generator(hide=(0, 1))
    many = np.repeat(SOURCE[:1], 40, axis=0)
    first, again, other = (generator(source=many, max_len=4, method="sample", seed=s) for s in (5, 5, 6))
    np.testing.assert_array_equal(first["tokens"], again["tokens"])
    assert first["tokens"].shape != other["tokens"].shape or (first["tokens"] != other["tokens"]).any()
    one = generator(source=SOURCE, max_len=4, method="sample", top_k=1, seed=8)
    np.testing.assert_array_equal(
        one["tokens"], generator(source=SOURCE, max_len=4, method="greedy")["tokens"]
    )


BAD_REQUESTS = [
    ({"method": "best"}, "method='best' is unknown; choose one of greedy, beam, sample"),
    ({"max_len": 11}, "max_len=11 is beyond the model's 10 positions"),
    ({"width": 2, "num_results": 3}, "num_results=3 is above the 2 that method=beam keeps"),
    ({"method": "greedy", "num_results": 2}, "num_results=2 is above the 1 that method=greedy keeps"),
    ({"alpha": float("inf")}, "alpha=inf is not a finite number"),
    ({"seed": -1}, "seed=-1 is not an integer from 0"),
    ({"temperature": float("nan")}, "temperature=nan is not a finite number from 0"),
    ({"top_k": 0}, "top_k=0 is not a positive integer"),
    ({"top_p": 1.5}, r"top_p=1.5 is outside \(0, 1\]"),
]


@pytest.mark.parametrize(("changes", "message"), BAD_REQUESTS)
def test_a_bad_request_is_refused_by_name(changes, message):
    _, generator = model_and_generator()
    with pytest.raises(ValueError, match=message):
        generator(**{"source": SOURCE, "max_len": 4, **changes})


def test_python_level_work_of_a_step_grows_neither_with_the_prefix_nor_with_rows_or_heads():
    def work(config, B, prefix):
        model = IMPL.transformer(config)
        # A step uses its state up, and counting may call more than once.
        states = [model.step(model.start(np.full((B, 4), 3)), np.full((B, prefix), 3))[1] for _ in range(4)]
        return bytecodes(lambda: model.step(states.pop(), np.full((B, 1), 3)))

    assert work(SMALL.but(num_heads=8), 9, 8) == work(SMALL.but(num_heads=1), 1, 1)
