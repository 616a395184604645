"""Twenty correct implementations that are written in unusual ways; none of them may be refused.

    attest trial tests/unusual.py --seeds 0..19

They share no code with the reference and little with each other. Each offers the operations it is unusual in.
"""

import math

import numpy as np
import pluggy
import torch
from torch import nn
from torch.nn import functional as F

from attest.adapters.torch import TorchComponent, seeded


def refuse_misfits(q, k, v):
    if q.shape[-1] != k.shape[-1] or k.shape[-2] != v.shape[-2] or not k.shape[-2] or not q.shape[-1]:
        raise ValueError(f"q {tuple(q.shape)}, k {tuple(k.shape)} and v {tuple(v.shape)} do not fit; reshape")
    if not q.shape[:-2] == k.shape[:-2] == v.shape[:-2]:
        raise ValueError(
            f"q {tuple(q.shape)} and k {tuple(k.shape)} have other leading axes; give both the same"
        )


def allowed_by(q, k, mask, causal):
    """(..., T, S) booleans, full size."""
    T, S = q.shape[-2], k.shape[-2]
    full = (*q.shape[:-1], S)
    allowed = torch.ones(full, dtype=torch.bool)
    if mask is not None:
        if mask.ndim > len(full) or any(m not in (1, n) for m, n in zip(mask.shape[::-1], full[::-1])):
            raise ValueError(f"mask {tuple(mask.shape)} does not broadcast to {full}; add axes of length 1")
        allowed = allowed & mask.bool()
    if causal:
        allowed = allowed & torch.ones(T, S, dtype=torch.bool).tril(S - T)
    return allowed


def plain_scores(q, k):
    return q @ k.transpose(-1, -2) / math.sqrt(q.shape[-1])


def mixed(weights, v, dropped, allowed):
    """Hidden values may be nan: they are taken out before the product."""
    seen = allowed.any(-2).unsqueeze(-1)
    return dropped(weights) @ torch.where(seen, v, torch.zeros_like(v))


def by_log_softmax(q, k, v, allowed, dropped):
    scores = plain_scores(q, k).masked_fill(~allowed, -torch.inf)
    blind = ~allowed.any(-1, keepdim=True)
    weights = scores.masked_fill(blind, 0.0).log_softmax(-1).exp().masked_fill(blind, 0.0)
    return mixed(weights, v, dropped, allowed), weights


def by_powers_of_two(q, k, v, allowed, dropped):
    """exp(x) is 2^(x log2 e), as kernels compute it."""
    scores = (q * (math.log2(math.e) / math.sqrt(q.shape[-1]))) @ k.transpose(-1, -2)
    scores = scores.masked_fill(~allowed, -torch.inf)
    top = scores.amax(-1, keepdim=True).clamp(min=torch.finfo(q.dtype).min)
    powers = torch.exp2(scores - top)
    weights = powers / powers.sum(-1, keepdim=True).clamp(min=torch.finfo(q.dtype).tiny)
    return mixed(weights, v, dropped, allowed), weights


def scaled_on_both_sides(q, k, v, allowed, dropped):
    """The fourth root of d divides queries and keys."""
    root = q.shape[-1] ** 0.25
    scores = ((q / root) @ (k / root).transpose(-1, -2)).masked_fill(~allowed, torch.finfo(q.dtype).min)
    weights = torch.where(allowed, scores.softmax(-1), torch.zeros_like(scores))
    return mixed(weights, v, dropped, allowed), weights


def by_einsum(q, k, v, allowed, dropped):
    scores = torch.einsum("...td,...sd->...ts", q, k).mul(q.shape[-1] ** -0.5)
    weights = scores.masked_fill(~allowed, -torch.inf).softmax(-1).nan_to_num(0.0)
    weights = torch.where(allowed, weights, torch.zeros_like(weights))
    return mixed(weights, v, dropped, allowed), weights


def keys_in_reverse(q, k, v, allowed, dropped):
    """Softmax and sum run over the keys from the last to the first."""
    output, weights = by_log_softmax(q, k.flip(-2), v.flip(-2), allowed.flip(-1), dropped)
    return output, weights.flip(-1)


def query_by_query(q, k, v, allowed, dropped):
    """One query at a time as far as the code says; torch maps it over all of them."""

    def one(query, seen):
        output, weights = by_log_softmax(query.unsqueeze(-2), k, v, seen.unsqueeze(-2), dropped)
        return output.squeeze(-2), weights.squeeze(-2)

    each = torch.func.vmap(one, in_dims=-2, out_dims=-2, randomness="different")
    return each(q, allowed) if q.shape[-2] else by_log_softmax(q, k, v, allowed, dropped)


