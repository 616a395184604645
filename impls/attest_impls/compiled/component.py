"""Compiled modules behind the contract. What depends on values is checked before, outside the graph.

Every graph sees one form of its inputs: contiguous, with a mask, and the mask in its full shape (B, T, S).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from attest.adapters.torch import TorchComponent, seeded
from attest.contract import Array, Arrays, Config
from attest_impls.eager.arguments import (
    check_attention,
    check_broadcasts,
    check_ids,
    check_length,
    check_width,
)
from attest_impls.eager.attention import allowed_by_all, causal_mask
from attest_impls.eager.embedding import InputEmbedding, TokenEmbedding
from attest_impls.eager.layers import check_decoder, check_encoder
from attest_impls.eager.model import Transformer
from attest_impls.eager.norm import LayerNorm
from attest_impls.eager.training import Loss

from .compiling import Report, compiled
from .fused import FusedAttention, canonical_names, fuse, without_unseen


def component(
    build: Callable[[Config], nn.Module], config: Config, kind: type[CompiledComponent] | None = None
) -> Any:
    """eager's module with fused attention, behind the contract."""
    with seeded(config.seed, config.device):
        module = fuse(build(config))
    return (kind or CompiledComponent)(module, config)


class CompiledComponent(TorchComponent):
    """A module of one input x (B, T, D)."""

    def __init__(self, module: nn.Module, config: Config) -> None:
        super().__init__(module, config, canonical_names(module))
        self.report = Report()
        self._functions: dict[str, Callable[..., Any]] = {}

    def compile_report(self) -> Mapping[str, int]:
        return self.report.as_mapping()

    def compiled(
        self, name: str, function: Callable[..., Any], kind: type | None = None, **settings: Any
    ) -> Callable[..., Any]:
        """A function of a module and tensors as a graph, made on first use. `kind` is the module's class."""
        if name not in self._functions:
            shared = {"kind": kind or type(self.module), "device": self.config.device}
            self._functions[name] = compiled(function, self.report, **shared, **settings)
        return self._functions[name]

    def tensors(self, inputs: Mapping[str, Any]) -> dict[str, Any]:
        """The adapter's, contiguous: other strides would be another graph."""
        made = super().tensors(inputs)
        return {name: x.contiguous() if isinstance(x, Tensor) else x for name, x in made.items()}

    def _forward(self, **tensors: Any) -> Any:
        given = self.checked(**tensors)
        return self.compiled("forward", type(self).graph)(self.module, **given)

    @staticmethod
    def graph(module: nn.Module, **tensors: Any) -> Any:
        """What is compiled."""
        return module(**tensors)

    def checked(self, x: Tensor) -> dict[str, Tensor]:
        """The inputs in their one form; ValueError for what does not fit."""
        check_width("x", x, self.module.d_model)
        return {"x": x}


def own(x: Tensor) -> Tensor:
    """A copy row by row: a view, or other strides, would be another graph."""
    return x.clone(memory_format=torch.contiguous_format)


def full_mask(mask: Tensor | None, x: Tensor, keys: int) -> Tensor:
    """(B, T, S) of any form that is accepted, or of none."""
    shape = (x.shape[0], x.shape[1], keys)
    if mask is None:
        return x.new_ones(shape, dtype=bool)
    return mask.expand(shape).contiguous()


class Positions(CompiledComponent):
    """Positions added."""

    def checked(self, x: Tensor) -> dict[str, Tensor]:
        check_width("x", x, self.module.d_model)
        check_length("x", x.shape[1], self.module.max_len)
        return {"x": x}


class AttentionAlone(CompiledComponent):
    """q, k and v of any rank; it returns no weights, since the fused kernel never holds them."""

    def _forward(self, **tensors: Any) -> Any:
        q = tensors["q"]
        output = super()._forward(**tensors)
        return output.unflatten(0, q.shape[:-2]) if q.ndim != 3 else output

    def checked(
        self, q: Tensor, k: Tensor, v: Tensor, mask: Tensor | None = None, causal: bool = False
    ) -> dict[str, Tensor]:
        check_attention(q, k, v)
        scores = (*q.shape[:-1], k.shape[-2])
        if mask is not None:
            check_broadcasts(mask, scores)
        allowed = allowed_by_all(mask, causal_mask(*scores[-2:], q.device) if causal else None)
        if allowed is None:
            allowed = q.new_ones(scores[-2:], dtype=bool)
        given = {"q": q, "k": k, "v": v, "allowed": allowed.expand(scores).contiguous()}
        rows = {n: x if x.ndim == 3 else own(x.reshape(-1, *x.shape[-2:])) for n, x in given.items()}
        for name in ("q", "k"):  # the root of the width is a constant of the graph
            torch._dynamo.mark_static(rows[name], -1)
        return rows

    @staticmethod
    def graph(module: nn.Module, q: Tensor, k: Tensor, v: Tensor, allowed: Tensor) -> Tensor:
        k, v = without_unseen(k, v, allowed)
        heads = F.scaled_dot_product_attention(q[:, None], k[:, None], v[:, None], attn_mask=allowed[:, None])
        return heads[:, 0]


class Heads(CompiledComponent):
    """Multi-head attention."""

    module: FusedAttention

    def checked(self, query: Tensor, key_value: Tensor, mask: Tensor | None = None) -> dict[str, Tensor]:
        self.module._check(query, key_value, mask)
        return {"query": query, "key_value": key_value, "mask": full_mask(mask, query, key_value.shape[1])}


