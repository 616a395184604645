"""What verifies the criteria of M20."""

import numpy as np
from hypothesis import strategies as st

from attest.checks import expect, expect_close
from attest.contract import Config
from attest.properties import given, verifies
from attest.reference.oracle import expected
from softcap_milestone.operation import CAP


def drawn(scale, seed):
    return (scale * np.random.default_rng(seed).standard_normal((2, 3, 4))).astype(np.float32)


@verifies("M20.1")
@given(scale=st.sampled_from((0.1, 1.0, 10.0)), seed=st.integers(0, 2**16))
def output_equals_the_formula(impl, scale, seed):
    """The output is 5 * tanh(x / 5)."""
    config, x = Config(d_model=4), drawn(scale, seed)
    wanted = expected("softcap", config, {}, {"x": x})["output"]
    seen = impl.build("softcap", config)(x=x)
    expect_close(seen["output"], wanted, "output", factor=impl.factor("softcap"))


@verifies("M20.2")
@given(seed=st.integers(0, 2**16))
def no_output_is_beyond_the_cap(impl, seed):
    """Every output lies between -5 and 5."""
    seen = impl.build("softcap", Config(d_model=4))(x=drawn(1000.0, seed))["output"]
    largest = np.abs(seen).max()
    expect(largest <= CAP, f"the largest output is {largest:g}, should be at most {CAP:g}")