def first_key_apart(q, k, v, allowed, dropped):
    """The first key is a part of its own; two softmaxes are merged by the logarithm of their sums."""
    top, total, summed = zip(*(part_of(q, k, v, allowed, own) for own in (slice(0, 1), slice(1, None))))
    highest = torch.maximum(*top)
    scale = [torch.exp(t - highest) for t in top]
    whole = sum(s * t for s, t in zip(scale, total))
    merged = sum(s * dropped(x) for s, x in zip(scale, summed))
    return torch.where(whole > 0, merged / whole.clamp(min=torch.finfo(q.dtype).tiny), merged), None


def in_two_halves(q, k, v, allowed, dropped):
    """Half of the features at a time: the scores are a sum of two products."""
    half = (q.shape[-1] + 1) // 2
    scores = q[..., :half] @ k[..., :half].mT + q[..., half:] @ k[..., half:].mT
    scores = (scores / math.sqrt(q.shape[-1])).masked_fill(~allowed, torch.finfo(q.dtype).min)
    weights = torch.where(allowed, scores.softmax(-1), torch.zeros_like(scores))
    return mixed(weights, v, dropped, allowed), weights


def part_of(q, k, v, allowed, own):
    """The largest score of some keys, the sum of their powers, and their values weighted by these."""
    part = allowed[..., own]
    scores = plain_scores(q, k[..., own, :]).masked_fill(~part, -torch.inf)
    lowest = torch.full((*q.shape[:-1], 1), torch.finfo(q.dtype).min, dtype=q.dtype)
    top = torch.cat([scores, lowest], -1).amax(-1, keepdim=True)
    powers = torch.exp(scores - top)
    return top, powers.sum(-1, keepdim=True), mixed(powers, v[..., own, :], nn.Identity(), part)


def in_float64(q, k, v, allowed, dropped):
    output, weights = by_log_softmax(q.double(), k.double(), v.double(), allowed, dropped)
    return output.to(q.dtype), weights.to(q.dtype)


def by_torch(q, k, v, allowed, dropped):
    """torch's fused function, where blind rows are repaired; it returns no weights, and drops by its own."""
    seen = allowed.any(-2).unsqueeze(-1)
    clean = torch.where(seen, v, torch.zeros_like(v))
    bias = torch.zeros(allowed.shape, dtype=q.dtype).masked_fill(~allowed, -torch.inf)
    blind = ~allowed.any(-1, keepdim=True)
    output = F.scaled_dot_product_attention(
        q, k, clean, attn_mask=bias.masked_fill(blind, 0.0), dropout_p=dropped.p if dropped.training else 0.0
    )
    return torch.where(blind, torch.zeros_like(output), output), None


class Attending:
    """`attention` alone, one way of computing it."""

    correct = True
    dtypes = ("float32", "float64")
    operations = ("attention",)

    def __init__(self, name, attend):
        self.name, self._attend = name, attend

    def attention(self, config):
        def call(module, q, k, v, mask=None, causal=False):
            refuse_misfits(q, k, v)
            allowed = allowed_by(q, k, mask, bool(causal))
            drop = nn.Dropout(config.dropout).train(module.training)
            output, weights = self._attend(q, k, v, allowed, drop)
            return {"output": output} if weights is None else {"output": output, "weights": weights}

        return TorchComponent(nn.Identity(), config, call=call)


def check_width(name, x, width, rank=3):
    if x.ndim != rank or x.shape[-1] != width:
        raise ValueError(f"{name} {tuple(x.shape)} must have {rank} axes and width {width}; reshape it")


class Heads(nn.Module):
    """Multi-head attention with the canonical names; the three forms below differ in how heads are made."""

    def __init__(self, config):
        super().__init__()
        if config.num_heads < 1 or config.d_model % config.num_heads:
            raise ValueError(
                f"num_heads={config.num_heads} does not divide d_model={config.d_model}; choose one"
            )
        D = config.d_model
        self.query, self.key, self.value, self.output = (nn.Linear(D, D, bias=config.bias) for _ in range(4))
        self.heads, self.drop = config.num_heads, nn.Dropout(config.dropout)

    def forward(self, query, key_value, mask=None):
        width = self.output.in_features
        check_width("query", query, width)
        check_width("key_value", key_value, width)
        if len(query) != len(key_value) or not key_value.shape[1]:
            raise ValueError(
                f"key_value {tuple(key_value.shape)} does not fit query {tuple(query.shape)}; match them"
            )
        B, T, S = len(query), query.shape[1], key_value.shape[1]
        if mask is not None:
            fits = (
                mask.ndim == 3 and mask.shape[0] in (1, B) and mask.shape[1] in (1, T) and mask.shape[2] == S
            )
            if tuple(mask.shape) != (T, S) and not fits:
                raise ValueError(
                    f"mask {tuple(mask.shape)} must be {(T, S)} or {(B, T, S)}; add axes of length 1"
                )
        allowed = torch.ones(B, T, S, dtype=torch.bool) if mask is None else mask.bool().expand(B, T, S)
        return self.joined(query, key_value, allowed)


