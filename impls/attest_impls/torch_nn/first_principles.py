"""torch's own layers, optimisers and initialisations, one at a time."""

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from attest.adapters.torch import seeded
from attest.contract import Array, Arrays, Config, float_dtype

from .layers import activation

__all__ = ["RULES", "Update", "activation", "cross_entropy", "he", "linear", "mean_loss", "softmax", "xavier"]


def linear(config: Config) -> nn.Module:
    return nn.Linear(config.d_model, config.inner_width, config.bias)


def softmax(config: Config) -> nn.Module:
    return nn.Softmax(-1)


def cross_entropy(config: Config) -> nn.Module:
    return nn.CrossEntropyLoss()


def mean_loss(module: nn.Module, logits: Tensor, labels: Tensor) -> dict[str, Tensor]:
    if logits.shape[:-1] != labels.shape:
        raise ValueError(
            f"labels shape={tuple(labels.shape)} does not fit logits {tuple(logits.shape)}; match them"
        )
    return {"loss": module(logits.flatten(0, 1), labels.flatten())}


Groups = list[dict[str, Any]]


def _adam(groups: Groups, c: Config, kind: Any) -> Any:
    return kind(groups, lr=1.0, betas=(c.beta1, c.beta2), eps=c.adam_eps, weight_decay=0.0)


# torch has no decay by number of axes: `groups` gives the matrices theirs.
RULES: Mapping[str, Callable[[Groups, Config], Any]] = {
    "sgd": lambda groups, c: torch.optim.SGD(groups, lr=1.0, weight_decay=0.0),
    "momentum": lambda groups, c: torch.optim.SGD(groups, lr=1.0, momentum=c.momentum, weight_decay=0.0),
    "adam": lambda groups, c: _adam(groups, c, torch.optim.Adam),
    "adamw": lambda groups, c: _adam(groups, c, torch.optim.AdamW),
}


class Update:
    """An optimiser of torch over named arrays."""

    def __init__(self, rule: str, config: Config) -> None:
        self.rule, self.config = rule, config
        self.load({})

    def parameters(self) -> Arrays:
        dtype = float_dtype(self.config.dtype)
        return {name: p.detach().numpy().astype(dtype) for name, p in self._tensors.items()}

    def load(self, parameters: Arrays) -> None:
        self._tensors = {
            name: nn.Parameter(torch.tensor(np.asarray(value), dtype=getattr(torch, self.config.dtype)))
            for name, value in parameters.items()
        }
        # torch refuses an optimiser of nothing; the stand-in never has a gradient.
        held = list(self._tensors.values()) or [nn.Parameter(torch.zeros(1))]
        self._optimizer = RULES[self.rule](self.groups(held), self.config)

    def groups(self, held: list[nn.Parameter]) -> Groups:
        """Matrices with the decay of AdamW, the rest without."""
        flat = {"params": [p for p in held if p.ndim < 2]}
        matrices: dict[str, Any] = {"params": [p for p in held if p.ndim >= 2]}
        if self.rule == "adamw":
            matrices["weight_decay"] = self.config.weight_decay
        return [group for group in (flat, matrices) if group["params"]]

    def step(self, gradients: Arrays, rate: float) -> None:
        if odd := sorted(set(gradients) ^ set(self._tensors)):
            raise ValueError(f"gradients differ from the parameters in {odd[:3]}; give one for each")
        for name, p in self._tensors.items():
            p.grad = torch.tensor(np.asarray(gradients[name]), dtype=p.dtype)
        for group in self._optimizer.param_groups:
            group["lr"] = float(rate)
        self._optimizer.step()


def xavier(outputs: int, inputs: int, seed: int) -> Array:
    with seeded(seed):
        return nn.init.xavier_uniform_(torch.empty(outputs, inputs, dtype=torch.float64)).numpy()


def he(outputs: int, inputs: int, seed: int) -> Array:
    with seeded(seed):
        return nn.init.kaiming_normal_(torch.empty(outputs, inputs, dtype=torch.float64)).numpy()
