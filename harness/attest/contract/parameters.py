"""The canonical names and shapes of an operation's parameters. Weights are (out, in), as in y = x W^T + b."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from attest.contract import Config

Shapes = dict[str, tuple[int, ...]]


def shapes(operation: str, config: Config) -> Shapes:
    """Name to shape for one operation; empty where it has no parameters."""
    layout = _LAYOUTS.get(operation)
    return layout(config) if layout else {}


def _within(prefix: str, inner: Shapes) -> Shapes:
    return {f"{prefix}.{name}": shape for name, shape in inner.items()}


def _linear(name: str, outputs: int, inputs: int, config: Config) -> Shapes:
    bias: Shapes = {f"{name}.bias": (outputs,)} if config.bias else {}
    return {f"{name}.weight": (outputs, inputs), **bias}


def _projections(config: Config) -> Shapes:
    d = config.d_model
    return {k: v for name in ("query", "key", "value") for k, v in _linear(name, d, d, config).items()}


def _multi_head(config: Config) -> Shapes:
    return {**_projections(config), **_linear("output", config.d_model, config.d_model, config)}


def _feed_forward(config: Config) -> Shapes:
    d, inner = config.d_model, config.inner_width
    return {**_linear("inner", inner, d, config), **_linear("outer", d, inner, config)}


def _norm(config: Config) -> Shapes:
    return {"weight": (config.d_model,), "bias": (config.d_model,)}


def _layer(config: Config, attentions: tuple[str, ...]) -> Shapes:
    layer: Shapes = {}
    for name in attentions:
        layer |= _within(name, _multi_head(config))
    layer |= _within("feed_forward", _feed_forward(config))
    for i in range(len(attentions) + 1):
        layer |= _within(f"norm{i}", _norm(config))
    return layer


def _encoder_layer(config: Config) -> Shapes:
    return _layer(config, ("self_attention",))


def _decoder_layer(config: Config) -> Shapes:
    return _layer(config, ("self_attention", "cross_attention"))


def _stack(config: Config, layer: Shapes, depth: int) -> Shapes:
    stack: Shapes = {}
    for i in range(depth):
        stack |= _within(str(i), layer)
    return stack | (_within("norm", _norm(config)) if config.norm == "pre" else {})


def _encoder(config: Config) -> Shapes:
    return _stack(config, _encoder_layer(config), config.num_encoder_layers)


def _decoder(config: Config) -> Shapes:
    return _stack(config, _decoder_layer(config), config.num_decoder_layers)


def _transformer(config: Config) -> Shapes:
    d = config.d_model
    projection = _linear("projection", config.target_vocab, d, config)
    if config.tie:
        del projection["projection.weight"]
    return {
        "source_embedding.weight": (config.source_vocab, d),
        "target_embedding.weight": (config.target_vocab, d),
        **_within("encoder", _encoder(config)),
        **_within("decoder", _decoder(config)),
        **projection,
    }


_LAYOUTS: Mapping[str, Callable[[Config], Shapes]] = {
    "qkv_projection": _projections,
    "multi_head_attention": _multi_head,
    "feed_forward": _feed_forward,
    "token_embedding": lambda config: {"weight": (config.source_vocab, config.d_model)},
    "input_embedding": lambda config: {"weight": (config.source_vocab, config.d_model)},
    "layer_norm": _norm,
    "encoder_layer": _encoder_layer,
    "decoder_layer": _decoder_layer,
    "encoder": _encoder,
    "decoder": _decoder,
    "transformer": _transformer,
    "generate": _transformer,
    "trainer": _transformer,
    "optimizer": _transformer,
}