class HeadsByNames(Heads):
    """No axis is moved: einsum names the heads where they stand."""

    def joined(self, query, key_value, allowed):
        split = lambda x: x.unflatten(-1, (self.heads, -1))  # noqa: E731
        q, k, v = split(self.query(query)), split(self.key(key_value)), split(self.value(key_value))
        scores = torch.einsum("bthd,bshd->bhts", q, k) / math.sqrt(q.shape[-1])
        allowed = allowed.unsqueeze(1)
        weights = scores.masked_fill(~allowed, torch.finfo(q.dtype).min).softmax(-1)
        weights = torch.where(allowed, weights, torch.zeros_like(weights))
        seen = allowed.any(-2).transpose(1, 2).unsqueeze(-1)
        clean = torch.where(seen, v, torch.zeros_like(v))
        return self.output(torch.einsum("bhts,bshd->bthd", self.drop(weights), clean).flatten(2)), weights


class HeadsAsSums(Heads):
    """No concatenation: the output map is cut by heads, and what the heads bring is added."""

    def joined(self, query, key_value, allowed):
        split = lambda x: x.unflatten(-1, (self.heads, -1)).transpose(1, 2)  # noqa: E731
        q, k, v = split(self.query(query)), split(self.key(key_value)), split(self.value(key_value))
        allowed = allowed.unsqueeze(1).expand(-1, self.heads, -1, -1)
        heads, weights = by_einsum(q, k, v, allowed, self.drop)
        total = torch.einsum("bhtd,ehd->bte", heads, split(self.output.weight[None])[0].transpose(0, 1))
        return (total if self.output.bias is None else total + self.output.bias), weights


class HeadsInTheBatch(Heads):
    """One product makes all projections; the heads are folded into the batch."""

    def joined(self, query, key_value, allowed):
        B, T, D = query.shape
        fold = lambda x: x.unflatten(-1, (self.heads, -1)).transpose(1, 2).flatten(0, 1)  # noqa: E731
        weight = torch.cat([self.key.weight, self.value.weight])
        bias = None if self.key.bias is None else torch.cat([self.key.bias, self.value.bias])
        k, v = F.linear(key_value, weight, bias).chunk(2, -1)
        repeated = allowed.repeat_interleave(self.heads, 0)
        output, weights = by_powers_of_two(fold(self.query(query)), fold(k), fold(v), repeated, self.drop)
        output = output.unflatten(0, (B, -1)).transpose(1, 2).reshape(B, T, D)
        return self.output(output), weights.unflatten(0, (B, -1))


ACTIVATIONS = {"relu": F.relu, "gelu": F.gelu}


class InChunks(nn.Module):
    """The feed-forward network over three positions at a time."""

    def __init__(self, config):
        super().__init__()
        if config.gated or config.activation not in ACTIVATIONS:
            raise NotImplementedError(f"activation={config.activation!r} gated={config.gated}")
        self.inner = nn.Linear(config.d_model, config.inner_width, bias=config.bias)
        self.outer = nn.Linear(config.inner_width, config.d_model, bias=config.bias)
        self.activation, self.drop = ACTIVATIONS[config.activation], nn.Dropout(config.dropout)

    def one(self, x):
        return self.outer(self.drop(self.activation(self.inner(x))))

    def forward(self, x):
        check_width("x", x, self.inner.in_features)
        return torch.cat([self.one(part) for part in x.split(3, 1)], 1) if x.shape[1] else self.one(x)


class ByConvolution(InChunks):
    """A linear map of each position is a convolution of width 1."""

    def one(self, x):
        hidden = F.conv1d(x.transpose(1, 2), self.inner.weight[..., None], self.inner.bias)
        return F.conv1d(
            self.drop(self.activation(hidden)), self.outer.weight[..., None], self.outer.bias
        ).transpose(1, 2)


class InTwoPasses(nn.Module):
    """LayerNorm: the mean is taken out twice, which removes what the first pass left by rounding."""

    def __init__(self, config):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(config.d_model))
        self.bias = nn.Parameter(torch.zeros(config.d_model))
        self.eps = config.norm_eps

    def forward(self, x):
        check_width("x", x, len(self.weight))
        centred = x - x.mean(-1, keepdim=True)
        centred = centred - centred.mean(-1, keepdim=True)
        return (
            centred * torch.rsqrt(centred.square().mean(-1, keepdim=True) + self.eps) * self.weight
            + self.bias
        )


