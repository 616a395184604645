"""Compiled modules behind the contract. What depends on values is checked before, outside the graph."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import torch
from torch import Tensor, nn

from attest.adapters.torch import TorchComponent, seeded
from attest.contract import Array, Arrays, Config
from attest_impls.eager.arguments import check_ids
from attest_impls.eager.embedding import InputEmbedding, TokenEmbedding
from attest_impls.eager.model import Transformer
from attest_impls.eager.training import Loss, summed_loss

from .compiling import Report, compiled
from .fused import canonical_names, fuse


def component(
    build: Callable[[Config], nn.Module], config: Config, kind: type[CompiledComponent] | None = None
) -> Any:
    """eager's module with fused attention, behind the contract."""
    with seeded(config.seed, config.device):
        module = fuse(build(config))
    return (kind or CompiledComponent)(module, config)


class CompiledComponent(TorchComponent):
    """Any module whose forward checks shapes only."""

    def __init__(self, module: nn.Module, config: Config) -> None:
        super().__init__(module, config, canonical_names(module))
        self.report = Report()
        self._functions: dict[str, Callable[..., Any]] = {}

    def compile_report(self) -> Mapping[str, int]:
        return self.report.as_mapping()

    def compiled(self, name: str, function: Callable[..., Any], **settings: Any) -> Callable[..., Any]:
        """A function of this component as a graph, made on first use."""
        if name not in self._functions:
            self._functions[name] = compiled(function, self.report, device=self.config.device, **settings)
        return self._functions[name]

    def _forward(self, **tensors: Any) -> Any:
        self.check(**tensors)
        try:
            return self.compiled("forward", self.graph)(**tensors)
        except ValueError:
            raise
        except Exception:
            self._refuse(tensors)
            raise

    def graph(self, **tensors: Any) -> Any:
        """What is compiled."""
        return self.module(**tensors)

    def check(self, **tensors: Any) -> None:
        """Refuse what only the values show."""

    def _refuse(self, tensors: Mapping[str, Any]) -> None:
        """A refusal inside a graph comes out as a compiler error; the plain module says what is wrong."""
        with torch.no_grad():
            self.module(**{name: _copy(value) for name, value in tensors.items()})


def _copy(value: Any) -> Any:
    return value.detach().clone() if isinstance(value, Tensor) else value


class TokenLookup(CompiledComponent):
    """Rows of a table."""

    module: TokenEmbedding

    def check(self, ids: Tensor) -> None:
        check_ids("ids", ids, self.module.num_embeddings)

    def graph(self, ids: Tensor) -> Tensor:
        return nn.functional.embedding(ids, self.module.weight, self.module.padding_idx)


class Inputs(CompiledComponent):
    """Scaled rows plus positions."""

    module: InputEmbedding

    def check(self, ids: Tensor) -> None:
        check_ids("ids", ids, self.module.num_embeddings, self.module.positions.max_len)

    def graph(self, ids: Tensor) -> Tensor:
        return self.module.at(ids, 0)


class CrossEntropy(CompiledComponent):
    """The loss over labels that are not padding."""

    module: Loss

    def check(self, logits: Tensor, labels: Tensor) -> None:
        if logits.ndim != 3 or logits.shape[:2] != labels.shape:
            self.module(logits, labels)
        check_ids("labels", labels, logits.shape[-1])

    def graph(self, logits: Tensor, labels: Tensor) -> dict[str, Tensor]:
        tokens = (labels != self.module.pad_id).sum().clamp(min=1)
        loss = summed_loss(logits, labels, self.module.pad_id, self.module.smoothing)
        return {"loss": loss / tokens}


class Model(CompiledComponent):
    """The full model and its two halves."""

    module: Transformer

    def check(self, **ids: Tensor) -> None:
        for name in ("source", "target"):
            if name in ids:
                self.module._check(name, ids[name])
        if len({x.shape[0] for x in ids.values()}) > 1:
            self.module(**ids)

    def graph(self, source: Tensor, target: Tensor) -> dict[str, Tensor]:
        return {"logits": self.module._decode(target, self.module._encode(source), source)}

    def encode(self, *, source: Array) -> Arrays:
        return self.run(self._encoded, source=source)

    def _encoded(self, source: Tensor) -> dict[str, Tensor]:
        self.check(source=source)
        return {"memory": self.compiled("encode", self.module._encode)(source)}

    def decode(self, *, target: Array, memory: Array, source: Array) -> Arrays:
        return self.run(self._decoded, target=target, memory=memory, source=source)

    def _decoded(self, target: Tensor, memory: Tensor, source: Tensor) -> dict[str, Tensor]:
        self.check(source=source, target=target)
        if memory.shape != (*source.shape, self.config.d_model):
            self.module.decode(target, memory, source)
        return {"logits": self.compiled("decode", self.module._decode)(target, memory, source)}
