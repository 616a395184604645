"""The whole model, loss, schedule, clipping and Adam of numpy_scratch, against torch and by differences."""

import math

import numpy as np
import pytest

from attest_impls.numpy_scratch.embedding import position_table
from scratch_cases import (
    IDS,
    IMPL,
    SMALL,
    check_by_differences,
    layer_weights,
    randomised,
    rng,
    tensors,
)

torch = pytest.importorskip("torch")
F = torch.nn.functional


def torch_transformer(p, config, ids):
    """The same model from torch's stacks: post-norm without a final norm, masks made from the ids."""

    def embed(side):
        x = F.embedding(ids[side], p[f"{side}_embedding.weight"], padding_idx=0) * math.sqrt(8)
        return x + torch.tensor(position_table(x.shape[1], 8))

    def run(kind, prefix, depth, x, *args, **options):
        for i in range(depth):
            layer = kind(8, 2, 12, 0.0, config.activation, batch_first=True,
                         norm_first=config.norm == "pre", dtype=torch.float64)  # fmt: skip
            weights = layer_weights(p, f"{prefix}.{i}.", "")
            x = torch.func.functional_call(layer, weights, (x, *args), options)
        if config.norm == "pre":
            x = F.layer_norm(x, (8,), p[f"{prefix}.norm.weight"], p[f"{prefix}.norm.bias"], config.norm_eps)
        return x

    padded = {side: ids[side] == 0 for side in ids}
    blocked = ~torch.tensor(IMPL.causal_mask(3, 3))
    nn = torch.nn
    memory = run(
        nn.TransformerEncoderLayer, "encoder", 2, embed("source"), src_key_padding_mask=padded["source"]
    )
    x = run(nn.TransformerDecoderLayer, "decoder", 2, embed("target"), memory, tgt_mask=blocked,
            tgt_key_padding_mask=padded["target"], memory_key_padding_mask=padded["source"])  # fmt: skip
    weight = p["target_embedding.weight"] if config.tie else p["projection.weight"]
    return x @ weight.T + p["projection.bias"]


@pytest.mark.parametrize("tie", [False, True])
@pytest.mark.parametrize("norm", ["post", "pre"])
def test_the_model_and_its_gradients_equal_torch(norm, tie):
    config = SMALL.but(norm=norm, tie=tie, activation="gelu")
    ours = randomised(IMPL.transformer(config))
    p = tensors(ours.parameters())
    expected = torch_transformer(p, config, tensors(IDS))
    np.testing.assert_allclose(ours(**IDS)["logits"], expected.detach().numpy(), atol=1e-12)
    dy = rng(7).normal(size=expected.shape)
    expected.backward(torch.tensor(dy))
    given = ours.gradients(IDS, {"logits": dy}).parameters
    assert set(given) == set(p)
    for name, gradient in given.items():
        np.testing.assert_allclose(gradient, p[name].grad.numpy(), atol=1e-10, err_msg=name)


@pytest.mark.parametrize("tie", [False, True])
def test_the_model_by_differences_in_training(tie):
    config = SMALL.but(norm="pre", tie=tie, dropout=0.2, num_encoder_layers=1, num_decoder_layers=1)
    component = randomised(IMPL.transformer(config))
    component.train(9)
    ids = {"source": np.array([[3, 4, 4], [5, 6, 8]]), "target": np.array([[1, 3], [1, 6]])}
    check_by_differences(component, ids)


def test_forward_is_decode_of_encode_and_a_prefix_keeps_its_logits():
    ours = randomised(IMPL.transformer(SMALL))
    logits = ours(**IDS)["logits"]
    memory = ours.encode(source=IDS["source"])["memory"]
    again = ours.decode(target=IDS["target"], memory=memory, source=IDS["source"])["logits"]
    np.testing.assert_array_equal(again, logits)
    prefix = ours(source=IDS["source"], target=IDS["target"][:, :2])["logits"]
    np.testing.assert_allclose(prefix, logits[:, :2], atol=1e-13)


@pytest.mark.parametrize("smoothing", [0.0, 0.1])
def test_loss_and_its_gradient_equal_torch(smoothing):
    logits, labels = 3 * rng(1).normal(size=(3, 4, 7)), rng(2).integers(0, 7, (3, 4))
    labels[0, 2:] = 0
    t = torch.tensor(logits, requires_grad=True)
    expected = F.cross_entropy(
        t.reshape(-1, 7), torch.tensor(labels).reshape(-1), ignore_index=0, label_smoothing=smoothing
    )
    (2.5 * expected).backward()
    loss, inputs = IMPL.loss(SMALL.but(label_smoothing=smoothing)), {"logits": logits, "labels": labels}
    assert loss(**inputs)["loss"].shape == ()
    np.testing.assert_allclose(loss(**inputs)["loss"], expected.item(), atol=1e-14)
    given = loss.gradients(inputs, {"loss": np.array(2.5)}).inputs["logits"]
    np.testing.assert_allclose(given, t.grad.numpy(), atol=1e-14)


def test_loss_of_padding_alone_is_zero_and_huge_logits_are_finite():
    loss, nothing = (
        IMPL.loss(SMALL),
        {"logits": rng(1).normal(size=(1, 2, 7)), "labels": np.zeros((1, 2), int)},
    )
    assert loss(**nothing)["loss"] == 0
    assert not loss.gradients(nothing, {"loss": np.array(1.0)}).inputs["logits"].any()
    huge = np.array([[[1e4, 0.0, -1e4]]])
    assert loss(logits=huge, labels=np.array([[1]]))["loss"] == 1e4


def test_schedules():
    rate = IMPL.learning_rate(SMALL.but(d_model=64, warmup=400))
    for step in (1, 399, 400, 401, 5000):
        assert rate(step=step) == pytest.approx(64**-0.5 * min(step**-0.5, step * 400**-1.5), rel=1e-14)
    assert IMPL.learning_rate(SMALL.but(d_model=64, warmup=0))(step=1) == 64**-0.5
    cosine = SMALL.but(schedule="cosine", warmup=10, total_steps=30, peak_rate=0.5, floor_rate=0.1)
    rates = [IMPL.learning_rate(cosine)(step=s) for s in (1, 10, 20, 30, 31)]
    np.testing.assert_allclose(rates, [0.05, 0.5, 0.3, 0.1, 0.1], rtol=1e-14)
    flat = IMPL.learning_rate(cosine.but(warmup=30))
    assert [flat(step=s) for s in (30, 31)] == [0.5, 0.1]


def test_clipping_and_adam_equal_torch():
    config = SMALL.but(num_encoder_layers=1, num_decoder_layers=1)
    ours, clip = IMPL.optimizer(config), IMPL.clip_gradients(config)
    p = tensors(ours.parameters())
    theirs = torch.optim.Adam(p.values(), betas=(0.9, 0.98), eps=1e-9)
    for step, size in enumerate((1e-3, 5.0, 0.1, 2.0)):
        draw = rng(step)
        gradients = {n: size * draw.normal(size=t.shape) for n, t in p.items()}
        for name, tensor in p.items():
            tensor.grad = torch.tensor(gradients[name])
        torch.nn.utils.clip_grad_norm_(p.values(), 1.0)
        theirs.param_groups[0]["lr"] = 0.01 * (step + 1)
        theirs.step()
        ours.step(clip(gradients=gradients), 0.01 * (step + 1))
    for name, value in ours.parameters().items():  # torch divides by norm + 1e-6
        np.testing.assert_allclose(value, p[name].detach().numpy(), atol=1e-6, err_msg=name)