class ByProjection(InTwoPasses):
    """LayerNorm as a matrix: I - 1/D takes the mean out, the length of the rest divides."""

    def forward(self, x):
        check_width("x", x, len(self.weight))
        D = x.shape[-1]
        first = x[..., :1]  # a shift changes nothing, and keeps the numbers small
        centred = (x - first) @ (torch.eye(D, dtype=x.dtype) - torch.full((D, D), 1 / D, dtype=x.dtype))
        length = torch.sqrt(centred.square().sum(-1, keepdim=True) / D + self.eps)
        return centred / length * self.weight + self.bias


class RootOfMeanSquare(nn.Module):
    """RMSNorm by torch's vector norm."""

    def __init__(self, config):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(config.d_model))
        self.eps = config.norm_eps

    def forward(self, x):
        check_width("x", x, len(self.weight))
        square = torch.linalg.vecdot(x, x).unsqueeze(-1) / x.shape[-1]
        return self.weight * (x * (square + self.eps) ** -0.5)


class OneHot(nn.Module):
    """Rows of the table are chosen by a product with zeros and ones."""

    def __init__(self, config):
        super().__init__()
        self.weight = nn.Parameter(
            torch.randn(config.source_vocab, config.d_model) / math.sqrt(config.d_model)
        )
        if config.pad_id < config.source_vocab:
            with torch.no_grad():
                self.weight[config.pad_id] = 0
        self.pad = config.pad_id

    def forward(self, ids):
        if ids.ndim != 2 or ids.is_floating_point():
            raise ValueError(f"ids {tuple(ids.shape)} must be integers (batch, length); reshape or cast")
        if ids.numel() and not (int(ids.min()) >= 0 and int(ids.max()) < len(self.weight)):
            raise ValueError(f"ids reach {int(ids.max())}; use ids from 0 to {len(self.weight) - 1}")
        chosen = F.one_hot(ids, len(self.weight)).to(self.weight.dtype)
        learned = chosen * (ids != self.pad).unsqueeze(-1)
        return learned @ self.weight + (chosen - learned) @ self.weight.detach()


class Turning(nn.Module):
    """The table of positions as powers of a complex number on the unit circle, made in float64."""

    def __init__(self, config):
        super().__init__()
        D = config.d_model
        rate = 10000.0 ** (-np.arange(0, D, 2) / D)
        circle = np.exp(1j * np.outer(np.arange(config.max_len), rate))
        table = np.stack([circle.imag, circle.real], -1).reshape(config.max_len, -1)[:, :D]
        self.register_buffer("table", torch.tensor(table))

    def forward(self, x):
        check_width("x", x, self.table.shape[1])
        if x.shape[1] > len(self.table):
            raise ValueError(
                f"length={x.shape[1]} exceeds max_len={len(self.table)}; shorten it or raise max_len"
            )
        return x + self.table[: x.shape[1]]


class Building:
    """One operation, made of a module with the canonical names."""

    correct = True
    dtypes = ("float32", "float64")

    def __init__(self, name, operation, module):
        self.name, self.operations = name, (operation,)

        def build(config):
            with seeded(config.seed, config.device):
                return TorchComponent(module(config), config)

        setattr(self, operation, build)


@pluggy.HookimplMarker("attest")
def attest_implementations():
    return [
        Attending("by_log_softmax", by_log_softmax),
        Attending("by_powers_of_two", by_powers_of_two),
        Attending("scaled_on_both_sides", scaled_on_both_sides),
        Attending("by_einsum", by_einsum),
        Attending("keys_in_reverse", keys_in_reverse),
        Attending("query_by_query", query_by_query),
        Attending("in_float64", in_float64),
        Attending("in_two_halves", in_two_halves),
        Attending("first_key_apart", first_key_apart),
        Attending("by_torch", by_torch),
        Building("heads_by_names", "multi_head_attention", HeadsByNames),
        Building("heads_as_sums", "multi_head_attention", HeadsAsSums),
        Building("heads_in_the_batch", "multi_head_attention", HeadsInTheBatch),
        Building("feed_forward_in_chunks", "feed_forward", InChunks),
        Building("feed_forward_by_convolution", "feed_forward", ByConvolution),
        Building("layer_norm_in_two_passes", "layer_norm", InTwoPasses),
        Building("layer_norm_by_projection", "layer_norm", ByProjection),
        Building("rms_norm_by_vecdot", "rms_norm", RootOfMeanSquare),
        Building("embedding_by_one_hot", "token_embedding", OneHot),
        Building("positions_on_the_circle", "positional_encoding", Turning),
    ]
