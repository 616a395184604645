"""Compiled modules behind the contract. eager's component has checked the inputs, outside the graph.

Every graph sees one form of its inputs: contiguous, with a mask, and the mask in its full shape (B, T, S).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from attest.contract import Arrays, Config, Gradients
from attest_impls.eager.component import CheckedComponent, TransformerComponent
from attest_impls.eager.component import component as eager_component
from attest_impls.eager.masks import causal_mask, without_unseen
from attest_impls.eager.model import Transformer
from attest_impls.eager.training import Loss

from . import cpu
from .compiling import Report, compiled
from .fused import canonical_names, fuse
from .private_torch import mark_static, settings


class CompiledComponent(CheckedComponent):
    """A module whose inputs are compiled as they are."""

    def __init__(self, operation: str, module: nn.Module, config: Config) -> None:
        super().__init__(operation, module, config, canonical_names(module))
        self.kernels = cpu.chosen(config)
        self.report = Report()
        self._functions: dict[str, Callable[..., Any]] = {}

    def compile_report(self) -> Mapping[str, int]:
        return self.report.as_mapping()

    def compiled(
        self, name: str, function: Callable[..., Any], kind: type | None = None, **options: Any
    ) -> Callable[..., Any]:
        """A function of a module and tensors as a graph, made on first use. `kind` is the module's class."""
        if name not in self._functions:
            shared = {
                "kind": kind or type(self.module),
                "device": self.config.device,
                "kernels": self.kernels,
            }
            self._functions[name] = compiled(function, self.report, **shared, **options)
        return self._functions[name]

    def tensors(self, inputs: Mapping[str, Any]) -> dict[str, Any]:
        """The adapter's, contiguous: other strides would be another graph."""
        made = super().tensors(inputs)
        return {name: x.contiguous() if isinstance(x, Tensor) else x for name, x in made.items()}

    @settings()
    def gradients(self, inputs: Arrays, cotangents: Arrays) -> Gradients:
        """The adapter's. A backward pass may be compiled when it is first run."""
        return super().gradients(inputs, cotangents)

    @settings()
    def add_gradients(self, inputs: Arrays, cotangents: Arrays) -> None:
        super().add_gradients(inputs, cotangents)

    def compute(self, **tensors: Any) -> Any:
        given = self.formed(**tensors)
        return self.compiled("forward", type(self).graph)(self.module, **given)

    @staticmethod
    def graph(module: nn.Module, **tensors: Any) -> Any:
        """What is compiled."""
        return module(**tensors)

    def formed(self, **tensors: Any) -> dict[str, Any]:
        """The inputs in the one form that the graph sees."""
        return tensors


def component(
    operation: str,
    build: Callable[[Config], nn.Module],
    config: Config,
    kind: type[CompiledComponent] = CompiledComponent,
) -> Any:
    """eager's module with fused attention, behind the contract."""
    kernels = cpu.chosen(config)
    return eager_component(operation, lambda config: fuse(build(config), kernels), config, kind)


def contiguous_copy(x: Tensor) -> Tensor:
    """A copy row by row: a view, or other strides, would be another graph."""
    return x.clone(memory_format=torch.contiguous_format)


def full_mask(mask: Tensor | None, x: Tensor, keys: int) -> Tensor:
    """(B, T, S) of any form that is accepted, or of none."""
    shape = (x.shape[0], x.shape[1], keys)
    if mask is None:
        return x.new_ones(shape, dtype=bool)
    return mask.expand(shape).contiguous()