class Encoding(CompiledComponent):
    """A layer of an encoder."""

    def checked(self, x: Tensor, mask: Tensor | None = None) -> dict[str, Tensor]:
        check_encoder(x, mask, self.module.d_model)
        return {"x": x, "mask": full_mask(mask, x, x.shape[1])}


class Reading(CompiledComponent):
    """A layer of a decoder."""

    def checked(
        self, x: Tensor, memory: Tensor, mask: Tensor | None = None, memory_mask: Tensor | None = None
    ) -> dict[str, Tensor]:
        check_decoder(x, memory, mask, memory_mask, self.module.d_model)
        both = {"mask": full_mask(mask, x, x.shape[1])}
        both["memory_mask"] = full_mask(memory_mask, x, memory.shape[1])
        return {"x": x, "memory": memory, **both}


class Layered(CompiledComponent):
    """A stack by itself: one graph for all its layers, called once for each. The full model is one graph."""

    def _forward(self, **tensors: Any) -> Any:
        given = self.checked(**tensors)
        layers = list(self.module.layers())
        run = self.compiled("layer", CompiledComponent.graph, type(layers[0]))
        for layer in layers:
            given["x"] = own(run(layer, **given))
        if not isinstance(self.module.norm, LayerNorm):
            return given["x"]
        return self.compiled("norm", CompiledComponent.graph, LayerNorm)(self.module.norm, x=given["x"])


class EncodingStack(Layered, Encoding):
    """An encoder."""


class ReadingStack(Layered, Reading):
    """A decoder."""


class TokenLookup(CompiledComponent):
    """Rows of a table."""

    module: TokenEmbedding

    def checked(self, ids: Tensor) -> dict[str, Tensor]:
        check_ids("ids", ids, self.module.num_embeddings)
        return {"ids": ids}

    @staticmethod
    def graph(module: TokenEmbedding, ids: Tensor) -> Tensor:
        return nn.functional.embedding(ids, module.weight, module.padding_idx)


class Inputs(CompiledComponent):
    """Scaled rows plus positions."""

    module: InputEmbedding

    def checked(self, ids: Tensor) -> dict[str, Tensor]:
        check_ids("ids", ids, self.module.num_embeddings, self.module.positions.max_len)
        return {"ids": ids}

    @staticmethod
    def graph(module: InputEmbedding, ids: Tensor) -> Tensor:
        return module.at(ids, 0)


class CrossEntropy(CompiledComponent):
    """The loss over labels that are not padding."""

    module: Loss

    def checked(self, logits: Tensor, labels: Tensor) -> dict[str, Tensor]:
        if logits.ndim != 3 or logits.shape[:2] != labels.shape:
            self.module(logits, labels)
        check_ids("labels", labels, logits.shape[-1])
        return {"logits": logits, "labels": labels, "smoothing": number(self.module.smoothing, logits)}

    @staticmethod
    def graph(module: Loss, logits: Tensor, labels: Tensor, smoothing: Tensor) -> dict[str, Tensor]:
        tokens = (labels != module.pad_id).sum().clamp(min=1)
        return {"loss": summed_loss(logits, labels, module.pad_id, smoothing) / tokens}


def number(value: float, like: Tensor) -> Tensor:
    """A rate as an argument of a graph: as a constant it would be another graph for each.

    Of one dimension: a tensor of none counts as a number, for which everything would be traced twice.
    """
    return torch.full((1,), value, dtype=torch.float64, device=like.device)


def summed_loss(logits: Tensor, labels: Tensor, pad_id: int, smoothing: Tensor) -> Tensor:
    """eager's with the smoothing as a tensor (1,): one graph with it and without."""
    rate = smoothing[0]  # float64 without a dimension: the losses keep their dtype
    log_probabilities = logits.log_softmax(-1)
    sharp = -log_probabilities.gather(-1, labels.unsqueeze(-1)).squeeze(-1)
    smooth = (1 - rate) * sharp - rate * log_probabilities.mean(-1)
    return torch.where(labels != pad_id, torch.where(rate > 0, smooth, sharp), 0.0).sum()


class Model(CompiledComponent):
    """The full model and its two halves."""

    module: Transformer

    def checked(self, **ids: Tensor) -> dict[str, Tensor]:
        for name in ("source", "target"):
            if name in ids:
                self.module._check(name, ids[name])
        if len({x.shape[0] for x in ids.values()}) > 1:
            self.module(**ids)
        return ids

    @staticmethod
    def graph(module: Transformer, source: Tensor, target: Tensor) -> dict[str, Tensor]:
        return {"logits": module._decode(target, module._encode(source), source)}

    def encode(self, *, source: Array) -> Arrays:
        return self.run(self._encoded, source=source)

    def _encoded(self, source: Tensor) -> dict[str, Tensor]:
        self.checked(source=source)
        return {"memory": self.compiled("encode", Transformer._encode)(self.module, source)}

    def decode(self, *, target: Array, memory: Array, source: Array) -> Arrays:
        return self.run(self._decoded, target=target, memory=memory, source=source)

    def _decoded(self, target: Tensor, memory: Tensor, source: Tensor) -> dict[str, Tensor]:
        self.checked(source=source, target=target)
        if memory.shape != (*source.shape, self.config.d_model):
            self.module.decode(target, memory, source)
        return {"logits": self.compiled("decode", Transformer._decode)(self.module, target, memory, source)}
