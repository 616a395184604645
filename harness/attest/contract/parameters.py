"""The canonical names and shapes of an operation's parameters. Weights are (out, in), as in y = x W^T + b."""

from __future__ import annotations

from attest.contract.config import Config
from attest.contract.operation import Shapes, operation_of

__all__ = ["Shapes", "shapes"]


def shapes(operation: str, config: Config) -> Shapes:
    """Name to shape for one operation or method; empty where it has no parameters."""
    return operation_of(operation).parameters(config)


def _within(prefix: str, inner: Shapes) -> Shapes:
    return {f"{prefix}.{name}": shape for name, shape in inner.items()}


def _linear(name: str, outputs: int, inputs: int, config: Config) -> Shapes:
    bias: Shapes = {f"{name}.bias": (outputs,)} if config.bias else {}
    return {f"{name}.weight": (outputs, inputs), **bias}


def linear(config: Config) -> Shapes:
    """One linear map from d_model to d_ff."""
    named = _linear("", config.inner_width, config.d_model, config)
    return {name.removeprefix("."): shape for name, shape in named.items()}


def projections(config: Config) -> Shapes:
    """Queries, keys and values."""
    d = config.d_model
    return {k: v for name in ("query", "key", "value") for k, v in _linear(name, d, d, config).items()}


def multi_head(config: Config) -> Shapes:
    """The projections and the map of the joined heads."""
    return {**projections(config), **_linear("output", config.d_model, config.d_model, config)}


def feed_forward(config: Config) -> Shapes:
    """Two linear maps, and a third for the gate where there is one."""
    d, inner = config.d_model, config.inner_width
    gate = _linear("gate", inner, d, config) if config.gated else {}
    return {**gate, **_linear("inner", inner, d, config), **_linear("outer", d, inner, config)}


def norm(config: Config) -> Shapes:
    """A gain and a bias."""
    return {"weight": (config.d_model,), "bias": (config.d_model,)}


def _layer(config: Config, attentions: tuple[str, ...]) -> Shapes:
    layer: Shapes = {}
    for name in attentions:
        layer |= _within(name, multi_head(config))
    layer |= _within("feed_forward", feed_forward(config))
    for i in range(len(attentions) + 1):
        layer |= _within(f"norm{i}", norm(config))
    return layer


def encoder_layer(config: Config) -> Shapes:
    """Self-attention, feed-forward, two norms."""
    return _layer(config, ("self_attention",))


def decoder_layer(config: Config) -> Shapes:
    """Self-attention, cross-attention, feed-forward, three norms."""
    return _layer(config, ("self_attention", "cross_attention"))


def _stack(config: Config, layer: Shapes, depth: int) -> Shapes:
    stack: Shapes = {}
    for i in range(depth):
        stack |= _within(str(i), layer)
    return stack | (_within("norm", norm(config)) if config.norm == "pre" else {})


def encoder(config: Config) -> Shapes:
    """Layers, and a last norm where norm is pre."""
    return _stack(config, encoder_layer(config), config.num_encoder_layers)


def decoder(config: Config) -> Shapes:
    """Layers, and a last norm where norm is pre."""
    return _stack(config, decoder_layer(config), config.num_decoder_layers)


def embedding(config: Config) -> Shapes:
    """One table of tokens."""
    return {"weight": (config.source_vocab, config.d_model)}


def transformer(config: Config) -> Shapes:
    """Two tables, two stacks and the projection to the target vocabulary, unless that is tied."""
    d = config.d_model
    projection = _linear("projection", config.target_vocab, d, config)
    if config.tie:
        del projection["projection.weight"]
    return {
        "source_embedding.weight": (config.source_vocab, d),
        "target_embedding.weight": (config.target_vocab, d),
        **_within("encoder", encoder(config)),
        **_within("decoder", decoder(config)),
        **projection,
    }
