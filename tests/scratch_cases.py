"""What the tests of numpy_scratch share: configs, inputs, gradients by central differences, torch's names."""

import numpy as np
import pytest

from attest.contract import Config
from attest_impls.numpy_scratch import NumpyScratch

torch = pytest.importorskip("torch")

IMPL = NumpyScratch()
SMALL = Config(d_model=8, num_heads=2, d_ff=12, source_vocab=9, target_vocab=7, max_len=10, dtype="float64",
               num_encoder_layers=2, num_decoder_layers=2)  # fmt: skip


def rng(seed=0):
    return np.random.default_rng(seed)


def randomised(component, seed=1):
    """Random biases and norms too, so that nothing is hidden behind a zero."""
    draw = rng(seed)
    component.load({n: p + 0.3 * draw.normal(size=p.shape) for n, p in component.parameters().items()})
    return component


def tensors(arrays, grad=True):
    return {n: torch.tensor(a, requires_grad=grad and a.dtype.kind == "f") for n, a in arrays.items()}


def check_by_differences(component, inputs, seed=3):
    """Analytic == central difference along random directions, random cotangents, for every array."""
    draw = rng(seed)
    cotangents = {n: draw.normal(size=o.shape) for n, o in component(**inputs).items()}
    analytic = component.gradients(inputs, cotangents)
    start = component.parameters()

    def objective(inputs, parameters):
        component.load(parameters)
        return sum((cotangents[n] * o).sum() for n, o in component(**inputs).items())

    def along(name, values, evaluate):
        direction = draw.normal(size=values[name].shape)
        step = 1e-6
        ahead, behind = ({**values, name: values[name] + s * direction} for s in (step, -step))
        return direction, (evaluate(ahead) - evaluate(behind)) / (2 * step)

    for name in analytic.inputs:
        direction, numeric = along(name, inputs, lambda x: objective(x, start))
        np.testing.assert_allclose(
            (analytic.inputs[name] * direction).sum(), numeric, rtol=1e-5, atol=1e-6, err_msg=name
        )
    assert set(analytic.parameters) == set(start)
    for name in start:
        direction, numeric = along(name, start, lambda p: objective(inputs, p))
        np.testing.assert_allclose(
            (analytic.parameters[name] * direction).sum(), numeric, rtol=1e-5, atol=1e-6, err_msg=name
        )
    component.load(start)


def attention_inputs(seed=0, lead=(2, 3), T=4, S=5):
    draw = rng(seed)
    q, k, v = (draw.normal(size=(*lead, *tail)) for tail in ((T, 6), (S, 6), (S, 3)))
    return {"q": q, "k": k, "v": v, "mask": draw.random((*lead, T, S)) < 0.7}


def layer_weights(parameters, ours, theirs):
    """A layer's canonical parameters under the names of torch's own layers."""
    renamed = {}
    for name, attention in (("self_attention", "self_attn"), ("cross_attention", "multihead_attn")):
        for kind in ("weight", "bias"):
            parts = [parameters.get(f"{ours}{name}.{part}.{kind}") for part in ("query", "key", "value")]
            if parts[0] is not None:
                renamed[f"{theirs}{attention}.in_proj_{kind}"] = torch.cat(parts)
                renamed[f"{theirs}{attention}.out_proj.{kind}"] = parameters[f"{ours}{name}.output.{kind}"]
    pairs = {"feed_forward.inner": "linear1", "feed_forward.outer": "linear2"}
    for old, new in (pairs | {f"norm{i}": f"norm{i + 1}" for i in range(3)}).items():
        for kind in ("weight", "bias"):
            if f"{ours}{old}.{kind}" in parameters:
                renamed[f"{theirs}{new}.{kind}"] = parameters[f"{ours}{old}.{kind}"]
    return renamed


def block_inputs(operation):
    draw = rng(8)
    x, memory = draw.normal(size=(3, 4, 8)), draw.normal(size=(3, 5, 8))
    padding = np.arange(5) < np.array([5, 3, 1])[:, None]
    if operation.startswith("encoder"):
        return {"x": memory, "mask": padding[:, None]}
    return {"x": x, "memory": memory, "memory_mask": padding[:, None]}


SIMPLE = {
    "feed_forward": {"x": rng(1).normal(size=(2, 3, 8))},
    "layer_norm": {"x": rng(1).normal(size=(2, 3, 8)) + 3},
    "positional_encoding": {"x": rng(1).normal(size=(2, 3, 8))},
    "token_embedding": {"ids": np.array([[3, 3, 8], [1, 2, 3]])},
    "input_embedding": {"ids": np.array([[3, 3, 8], [1, 2, 3]])},
}


IDS = {"source": np.array([[3, 4, 5, 0], [6, 7, 0, 0]]), "target": np.array([[1, 4, 5], [1, 3, 0]])}
