"""A torch Transformer, written apart from the reference, with one named fault switched on, to be diagnosed.

Shapes: B batch, H heads, T queries, S keys, D width.
"""

from __future__ import annotations

import math

import torch
from torch import nn

from attest.adapters.torch import TorchComponent

FAULTS = {
    "no_scale": "M1.2",
    "scale_by_dk": "M1.2",
    "scale_multiplied": "M1.2",
    "mask_after_softmax": "M1.3",
    "softmax_over_queries": "M1.3",
    "mask_ignored": "M1.4",
    "polarity_flipped": "M1.4",
    "fill_minus_10": "M1.4",
    "causal_off_by_one": "M1.5",
    "causal_excludes_diagonal": "M1.5",
    "causal_transposed": "M1.5",
    "combined_by_or": "M1.6",
    "no_output_projection": "M2.4",
    "last_head_dropped": "M2.4",
    "combine_without_transpose": "M2.4",
    "split_without_transpose": "M2.4",
    "interleaved_layout": "M2.2",
    "scale_by_sqrt_dmodel": "M2.2",
    "no_activation": "M3.1",
    "gelu_tanh": "M3.1",
    "activation_after_second": "M3.1",
    "sin_cos_swapped": "M3.4",
    "halves_concatenated": "M3.4",
    "wrong_base": "M3.4",
    "positions_from_one": "M3.4",
    "no_embedding_scale": "M3.6",
    "scaled_after_positions": "M3.6",
    "positions_added_twice": "M3.6",
    "unbiased_variance": "M4.9",
    "eps_outside": "M4.9",
    "residual_missing": "M4.1",
    "norm_missing": "M4.1",
    "norm_before_residual": "M4.1",
    "pre_post_swapped": "M4.2",
    "order_swapped": "M4.3",
    "cross_kv_from_decoder": "M4.4",
    "no_causal_in_decoder": "M4.5",
    "causal_in_encoder": "M4.1",
}


def attend(q, k, v, mask, causal, fault, width):
    T, S, d = q.shape[-2], k.shape[-2], q.shape[-1]
    factor = {
        "no_scale": 1.0,
        "scale_by_dk": 1 / d,
        "scale_multiplied": math.sqrt(d),
        "scale_by_sqrt_dmodel": width**-0.5,
    }.get(fault, d**-0.5)
    scores = q @ k.transpose(-2, -1) * factor
    allowed = combined(mask, past(T, S, fault) if causal else None, fault)
    axis = -2 if fault == "softmax_over_queries" else -1
    if fault == "mask_after_softmax":
        weights = scores.softmax(axis)
        weights = weights if allowed is None else weights * allowed
        return weights @ v, weights
    if allowed is not None:
        fill = -10.0 if fault == "fill_minus_10" else torch.finfo(scores.dtype).min
        scores = scores.masked_fill(~allowed, fill)
    weights = scores.softmax(axis)
    if allowed is not None and fault != "fill_minus_10":
        weights = weights.masked_fill(~allowed, 0.0)
    return weights @ v, weights


def past(T, S, fault):
    offset = S - T
    if fault == "causal_off_by_one":
        offset += 1
    if fault == "causal_excludes_diagonal":
        offset -= 1
    allowed = torch.ones(T, S, dtype=torch.bool).tril(offset)
    if fault == "causal_transposed":
        allowed = torch.ones(T, S, dtype=torch.bool).triu(S - T)
    return allowed


def combined(mask, causal, fault):
    if mask is not None and fault == "mask_ignored":
        mask = None
    if mask is not None and fault == "polarity_flipped":
        mask = ~mask
    if mask is None or causal is None:
        return causal if mask is None else mask
    return mask | causal if fault == "combined_by_or" else mask & causal


class Attention(nn.Module):
    def __init__(self, fault):
        super().__init__()
        self.fault = fault

    def forward(self, q, k, v, mask=None, causal=False):
        return attend(q, k, v, mask, causal, self.fault, 4 * q.shape[-1])


class MultiHead(nn.Module):
    def __init__(self, config, fault):
        super().__init__()
        d = config.d_model
        self.heads, self.width, self.fault = config.num_heads, d, fault
        self.query, self.key, self.value, self.output = (nn.Linear(d, d, config.bias) for _ in range(4))

    def forward(self, query, key_value, mask=None, causal=False):
        q, k, v = self.query(query), self.key(key_value), self.value(key_value)
        q, k, v = (self.split(x) for x in (q, k, v))
        mask = None if mask is None else mask.unsqueeze(-3)
        out, weights = attend(q, k, v, mask, causal, self.fault, self.width)
        if self.fault == "last_head_dropped":
            out = torch.cat([out[:, :-1], torch.zeros_like(out[:, -1:])], 1)
        B, _, T, _ = out.shape
        if self.fault == "combine_without_transpose":
            out = out.reshape(B, T, -1)
        elif self.fault == "interleaved_layout":
            out = out.permute(0, 2, 3, 1).reshape(B, T, -1)
        elif self.fault == "split_without_transpose":
            out = out.reshape(B, T, -1)
        else:
            out = out.transpose(1, 2).reshape(B, T, -1)
        return (out if self.fault == "no_output_projection" else self.output(out)), weights

    def split(self, x):
        B, T, _ = x.shape
        if self.fault == "split_without_transpose":
            return x.reshape(B, self.heads, T, -1)
        if self.fault == "interleaved_layout":
            return x.reshape(B, T, -1, self.heads).permute(0, 3, 1, 2)
        return x.reshape(B, T, self.heads, -1).transpose(1, 2)


