"""Optimisers over any named arrays: SGD, momentum, Adam and AdamW. Plain arrays, no tape.

With gradient g, rate r and step t from 1:

    sgd        p - r g
    momentum   v = mu v + g, from v = 0;  p - r v
    adam       p - r d,  d = m / (sqrt(s) + eps) with m and s corrected by 1 - beta^t
    adamw      p - r (d + lambda p), lambda = 0 for arrays of one axis: https://arxiv.org/abs/1711.05101, 2
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np

from attest.contract import Arrays, Config, float_dtype, operation_of
from attest.reference.parts.part import Part
from attest.reference.tape import Array
from attest.reference.validation import ConfigRules

if TYPE_CHECKING:
    from attest.reference.assembly import Parts

UPDATES: dict[str, Callable[[Parts], UpdateRule]] = {}


@dataclass
class Memory:
    """What an optimiser remembers: steps taken, and running means by parameter name."""

    steps: int = 0
    first: dict[str, Array] = field(default_factory=dict)
    second: dict[str, Array] = field(default_factory=dict)


class UpdateRule(Part):
    """New parameters from old ones; a rule says in which direction one array moves."""

    def step(
        self, parameters: Mapping[str, Array], memory: Memory, gradients: Arrays, rate: float
    ) -> dict[str, Array]:
        """In float64; the memory is moved on."""
        memory.steps += 1
        return {
            name: self.moved(name, np.asarray(value, np.float64), memory, gradients, rate)
            for name, value in parameters.items()
        }

    def moved(self, name: str, value: Array, memory: Memory, gradients: Arrays, rate: float) -> Array:
        """One array after the step."""
        g = np.asarray(gradients[name], np.float64)
        return value - rate * self.direction(name, value, g, memory)

    def direction(self, name: str, value: Array, g: Array, memory: Memory) -> Array:
        """What the rate is multiplied with."""
        raise NotImplementedError


class Sgd(UpdateRule):
    """Straight down the gradient."""

    def direction(self, name: str, value: Array, g: Array, memory: Memory) -> Array:
        return g


class Momentum(UpdateRule):
    """A sum of past gradients that fades by the factor `momentum` at each step."""

    def direction(self, name: str, value: Array, g: Array, memory: Memory) -> Array:
        velocity: Array = self.config.momentum * memory.first.get(name, np.zeros_like(g)) + g
        memory.first[name] = velocity
        return velocity


class PlainAdam(UpdateRule):
    """The corrected mean over the root of the corrected mean square."""

    def correction(self, beta: float, memory: Memory) -> float:
        """Both means start at zero; this undoes it."""
        return float(1 - beta**memory.steps)

    def root(self, square: Array) -> Array:
        """What the mean is divided by."""
        found: Array = np.sqrt(square) + self.config.adam_eps
        return found

    def direction(self, name: str, value: Array, g: Array, memory: Memory) -> Array:
        b1, b2 = self.config.beta1, self.config.beta2
        mean = b1 * memory.first.get(name, np.zeros_like(g)) + (1 - b1) * g
        square = b2 * memory.second.get(name, np.zeros_like(g)) + (1 - b2) * g * g
        memory.first[name], memory.second[name] = mean, square
        found: Array = mean / self.correction(b1, memory) / self.root(square / self.correction(b2, memory))
        return found


class AdamW(PlainAdam):
    """Adam, and beside it a decay that the means do not see."""

    def decays(self, name: str, value: Array) -> bool:
        """Matrices do; biases and the gains of norms have one axis."""
        return value.ndim >= 2

    def decay(self, name: str, value: Array) -> Array:
        """lambda p."""
        lost: Array = self.config.weight_decay * value if self.decays(name, value) else np.zeros_like(value)
        return lost

    def direction(self, name: str, value: Array, g: Array, memory: Memory) -> Array:
        return super().direction(name, value, g, memory) + self.decay(name, value)


UPDATES["sgd"] = lambda parts: parts.sgd
UPDATES["momentum"] = lambda parts: parts.momentum
UPDATES["adam"] = lambda parts: parts.plain_adam
UPDATES["adamw"] = lambda parts: parts.adamw


class ReferenceUpdate(ConfigRules):
    """One of the rules as the contract's Optimizer; it has no parameters until they are loaded."""

    def __init__(self, parts: Parts, operation: str, config: Config) -> None:
        self.config, self.reads = config, operation_of(operation).reads
        self.check_config()
        self.rule, self.dtype = UPDATES[operation](parts), float_dtype(config.dtype)
        self.load({})

    def parameters(self) -> dict[str, Array]:
        return {name: value.copy() for name, value in self.values.items()}

    def load(self, parameters: Arrays) -> None:
        self.values = {name: np.array(value, dtype=self.dtype) for name, value in parameters.items()}
        self.memory = Memory()

    def step(self, gradients: Arrays, rate: float) -> None:
        if set(gradients) != set(self.values):
            odd = min(set(gradients) ^ set(self.values))
            raise ValueError(f"gradients and parameters differ in {odd!r}; give one gradient for each")
        moved = self.rule.step(self.values, self.memory, gradients, rate)
        self.values = {name: value.astype(self.dtype) for name, value in moved.items()}
