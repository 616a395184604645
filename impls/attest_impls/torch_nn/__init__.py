"""torch's own layers behind the adapter: the independent peer. Nothing of torch is repaired here."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import pluggy
import torch
from torch import Tensor, nn

from attest.adapters.torch import TorchComponent, seeded
from attest.contract import Array, Arrays, Config

from . import attention, first_principles, layers, masks, model, names
from .known import KNOWN_FAILURES


def component(
    build: Callable[[Config], nn.Module],
    config: Config,
    own_names: names.Names | None = None,
    call: Any = None,
    kind: type[TorchComponent] = TorchComponent,
) -> Any:
    with seeded(config.seed, config.device):
        module = build(config)
    return kind(module, config, own_names, call)


class TorchNN:
    """What torch.nn and torch.nn.functional offer, and the one-line masks that go with them.

    --impl torch_nn,backend=flex judges self_attention by flex_attention, without gradients on the CPU.
    It is not among `backends`: what one of those refuses is offered by none, and all else has one way only.
    """

    name = "torch_nn"
    description = "torch's own attention, layers, loss and optimiser"
    dtypes = ("float32", "float64")
    supports = (
        {"activation": ("silu", "gelu_tanh"), "gated": (True,), "operations": ("feed_forward",)},
        {"operations": ("self_attention",), **attention.OPTIONS},
    )
    known_failures = KNOWN_FAILURES

    def attention(self, config: Config) -> TorchComponent:
        return component(lambda _: nn.Identity(), config, call=layers.scaled_dot_product)

    def qkv_projection(self, config: Config) -> TorchComponent:
        return component(layers.Projections, config)

    def length_mask(self, lengths: Array, size: int) -> Array:
        return (torch.arange(size) < torch.tensor(np.array(lengths, order="C"))[:, None])[:, None].numpy()

    def padding_mask(self, ids: Array, pad_id: int) -> Array:
        return (torch.tensor(np.array(ids, order="C")) != pad_id)[:, None].numpy()

    def causal_mask(self, T: int, S: int) -> Array:
        return masks.causal(T, S).numpy()

    def multi_head_attention(self, config: Config) -> TorchComponent:
        return component(
            layers.multi_head_attention, config, names.multi_head(config), layers.attend_with_heads
        )

    def feed_forward(self, config: Config) -> TorchComponent:
        own_names = None if config.gated else names.sequential(config)
        return component(layers.feed_forward, config, own_names, lambda module, x: module(x))

    def token_embedding(self, config: Config) -> TorchComponent:
        return component(layers.token_embedding, config, call=lambda module, ids: module(ids))

    def layer_norm(self, config: Config) -> TorchComponent:
        return component(layers.layer_norm, config, call=lambda module, x: module(x))

    def rms_norm(self, config: Config) -> TorchComponent:
        return component(layers.rms_norm, config, call=lambda module, x: module(x))

    def self_attention(self, config: Config) -> TorchComponent:
        return component(attention.SelfAttention, config)

    def encoder_layer(self, config: Config) -> TorchComponent:
        call = partial(layers.encode, heads=config.num_heads)
        return component(layers.encoder_layer, config, names.encoder_layer(config), call)

    def decoder_layer(self, config: Config) -> TorchComponent:
        call = partial(layers.decode, heads=config.num_heads)
        return component(layers.decoder_layer, config, names.decoder_layer(config), call)

    def encoder(self, config: Config) -> TorchComponent:
        call = partial(layers.encode, heads=config.num_heads)
        return component(layers.encoder, config, names.encoder(config), call)

    def decoder(self, config: Config) -> TorchComponent:
        call = partial(layers.decode, heads=config.num_heads)
        return component(layers.decoder, config, names.decoder(config), call)

    def transformer(self, config: Config) -> model.TransformerComponent:
        own_names = names.transformer(config)
        return component(model.Transformer, config, own_names, kind=model.TransformerComponent)

    def loss(self, config: Config) -> TorchComponent:
        def call(module: nn.Module, logits: Tensor, labels: Tensor) -> dict[str, Tensor]:
            return {"loss": module(logits.flatten(0, 1), labels.flatten())}

        return component(model.cross_entropy, config, call=call)

    def clip_gradients(self, config: Config) -> Callable[..., Arrays]:
        return lambda gradients: model.clip(config, gradients)

    def optimizer(self, config: Config) -> model.Optimizer:
        return model.Optimizer(config, self.transformer(config).parameters())

    def linear(self, config: Config) -> TorchComponent:
        return component(first_principles.linear, config, call=lambda module, x: module(x))

    def activation(self, config: Config) -> TorchComponent:
        return component(first_principles.activation, config, call=lambda module, x: module(x))

    def softmax(self, config: Config) -> TorchComponent:
        return component(first_principles.softmax, config, call=lambda module, x: module(x))

    def cross_entropy(self, config: Config) -> TorchComponent:
        return component(first_principles.cross_entropy, config, call=first_principles.mean_loss)

    def sgd(self, config: Config) -> first_principles.Update:
        return first_principles.Update("sgd", config)

    def momentum(self, config: Config) -> first_principles.Update:
        return first_principles.Update("momentum", config)

    def adam(self, config: Config) -> first_principles.Update:
        return first_principles.Update("adam", config)

    def adamw(self, config: Config) -> first_principles.Update:
        return first_principles.Update("adamw", config)

    xavier = staticmethod(first_principles.xavier)
    he = staticmethod(first_principles.he)


@pluggy.HookimplMarker("attest")
def attest_implementations() -> list[TorchNN]:
    return [TorchNN()]