class FeedForward(nn.Module):
    def __init__(self, config, fault):
        super().__init__()
        self.inner = nn.Linear(config.d_model, config.inner_width, config.bias)
        self.outer = nn.Linear(config.inner_width, config.d_model, config.bias)
        approximate = "tanh" if fault == "gelu_tanh" else "none"
        gelu = nn.GELU(approximate)
        self.act, self.fault = (torch.relu if config.activation == "relu" else gelu), fault

    def forward(self, x):
        if self.fault == "no_activation":
            return self.outer(self.inner(x))
        if self.fault == "activation_after_second":
            return self.act(self.outer(self.inner(x)))
        return self.outer(self.act(self.inner(x)))


def table(config, fault):
    first = 1 if fault == "positions_from_one" else 0
    pos = torch.arange(first, config.max_len + first, dtype=torch.float64)[:, None]
    base = 1000.0 if fault == "wrong_base" else 10000.0
    angle = pos / base ** (torch.arange(0, config.d_model, 2, dtype=torch.float64) / config.d_model)
    pair = (angle.cos(), angle.sin()) if fault == "sin_cos_swapped" else (angle.sin(), angle.cos())
    if fault == "halves_concatenated":
        return torch.cat(pair, -1)[:, : config.d_model]
    return torch.stack(pair, -1).flatten(1)[:, : config.d_model]


class Positions(nn.Module):
    def __init__(self, config, fault):
        super().__init__()
        self.register_buffer("table", table(config, fault))

    def forward(self, x):
        if x.shape[1] > len(self.table):
            raise ValueError(f"x length={x.shape[1]} is beyond max_len; shorten it")
        return x + self.table[: x.shape[1]].to(x.dtype)


class InputEmbedding(nn.Module):
    def __init__(self, config, fault):
        super().__init__()
        self.weight = nn.Parameter(torch.randn(config.source_vocab, config.d_model))
        self.register_buffer("table", table(config, fault))
        self.scale = math.sqrt(config.d_model) if config.scale_embeddings else 1.0
        self.fault = fault

    def forward(self, ids):
        x, positions = self.weight[ids], self.table[: ids.shape[1]].to(self.weight.dtype)
        if self.fault == "no_embedding_scale":
            return x + positions
        if self.fault == "scaled_after_positions":
            return (x + positions) * self.scale
        if self.fault == "positions_added_twice":
            return x * self.scale + 2 * positions
        return x * self.scale + positions


class Norm(nn.Module):
    def __init__(self, config, fault):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(config.d_model))
        self.bias = nn.Parameter(torch.zeros(config.d_model))
        self.eps, self.fault = config.norm_eps, fault

    def forward(self, x):
        centred = x - x.mean(-1, keepdim=True)
        size = x.shape[-1] - (self.fault == "unbiased_variance")
        variance = centred.square().sum(-1, keepdim=True) / size
        root = variance.sqrt() + self.eps if self.fault == "eps_outside" else (variance + self.eps).sqrt()
        return centred / root * self.weight + self.bias


class Layer(nn.Module):
    def __init__(self, config, fault, decoder):
        super().__init__()
        self.self_attention = MultiHead(config, fault)
        if decoder:
            self.cross_attention = MultiHead(config, fault)
        self.feed_forward = FeedForward(config, fault)
        for i in range(2 + decoder):
            setattr(self, f"norm{i}", Norm(config, fault))
        self.pre = (config.norm == "pre") != (fault == "pre_post_swapped")
        self.fault, self.decoder = fault, decoder

    def join(self, x, norm, f):
        if self.fault == "norm_missing":
            return x + f(x)
        if self.fault == "residual_missing":
            return f(norm(x)) if self.pre else norm(f(x))
        if self.fault == "norm_before_residual" and not self.pre:
            return x + norm(f(x))
        return x + f(norm(x)) if self.pre else norm(x + f(x))

    def forward(self, x, memory=None, mask=None, memory_mask=None):
        causal = (self.decoder and self.fault != "no_causal_in_decoder") or (
            not self.decoder and self.fault == "causal_in_encoder"
        )
        steps = [(self.norm0, lambda y: self.self_attention(y, y, mask, causal)[0])]
        if self.decoder:
            steps.append((self.norm1, lambda y: self.cross(y, memory, memory_mask)))
        steps.append((getattr(self, f"norm{1 + self.decoder}"), self.feed_forward))
        if self.fault == "order_swapped" and self.decoder:
            steps[0], steps[1] = steps[1], steps[0]
        for norm, f in steps:
            x = self.join(x, norm, f)
        return x

    def cross(self, y, memory, memory_mask):
        if self.fault == "cross_kv_from_decoder":
            return self.cross_attention(y, y)[0]
        return self.cross_attention(y, memory, memory_mask)[0]


class Stranger:
    name = "stranger"
    dtypes = ("float32", "float64")

    def __init__(self, fault: str) -> None:
        self.fault = fault

    def attention(self, config):
        return TorchComponent(Attention(self.fault), config)

    def multi_head_attention(self, config):
        return TorchComponent(MultiHead(config, self.fault), config)

    def feed_forward(self, config):
        return TorchComponent(FeedForward(config, self.fault), config)

    def positional_encoding(self, config):
        return TorchComponent(Positions(config, self.fault), config)

    def input_embedding(self, config):
        return TorchComponent(InputEmbedding(config, self.fault), config)

    def layer_norm(self, config):
        return TorchComponent(Norm(config, self.fault), config)

    def encoder_layer(self, config):
        return TorchComponent(Layer(config, self.fault, False), config)

    def decoder_layer(self, config):
        return TorchComponent(Layer(config, self.fault, True), config)
