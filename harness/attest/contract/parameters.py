"""The canonical names and shapes of an operation's parameters. Weights are (out, in), as in y = x W^T + b."""

from __future__ import annotations

from attest.contract.config import Config
from attest.contract.operation import Shapes, operation_of

__all__ = ["Shapes", "shapes", "token_tables"]


def shapes(operation: str, config: Config) -> Shapes:
    """Name to shape for one operation or method; empty where it has no parameters."""
    return operation_of(operation).parameters(config)


def token_tables(operation: str, config: Config) -> list[str]:
    """The parameters with a row for each token, in order; a shared table takes the place of two."""
    return sorted(operation_of(operation).tables & shapes(operation, config).keys())


def _within(prefix: str, inner: Shapes) -> Shapes:
    return {f"{prefix}.{name}": shape for name, shape in inner.items()}


def _linear(name: str, outputs: int, inputs: int, config: Config, bias: bool | None = None) -> Shapes:
    """`bias` is a field of its own for this map; None: as config.bias says."""
    has_bias = config.bias if bias is None else bias
    return {f"{name}.weight": (outputs, inputs), **({f"{name}.bias": (outputs,)} if has_bias else {})}


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


def heads(config: Config) -> Shapes:
    """Queries of H heads, keys and values of G heads, norms of both, sinks, the map of the joined heads."""
    D, d = config.d_model, config.d_head
    rows = {"query": config.num_heads * d, "key": config.kv_heads * d, "value": config.kv_heads * d}
    maps = {k: s for name, n in rows.items() for k, s in _linear(name, n, D, config, config.qkv_bias).items()}
    norms: Shapes = {"query_norm.weight": (d,), "key_norm.weight": (d,)} if config.qk_norm else {}
    sinks: Shapes = {"sinks.weight": (config.num_heads,)} if config.sinks else {}
    return {**maps, **norms, **sinks, **_linear("output", D, config.num_heads * d, config)}


def relative(config: Config) -> Shapes:
    """One number for each bucket of distances and each head."""
    return {"weight": (config.relative_buckets, config.num_heads)}


def _relative(config: Config) -> Shapes:
    return _within("relative", relative(config)) if config.positions == "relative" else {}


def self_attention(config: Config) -> Shapes:
    """The heads, and the table of relative positions where there is one."""
    return {**heads(config), **_relative(config)}


def positions(config: Config) -> Shapes:
    """A row for each of max_len positions where they are learned."""
    return {"weight": (config.max_len, config.d_model)} if config.positions == "learned" else {}


def feed_forward(config: Config) -> Shapes:
    """Two linear maps, and a third for the gate where there is one."""
    d, inner = config.d_model, config.inner_width
    gate = _linear("gate", inner, d, config) if config.gated else {}
    return {**gate, **_linear("inner", inner, d, config), **_linear("outer", d, inner, config)}


def norm(config: Config) -> Shapes:
    """A gain and a bias."""
    return {"weight": (config.d_model,), "bias": (config.d_model,)}


def any_norm(config: Config) -> Shapes:
    """That of the config's kind: RMSNorm has no bias."""
    return {"weight": (config.d_model,)} if config.norm_kind == "rms" else norm(config)


def _layer(config: Config, attentions: tuple[str, ...]) -> Shapes:
    layer: Shapes = {}
    for name in attentions:
        layer |= _within(name, heads(config))
    layer |= _within("feed_forward", feed_forward(config))
    for i in range(len(attentions) + 1):
        layer |= _within(f"norm{i}", any_norm(config))
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
    return stack | _relative(config) | (_within("norm", any_norm(config)) if config.norm == "pre" else {})


def encoder(config: Config) -> Shapes:
    """Layers, and a last norm where norm is pre."""
    return _stack(config, encoder_layer(config), config.num_encoder_layers)


def decoder(config: Config) -> Shapes:
    """Layers, and a last norm where norm is pre."""
    return _stack(config, decoder_layer(config), config.num_decoder_layers)


def causal_layer(config: Config) -> Shapes:
    """Self-attention, feed-forward, two norms, and the table of relative positions of a layer by itself."""
    return {**_layer(config, ("self_attention",)), **_relative(config)}


def embedding(config: Config) -> Shapes:
    """One table of tokens."""
    return {"weight": (config.source_vocab, config.d_model)}


def _projection(config: Config, vocabulary: int) -> Shapes:
    """The last map; a tied one has no weight of its own."""
    named = _linear("projection", vocabulary, config.d_model, config, config.head_bias)
    return {name: shape for name, shape in named.items() if not (config.tie and name.endswith("weight"))}


def transformer(config: Config) -> Shapes:
    """Two tables or a shared one, two stacks and the projection to the target vocabulary, unless tied."""
    d = config.d_model
    own: Shapes = {
        "source_embedding.weight": (config.source_vocab, d),
        "target_embedding.weight": (config.target_vocab, d),
    }
    return {
        **({"embedding.weight": (config.target_vocab, d)} if config.share_embeddings else own),
        **_within("encoder", encoder(config)),
        **_within("decoder", decoder(config)),
        **_projection(config, config.target_vocab),
    }


def _embeddings(config: Config, vocabulary: int) -> Shapes:
    """Of a model with one stream: tokens, learned positions, segments and their norm."""
    kinds: Shapes = {"segment_embedding.weight": (config.segments, config.d_model)} if config.segments else {}
    return {
        "embedding.weight": (vocabulary, config.d_model),
        **_within("position_embedding", positions(config)),
        **kinds,
        **(_within("embedding_norm", any_norm(config)) if config.embedding_norm else {}),
    }


def _head(config: Config) -> Shapes:
    """What stands between the encoder and the projection of a masked language model."""
    dense = _linear("head.dense", config.d_model, config.d_model, config)
    return {**dense, **_within("head.norm", any_norm(config))}


def masked_language_model(config: Config) -> Shapes:
    """Embeddings, an encoder, a head and the projection."""
    return {
        **_embeddings(config, config.source_vocab),
        **_within("encoder", encoder(config)),
        **_head(config),
        **_projection(config, config.source_vocab),
    }


def classifier(config: Config) -> Shapes:
    """Embeddings, an encoder and a map from what is pooled to the classes."""
    return {
        **_embeddings(config, config.source_vocab),
        **_within("encoder", encoder(config)),
        **_linear("projection", config.num_classes, config.d_model, config, config.head_bias),
    }


def language_model(config: Config) -> Shapes:
    """Embeddings, a stack of causal layers and the projection."""
    layers = _stack(config, _layer(config, ("self_attention",)), config.num_decoder_layers)
    return {
        **_embeddings(config, config.target_vocab),
        **_within("decoder", layers),
        **_projection(config, config.target_vocab),
    }