class AttentionAlone(CompiledComponent):
    """q, k and v of any rank; it returns no weights, since the fused kernel never holds them."""

    def compute(self, **tensors: Any) -> Any:
        q = tensors["q"]
        output = super().compute(**tensors)
        return output if q.ndim == 3 else output.reshape(*q.shape[:-2], *output.shape[-2:])

    def formed(
        self, q: Tensor, k: Tensor, v: Tensor, mask: Tensor | None = None, causal: bool = False
    ) -> dict[str, Tensor]:
        scores = (*q.shape[:-1], k.shape[-2])
        allowed = causal_mask(*scores[-2:], q.device) if causal else q.new_ones(scores[-2:], dtype=bool)
        if mask is not None:
            allowed = allowed & mask
        given = {"q": q, "k": k, "v": v, "allowed": allowed.expand(scores).contiguous()}
        rows = {
            n: x if x.ndim == 3 else contiguous_copy(x.reshape(-1, *x.shape[-2:])) for n, x in given.items()
        }
        for name in ("q", "k"):  # the root of the width is a constant of the graph
            mark_static(rows[name], -1)
        return rows

    @staticmethod
    def graph(module: nn.Module, q: Tensor, k: Tensor, v: Tensor, allowed: Tensor) -> Tensor:
        k, v = without_unseen(k, allowed), without_unseen(v, allowed)
        heads = F.scaled_dot_product_attention(q[:, None], k[:, None], v[:, None], attn_mask=allowed[:, None])
        return heads[:, 0]


class Heads(CompiledComponent):
    """Multi-head attention."""

    def formed(self, query: Tensor, key_value: Tensor, mask: Tensor | None = None) -> dict[str, Tensor]:
        return {"query": query, "key_value": key_value, "mask": full_mask(mask, query, key_value.shape[1])}


class Encoding(CompiledComponent):
    """A layer of an encoder."""

    def formed(self, x: Tensor, mask: Tensor | None = None) -> dict[str, Tensor]:
        return {"x": x, "mask": full_mask(mask, x, x.shape[1])}


class Reading(CompiledComponent):
    """A layer of a decoder."""

    def formed(
        self, x: Tensor, memory: Tensor, mask: Tensor | None = None, memory_mask: Tensor | None = None
    ) -> dict[str, Tensor]:
        both = {"mask": full_mask(mask, x, x.shape[1])}
        both["memory_mask"] = full_mask(memory_mask, x, memory.shape[1])
        return {"x": x, "memory": memory, **both}


class Layered(CompiledComponent):
    """A stack by itself: one graph for all its layers, called once for each. The full model is one graph."""

    def compute(self, **tensors: Any) -> Any:
        given = self.formed(**tensors)
        layers = list(self.module.layers())
        run = self.compiled("layer", CompiledComponent.graph, type(layers[0]))
        for layer in layers:
            given["x"] = contiguous_copy(run(layer, **given))
        if isinstance(self.module.norm, nn.Identity):
            return given["x"]
        return self.compiled("norm", CompiledComponent.graph, type(self.module.norm))(
            self.module.norm, x=given["x"]
        )


class EncodingStack(Layered, Encoding):
    """An encoder."""


class ReadingStack(Layered, Reading):
    """A decoder."""


class CrossEntropy(CompiledComponent):
    """The loss over labels that are not padding."""

    module: Loss

    def formed(self, logits: Tensor, labels: Tensor) -> dict[str, Tensor]:
        return {
            "logits": logits,
            "labels": labels,
            "smoothing": as_tensor_like(self.module.smoothing, logits),
        }

    @staticmethod
    def graph(module: Loss, logits: Tensor, labels: Tensor, smoothing: Tensor) -> dict[str, Tensor]:
        tokens = (labels != module.pad_id).sum().clamp(min=1)
        return {"loss": summed_loss(logits, labels, module.pad_id, smoothing) / tokens}


def as_tensor_like(value: float, like: Tensor) -> Tensor:
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


class Model(CompiledComponent, TransformerComponent):
    """The full model and its two halves."""

    attention_maps = None  # fused attention has no weights to show

    def compute(self, source: Tensor, target: Tensor) -> dict[str, Tensor]:
        return {"logits": self.compiled("forward", Transformer.forward)(self.module, source, target)}

    def compute_memory(self, source: Tensor) -> dict[str, Tensor]:
        return {"memory": self.compiled("encode", Transformer.encode)(self.module, source)}

    def compute_logits(self, target: Tensor, memory: Tensor, source: Tensor) -> dict[str, Tensor]:
        run = self.compiled("decode", Transformer.decode)
        return {"logits": run(self.module, target, memory, source)}
