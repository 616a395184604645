"""torch.nn's layers and stacks as the contract calls them.

Shapes: B batch, T queries, S keys, D width.
"""

from functools import partial
from typing import Any

from torch import Tensor, nn

from attest.contract import Config

from . import masks


class Projections(nn.Module):
    """nn.Linear for each of query, key and value."""

    def __init__(self, config: Config) -> None:
        super().__init__()
        self.query, self.key, self.value = (
            nn.Linear(config.d_model, config.d_model, config.bias) for _ in range(3)
        )

    def forward(self, x: Tensor) -> dict[str, Tensor]:
        return {"q": self.query(x), "k": self.key(x), "v": self.value(x)}


def scaled_dot_product(
    _: nn.Module, q: Tensor, k: Tensor, v: Tensor, mask: Tensor | None = None, causal: bool = False
) -> Tensor:
    """Its own is_causal is aligned top-left, so the mask is written out."""
    if causal:
        past = masks.causal(q.shape[-2], k.shape[-2], q.device)
        mask = past if mask is None else mask & past
    return nn.functional.scaled_dot_product_attention(q, k, v, attn_mask=mask)


def multi_head_attention(config: Config) -> nn.Module:
    return nn.MultiheadAttention(
        config.d_model, config.num_heads, config.dropout, config.bias, batch_first=True
    )


def attend_with_heads(
    module: Any, query: Tensor, key_value: Tensor, mask: Tensor | None = None
) -> tuple[Tensor, Tensor]:
    """With the weights of each head, which takes the path that computes them."""
    attn, padding = masks.for_module(mask, query, module.num_heads)
    output, weights = module(
        query, key_value, key_value, attn_mask=attn, key_padding_mask=padding, average_attn_weights=False
    )
    return output, weights


def activation(config: Config) -> nn.Module:
    tanh = partial(nn.GELU, approximate="tanh")
    return {"relu": nn.ReLU, "gelu": nn.GELU, "silu": nn.SiLU, "gelu_tanh": tanh}[config.activation]()


class GatedFeedForward(nn.Module):
    """Written by hand of torch's maps and activations: torch has no such layer."""

    def __init__(self, config: Config) -> None:
        super().__init__()
        self.gate, self.inner = (nn.Linear(config.d_model, config.inner_width, config.bias) for _ in range(2))
        self.outer = nn.Linear(config.inner_width, config.d_model, config.bias)
        self.activation = activation(config)

    def forward(self, x: Tensor) -> Tensor:
        return self.outer(self.activation(self.gate(x)) * self.inner(x))


def feed_forward(config: Config) -> nn.Module:
    if config.gated:
        return GatedFeedForward(config)
    return nn.Sequential(
        nn.Linear(config.d_model, config.inner_width, config.bias),
        activation(config),
        nn.Linear(config.inner_width, config.d_model, config.bias),
    )


def token_embedding(config: Config) -> nn.Module:
    return nn.Embedding(config.source_vocab, config.d_model, padding_idx=config.pad_id)


def layer_norm(config: Config) -> nn.Module:
    return nn.LayerNorm(config.d_model, config.norm_eps)


def rms_norm(config: Config) -> nn.Module:
    if not hasattr(nn, "RMSNorm"):
        raise NotImplementedError("torch has nn.RMSNorm from version 2.4 on")
    return nn.RMSNorm(config.d_model, config.norm_eps)


def encoder_layer(config: Config) -> nn.Module:
    return nn.TransformerEncoderLayer(config.d_model, **_layer_options(config))


def decoder_layer(config: Config) -> nn.Module:
    return nn.TransformerDecoderLayer(config.d_model, **_layer_options(config))


def encoder(config: Config) -> nn.Module:
    return nn.TransformerEncoder(
        # Nested tensors drop columns that are padding in every row: the output would be shorter.
        encoder_layer(config),
        config.num_encoder_layers,
        _final_norm(config),
        enable_nested_tensor=False,
    )


def decoder(config: Config) -> nn.Module:
    return nn.TransformerDecoder(decoder_layer(config), config.num_decoder_layers, _final_norm(config))


def encode(module: Any, x: Tensor, mask: Tensor | None = None, *, heads: int) -> Tensor:
    attn, padding = masks.for_module(mask, x, heads)
    return module(x, attn, src_key_padding_mask=padding)


def decode(
    module: Any,
    x: Tensor,
    memory: Tensor,
    mask: Tensor | None = None,
    memory_mask: Tensor | None = None,
    *,
    heads: int,
) -> Tensor:
    attn, padding = masks.for_causal_module(mask, x, heads)
    memory_attn, memory_padding = masks.for_module(memory_mask, x, heads)
    return module(
        x,
        memory,
        tgt_mask=attn,
        memory_mask=memory_attn,
        tgt_key_padding_mask=padding,
        memory_key_padding_mask=memory_padding,
    )


def _layer_options(config: Config) -> dict[str, Any]:
    if not config.bias:
        raise NotImplementedError("torch's layers with bias=False take the norms' bias away too")
    if config.gated or config.activation in ("silu", "gelu_tanh"):
        raise NotImplementedError("torch's layers have no gate and know relu and gelu only")
    if config.norm not in ("post", "pre"):
        raise ValueError(f"norm={config.norm!r} is unknown; choose one of post, pre")
    return {
        "nhead": config.num_heads,
        "dim_feedforward": config.inner_width,
        "dropout": config.dropout,
        "activation": config.activation,
        "layer_norm_eps": config.norm_eps,
        "batch_first": True,
        "norm_first": config.norm == "pre",
    }


def _final_norm(config: Config) -> nn.Module | None:
    return layer_norm(config) if config.norm == "pre" else None
