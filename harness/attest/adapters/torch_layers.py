"""torch's own encoder and decoder layer with canonical weights, as a second judge.

In train mode with dropout 0: the fast path that eval takes is wrong for some masks
(https://github.com/pytorch/pytorch/issues/107084, https://github.com/pytorch/pytorch/issues/190486).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import torch
from torch import nn

from attest.contract import Array, Arrays, Config

_ATTENTIONS = {"self_attention": "self_attn", "cross_attention": "multihead_attn"}


def torch_layer_output(part: str, config: Config, parameters: Arrays, inputs: Mapping[str, Array]) -> Array:
    """The output of nn.TransformerEncoderLayer or DecoderLayer; masks are key padding (B, 1, S) or absent."""
    kind = nn.TransformerDecoderLayer if part == "decoder_layer" else nn.TransformerEncoderLayer
    with torch.random.fork_rng(devices=[]):
        layer = kind(config.d_model, **_options(config))
    layer.load_state_dict({name: torch.tensor(value) for name, value in _state(parameters).items()})
    layer.train()
    x = torch.tensor(inputs["x"])
    hidden = _hidden(inputs.get("mask"))
    with torch.no_grad():
        if part == "encoder_layer":
            return np.asarray(layer(x, src_key_padding_mask=hidden))
        future = torch.ones(x.shape[1], x.shape[1], dtype=torch.bool).triu(1)
        return np.asarray(
            layer(
                x,
                torch.tensor(inputs["memory"]),
                tgt_mask=future,
                tgt_key_padding_mask=hidden,
                memory_key_padding_mask=_hidden(inputs.get("memory_mask")),
            )
        )


def _options(config: Config) -> dict[str, Any]:
    return {
        "nhead": config.num_heads,
        "dim_feedforward": config.inner_width,
        "dropout": 0.0,
        "activation": config.activation,
        "layer_norm_eps": config.norm_eps,
        "batch_first": True,
        "norm_first": config.norm == "pre",
        "dtype": torch.float64 if config.dtype == "float64" else torch.float32,
    }


def _state(parameters: Arrays) -> dict[str, Array]:
    """torch packs query, key and value into one matrix and counts norms and linear maps from 1."""
    state: dict[str, Array] = {}
    for own, theirs in _ATTENTIONS.items():
        if f"{own}.query.weight" not in parameters:
            continue
        for kind in ("weight", "bias"):
            packed = [parameters[f"{own}.{name}.{kind}"] for name in ("query", "key", "value")]
            state[f"{theirs}.in_proj_{kind}"] = np.concatenate(packed)
            state[f"{theirs}.out_proj.{kind}"] = parameters[f"{own}.output.{kind}"]
    for kind in ("weight", "bias"):
        state[f"linear1.{kind}"] = parameters[f"feed_forward.inner.{kind}"]
        state[f"linear2.{kind}"] = parameters[f"feed_forward.outer.{kind}"]
        for i in range(3):
            if f"norm{i}.{kind}" in parameters:
                state[f"norm{i + 1}.{kind}"] = parameters[f"norm{i}.{kind}"]
    return state


def _hidden(mask: Array | None) -> Any:
    """torch's key padding is True where a key is hidden."""
    return None if mask is None else torch.tensor(~mask[:, 0, :])
