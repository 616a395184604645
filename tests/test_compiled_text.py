"""Decoder-only models, compiled: the numbers of eager, one graph for each job, states to go back to."""

from __future__ import annotations

import numpy as np
import pytest

from attest.contract import Config

torch = pytest.importorskip("torch")

from attest_impls.compiled import Compiled  # noqa: E402
from attest_impls.compiled.fused import fuse  # noqa: E402
from attest_impls.compiled.text_decoding import empty_state, read_last, read_on  # noqa: E402
from attest_impls.compiled.text_generation import whole  # noqa: E402
from attest_impls.eager import Eager  # noqa: E402
from attest_impls.eager.language_model import LanguageModel  # noqa: E402

pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning")  # of torch's own, inside inductor
SIZES = Config(
    d_model=16, num_heads=4, d_ff=24, num_decoder_layers=2, target_vocab=11, source_vocab=11, max_len=64
)
NEW = {
    "positions": "rotary",
    "norm": "pre",
    "norm_kind": "rms",
    "activation": "silu",
    "gated": True,
    "bias": False,
}
KINDS = {
    "llama": SIZES.but(**NEW, num_kv_heads=2, scale_embeddings=False),
    "mistral": SIZES.but(
        **NEW, num_kv_heads=1, window=3, head_width=6, qk_norm=True, rotary_pairing="interleaved"
    ),
    "gpt_oss": SIZES.but(
        **NEW, num_kv_heads=2, window=4, sinks=True, rotary_scaling="yarn", rotary_factor=4.0
    ),
    "capped": SIZES.but(**NEW, score_cap=3.0),
    "gpt2": SIZES.but(positions="learned", norm="pre", activation="gelu_tanh", tie=True),
    "bloom": SIZES.but(positions="alibi", norm="pre", embedding_norm=True),
    "relative": SIZES.but(positions="relative", parallel=True, norm="pre", attention_scale=0.3),
}


def pair(config: Config) -> tuple[LanguageModel, LanguageModel]:
    """The same model as eager has it and as it is compiled, in float64, without compiling it."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        plain = LanguageModel(config).double().eval()
        other = LanguageModel(config).double().eval()
    other.load_state_dict(plain.state_dict())
    return plain, fuse(other, "on").eval()


def ids(rows: int, length: int) -> torch.Tensor:
    drawn = torch.tensor(np.random.default_rng(rows * length).integers(3, 11, (rows, length)))
    drawn[0, : length // 3] = 0
    return drawn


@pytest.mark.parametrize("kind", KINDS)
@torch.no_grad()
def test_the_functions_that_are_compiled_have_the_numbers_of_eager(kind: str) -> None:
    plain, fused = pair(KINDS[kind])
    text = ids(3, 9)
    wanted = plain(text)
    torch.testing.assert_close(whole(fused, text), wanted)
    state = empty_state(fused, 3, 12)
    for first, last in ((0, 4), (4, 5), (5, 8)):
        parts = state.buffers.parts(last)
        seen = read_on(fused, text[:, first:last], state.place, *parts)
        torch.testing.assert_close(seen, wanted[:, first:last])
        state = state.behind(last - first)
    last = read_last(fused, text[:, 8:], state.place, *state.buffers.parts(9))
    torch.testing.assert_close(last, wanted[:, 8])


@pytest.mark.parametrize("kind", KINDS)
def test_gradients_are_those_of_eager(kind: str) -> None:
    plain, fused = pair(KINDS[kind])
    for call in (plain, lambda text: whole(fused, text)):
        (call(ids(3, 6)).square() * (ids(3, 6) != 0)[..., None]).sum().backward()
    held = dict(fused.named_parameters())
    for name, p in plain.named_parameters():
        torch.testing.assert_close(held[name].grad, p.grad, msg=name)


def test_a_state_is_gone_on_from_twice_and_taken_back() -> None:
    """Without compiling: what is asked here is which buffers are written in place and which are copied."""
    model = Compiled().language_model(KINDS["llama"])
    with torch.compiler.set_stance("force_eager"):
        start = model.start(2)
        _, one = model.step(start, np.array([[4, 5, 6], [7, 8, 9]]))
        assert one.buffers is start.buffers
        first, two = model.step(one, np.array([[3], [4]]))
        other, _ = model.step(one, np.array([[5], [6]]))
        again, _ = model.step(model.rewind(two, 1), np.array([[3], [4]]))
        np.testing.assert_array_equal(again, first)
        assert np.abs(other - first).max() > 1e-4
        swapped, _ = model.step(model.reorder(one, np.array([1, 0])), np.array([[4], [3]]))
        np.testing.assert_allclose(swapped, first[::-1], atol=1e-6)
        after, _ = model.step(two, np.array([[6], [6]]))
        whole_text = np.array([[4, 5, 6, 3, 6], [7, 8, 9, 4, 6]])
        np.testing.assert_allclose(after[:, 0], model(ids=whole_text)["logits"][:, -1], atol=1e-5)


def test_a_cache_that_is_full_grows() -> None:
    config = KINDS["llama"].but(max_len=4)
    model = Compiled().language_model(config)
    text = np.random.default_rng(0).integers(3, 11, (2, 11))
    with torch.compiler.set_stance("force_eager"):
        _, state = model.step(model.start(2), text[:, :3])
        for n in range(3, 11):
            seen, state = model.step(state, text[:, n : n + 1])
        wanted = model(ids=text)["logits"][:, -1]
    np.testing.assert_allclose(seen[:, 0], wanted, atol=1e-5)


@pytest.mark.slow
def test_a_job_is_one_graph_whatever_the_length() -> None:
    """Forward, a step of several tokens, a step of one; writing has a graph for a prompt, one for a token."""
    config = KINDS["llama"].but(num_decoder_layers=1)
    model, rng = Compiled().language_model(config), np.random.default_rng(0)
    for n in (5, 2, 9):
        model(ids=rng.integers(3, 11, (2, n)))
    assert model.compile_report()["compilations"] == 1
    state = model.start(2)
    for n in (4, 2, *[1] * 40):
        _, state = model.step(state, rng.integers(3, 11, (2, n)))
    assert model.compile_report()["compilations"] == 3
    eager, writer = Eager().complete(config), Compiled().complete(config)
    writer.load(eager.parameters())
    for method, most in (("greedy", 2), ("beam", 4), ("sample", 4)):
        for length in (3, 7):
            asked = {"prompt": rng.integers(3, 11, (2, length)), "max_len": 20, "method": method}
            seen, wanted = writer(**asked), eager(**asked)
            np.testing.assert_array_equal(seen["tokens"], wanted["tokens"])
            np.testing.assert_allclose(seen["scores"], wanted["scores"], atol=1e-5)
        assert writer.compile_report()["compilations"] <= most
