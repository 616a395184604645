"""Self-attention of torch_nn by the fused call and by flex_attention."""

import pytest

from attest.boundary import JudgedImplementation
from attest.contract import Config
from attest.judging.property import load_properties
from attest.registry import load, parse_request
from attest.running.judging import Settings, judge
from attest.spec import load_spec

pytest.importorskip("torch")


def on(backend):
    (found,) = load(parse_request(f"torch_nn,backend={backend}"))
    return found


def judged(implementation, criterion):
    properties = load_properties()[criterion]
    impl = JudgedImplementation(implementation)
    return judge(load_spec().by_id[criterion], properties, impl, Settings(profile="quick"))


@pytest.mark.parametrize("criterion", ["M8.2", "M8.4a"])
def test_flex_attention_is_judged_where_the_options_name_it(criterion):
    record = judged(on("flex"), criterion)
    assert (record.verdict, record.reason) == ("pass", "")
    assert record.regimes["backend flex"] > 0


def test_both_agree_where_they_are_declared():
    both = on("sdpa")
    both.options, both.backends = (), ("sdpa", "flex")
    record = judged(both, "M8.14")
    assert (record.verdict, record.reason) == ("pass", "")
    assert min(record.regimes[f"backend {name}"] for name in both.backends) > 0


def test_flex_attention_refuses_gradients_on_the_cpu_and_the_fused_call_keeps_its_own():
    record = judged(on("flex"), "M8.16")
    assert record.verdict == "not offered"
    assert "does not support backward on CPU" in record.reason
    assert judged(on("sdpa"), "M8.16").verdict == "pass"


def test_a_backend_that_is_unknown_is_refused():
    config = Config(d_model=4, num_heads=2, options=(("backend", "flx"),))
    with pytest.raises(ValueError, match=r"^backend='flx' is unknown; choose one of sdpa, flex$"):
        on("sdpa").self_attention(config)


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        (
            {"positions": "rotary"},
            r"^positions='rotary' is not offered; give 'sinusoidal', 'learned', 'none'$",
        ),
        ({"score_cap": 5.0}, r"^score_cap=5.0 is not offered; give None$"),
        ({"sinks": True}, r"^sinks=True is not offered; give False$"),
        ({"qk_norm": True}, r"^qk_norm=True is not offered; give False$"),
    ],
)
def test_what_torch_does_not_have_is_not_passed_over(changes, sentence):
    with pytest.raises(NotImplementedError, match=sentence):
        on("sdpa").self_attention(Config(d_model=4, num_heads=2).but(**changes))
