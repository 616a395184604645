"""The model, Adam, clipping and generation as the contract calls them: arrays in, arrays out."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from torch import nn

from attest.adapters.torch import TorchComponent, seeded
from attest.contract import Array, Arrays, Config, float_dtype

from . import cache
from .arguments import check_config
from .generation import generate
from .model import Transformer
from .optimisation import Adam, clip_factor, global_norm


def component(
    build: Callable[[Config], nn.Module], config: Config, kind: type[TorchComponent] = TorchComponent
) -> Any:
    """The module that `build` makes from the config and its seed, behind the contract."""
    with seeded(config.seed, config.device):
        module = build(config)
    return kind(module, config)


class TransformerComponent(TorchComponent):
    """The full model, and its two halves."""

    module: Transformer

    def encode(self, *, source: Array) -> Arrays:
        return self.run(lambda source: {"memory": self.module.encode(source)}, source=source)

    def decode(self, *, target: Array, memory: Array, source: Array) -> Arrays:
        inputs = {"target": target, "memory": memory, "source": source}
        return self.run(lambda **given: {"logits": self.module.decode(**given)}, **inputs)

    def start(self, source: Array) -> cache.State:
        with torch.no_grad():
            return cache.start(self.module, self._ids(source))

    def step(self, state: cache.State, tokens: Array) -> tuple[Array, cache.State]:
        with torch.no_grad():
            logits, grown = cache.step(self.module, state, self._ids(tokens))
        return self.run(lambda: {"logits": logits})["logits"], grown

    def reorder(self, state: cache.State, rows: Array) -> cache.State:
        with torch.no_grad():
            return cache.reorder(state, self._ids(rows))

    def _ids(self, values: Array) -> torch.Tensor:
        return self.tensors({"ids": np.asarray(values)})["ids"]

    def _forward(self, **tensors: Any) -> Any:
        return {"logits": self.module(**tensors)}


class Generator(TorchComponent):
    """Greedy, beam and sampling with a model of its own."""

    def _forward(self, source: torch.Tensor, max_len: int, **options: Any) -> Any:
        tokens, scores = generate(self.module, source, max_len, **options)
        return {"tokens": tokens, "scores": scores}


class Clipping:
    """One factor for all gradients, so that their direction stays."""

    def __init__(self, config: Config) -> None:
        check_config(config, "clip_norm")
        self.limit = config.clip_norm

    def __call__(self, gradients: Arrays) -> Arrays:
        tensors = [torch.tensor(np.asarray(g)) for g in gradients.values()]
        if not tensors:
            return {}
        factor = clip_factor(global_norm(tensors), self.limit)
        return {name: (g * factor.to(g.dtype)).numpy() for name, g in zip(gradients, tensors)}


class Optimizer:
    """Adam over named arrays: a transformer's until others are loaded."""

    def __init__(self, config: Config) -> None:
        self.config = config
        self.load(component(Transformer, config).parameters())

    def parameters(self) -> Arrays:
        dtype = float_dtype(self.config.dtype)
        values = (p.detach().cpu().double().numpy().astype(dtype) for p in self._adam.parameters)
        return dict(zip(self._names, values))

    def load(self, parameters: Arrays) -> None:
        self._names = list(parameters)
        self._adam = Adam(self._tensor(value) for value in parameters.values())

    def step(self, gradients: Arrays, rate: float) -> None:
        if set(gradients) != set(self._names):
            odd = sorted(set(gradients) ^ set(self._names))
            raise ValueError(f"gradients differ from the parameters in {odd[:3]}; give one for each")
        given = [self._tensor(gradients[name]) for name in self._names]
        self._adam.step(self._adam.joined(given), rate)

    def _tensor(self, value: Array) -> torch.Tensor:
        dtype = getattr(torch, self.config.dtype)
        return torch.tensor(np.asarray(value), dtype=dtype, device=self.config.device)
