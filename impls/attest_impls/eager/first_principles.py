"""The pieces one at a time: softmax, cross-entropy, activation, optimisers and first weights."""

import math
from collections.abc import Iterable, Sequence

import numpy as np
import torch
from torch import Tensor, nn

from attest.adapters.torch import seeded
from attest.contract import Array, Arrays, Config, float_dtype

from .model import ACTIVATIONS, Linear
from .optimisation import Adam
from .settings import check_config
from .training import token_losses


class Activation(nn.Module):
    """The config's, of each number by itself."""

    def __init__(self, config: Config) -> None:
        super().__init__()
        self.function = ACTIVATIONS[config.activation]

    def forward(self, x: Tensor) -> Tensor:
        return self.function(x)


class Softmax(nn.Module):
    """exp(x - max) / sum, over the last axis: with the largest entry taken out no exponential overflows."""

    def __init__(self, config: Config) -> None:
        super().__init__()

    def forward(self, x: Tensor) -> Tensor:
        raised = (x - x.amax(-1, keepdim=True).detach()).exp()
        return raised / raised.sum(-1, keepdim=True)


class CrossEntropy(nn.Module):
    """The mean over all positions of -log p(label)."""

    def __init__(self, config: Config) -> None:
        super().__init__()

    def forward(self, logits: Tensor, labels: Tensor) -> dict[str, Tensor]:
        return {"loss": token_losses(logits, labels, 0.0).mean()}


class LinearMap(Linear):
    """The model's linear map from d_model to d_ff, with the input under its name."""

    def __init__(self, config: Config) -> None:
        super().__init__(config.d_model, config.inner_width, config.bias)

    def forward(self, x: Tensor) -> Tensor:
        return super().forward(x)


class SGD:
    """p - rate g."""

    def __init__(self, parameters: Iterable[Tensor], config: Config) -> None:
        self.parameters, self.config = list(parameters), config

    def step(self, gradients: Sequence[Tensor], rate: float) -> None:
        for p, g in zip(self.parameters, gradients, strict=True):
            p.sub_(g, alpha=rate)


class Momentum(SGD):
    """v = momentum v + g, from v = 0; p - rate v."""

    def __init__(self, parameters: Iterable[Tensor], config: Config) -> None:
        super().__init__(parameters, config)
        self.velocities = [torch.zeros_like(p) for p in self.parameters]

    def step(self, gradients: Sequence[Tensor], rate: float) -> None:
        for v, g in zip(self.velocities, gradients, strict=True):
            v.mul_(self.config.momentum).add_(g)
        super().step(self.velocities, rate)


class ConfiguredAdam(Adam):
    """Adam with the constants of the config."""

    def __init__(self, parameters: Iterable[Tensor], config: Config) -> None:
        super().__init__(parameters)
        self.beta1, self.beta2, self.epsilon = config.beta1, config.beta2, config.adam_eps
        self.decay = config.weight_decay


class AdamW(ConfiguredAdam):
    """Matrices shrink by rate * weight_decay of themselves, then Adam; the moments never see it."""

    def step(self, gradients: Sequence[Tensor], rate: float) -> None:
        for p in self.parameters:
            if p.ndim >= 2:  # biases and the gains of norms have one axis
                p.mul_(1 - rate * self.decay)
        super().step(gradients, rate)


class Update:
    """One of these rules over named arrays, as the contract calls it."""

    def __init__(self, operation: str, rule: type[SGD] | type[ConfiguredAdam], config: Config) -> None:
        check_config(operation, config)
        self.rule, self.config = rule, config
        self.load({})

    def parameters(self) -> Arrays:
        dtype = float_dtype(self.config.dtype)
        values = (p.cpu().double().numpy().astype(dtype) for p in self._rule.parameters)
        return dict(zip(self._names, values, strict=True))

    def load(self, parameters: Arrays) -> None:
        self._names = list(parameters)
        self._rule = self.rule([self._tensor(value) for value in parameters.values()], self.config)

    def step(self, gradients: Arrays, rate: float) -> None:
        if odd := sorted(set(gradients) ^ set(self._names)):
            raise ValueError(f"gradients differ from the parameters in {odd[:3]}; give one for each")
        self._rule.step([self._tensor(gradients[name]) for name in self._names], rate)

    def _tensor(self, value: Array) -> Tensor:
        dtype = getattr(torch, self.config.dtype)
        return torch.tensor(np.asarray(value), dtype=dtype, device=self.config.device)


def xavier(outputs: int, inputs: int, seed: int) -> Array:
    """Uniform with variance 2 / (inputs + outputs)."""
    limit = math.sqrt(6 / (_fan("inputs", inputs) + _fan("outputs", outputs)))
    with seeded(seed):
        return torch.empty(outputs, inputs, dtype=torch.float64).uniform_(-limit, limit).numpy()


def he(outputs: int, inputs: int, seed: int) -> Array:
    """Normal with variance 2 / inputs."""
    deviation = math.sqrt(2 / _fan("inputs", inputs))
    with seeded(seed):
        return (
            torch.empty(_fan("outputs", outputs), inputs, dtype=torch.float64).normal_(0, deviation).numpy()
        )


def _fan(name: str, value: int) -> int:
    if isinstance(value, bool) or int(value) != value or value < 1:
        raise ValueError(f"{name}={value!r} is not a positive integer; give 1 or more")
    return int(value)
