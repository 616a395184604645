"""Defects of optimisers and of initialisation."""

from __future__ import annotations

import math

import numpy as np

from attest.contract import Arrays
from attest.judging.catalogue import defect
from attest.reference.parts.initialisation import Initialisation
from attest.reference.tape import Array
from attest.reference.training.updates import AdamW, Memory, Momentum, PlainAdam, Sgd


@defect("M10.4")
class sgd_normalises_the_gradient(Sgd):
    """Each array's gradient is divided by its length."""

    def direction(self, name: str, value: Array, g: Array, memory: Memory) -> Array:
        return g / max(float(np.linalg.norm(g)), 1e-12)


@defect("M10.4")
class momentum_dampened(Momentum):
    """A running mean instead of a running sum: (1 - momentum) g."""

    def direction(self, name: str, value: Array, g: Array, memory: Memory) -> Array:
        return super().direction(name, value, (1 - self.config.momentum) * g, memory)


@defect("M10.4")
class momentum_looks_ahead(Momentum):
    """Nesterov's step: the gradient plus momentum times the new velocity."""

    def direction(self, name: str, value: Array, g: Array, memory: Memory) -> Array:
        return g + self.config.momentum * super().direction(name, value, g, memory)


@defect("M10.4")
class velocity_skips_zero_gradients(Momentum):
    """Where the gradient of an array is zero nothing moves and nothing fades."""

    def direction(self, name: str, value: Array, g: Array, memory: Memory) -> Array:
        return super().direction(name, value, g, memory) if np.any(g) else np.zeros_like(g)


@defect("M10.4a")
class no_bias_correction(PlainAdam):
    """The means are used as they are, although they started at zero."""

    def correction(self, beta: float, memory: Memory) -> float:
        return 1.0


@defect("M10.4a")
class step_counts_from_zero(PlainAdam):
    """The correction is one step late; at the first step it is left out."""

    def correction(self, beta: float, memory: Memory) -> float:
        return float(1 - beta ** (memory.steps - 1)) if memory.steps > 1 else 1.0


@defect("M10.4a")
class eps_inside_root(PlainAdam):
    """sqrt(square + eps)."""

    def root(self, square: Array) -> Array:
        found: Array = np.sqrt(square + self.config.adam_eps)
        return found


@defect("M10.4a")
class betas_exchanged(PlainAdam):
    """beta1 fades the squares and beta2 the mean."""

    def direction(self, name: str, value: Array, g: Array, memory: Memory) -> Array:
        kept = self.config
        self.config = kept.but(beta1=kept.beta2, beta2=kept.beta1)
        try:
            return super().direction(name, value, g, memory)
        finally:
            self.config = kept


@defect("M10.4")
class velocity_of_sixteen_arrays(Momentum):
    """From the 17th array on nothing is remembered."""

    def direction(self, name: str, value: Array, g: Array, memory: Memory) -> Array:
        if name not in memory.first and len(memory.first) >= 16:
            return g
        return super().direction(name, value, g, memory)


@defect("M10.4a")
class correction_ends_after_thirty_steps(PlainAdam):
    """From then on the means are taken as they are."""

    def correction(self, beta: float, memory: Memory) -> float:
        return super().correction(beta, memory) if memory.steps <= 30 else 1.0


@defect("M10.4b")
class rows_beyond_256_do_not_decay(AdamW):
    """A block of 256 rows decays, what is behind it does not."""

    def decay(self, name: str, value: Array) -> Array:
        lost = super().decay(name, value)
        lost[256:] = 0.0
        return lost


@defect("M10.4a")
class one_step_count_for_each_array(PlainAdam):
    """The count of steps goes on with every array instead of with every step."""

    def direction(self, name: str, value: Array, g: Array, memory: Memory) -> Array:
        found = super().direction(name, value, g, memory)
        memory.steps += 1
        return found


@defect("M10.4b")
class decay_through_moments(AdamW):
    """The decay is added to the gradient, so that Adam divides it by its root."""

    def direction(self, name: str, value: Array, g: Array, memory: Memory) -> Array:
        return PlainAdam.direction(self, name, value, g + self.decay(name, value), memory)


@defect("M10.4b")
class decay_on_norms(AdamW):
    """Gains of norms and biases decay as well."""

    def decays(self, name: str, value: Array) -> bool:
        return True


@defect("M10.4b")
class decay_without_rate(AdamW):
    """The share that is lost does not depend on the rate."""

    def moved(self, name: str, value: Array, memory: Memory, gradients: Arrays, rate: float) -> Array:
        g = np.asarray(gradients[name], np.float64)
        return value - rate * PlainAdam.direction(self, name, value, g, memory) - self.decay(name, value)


@defect("M10.4b")
class decay_after_the_step(AdamW):
    """What decays is the parameter after Adam has moved it."""

    def moved(self, name: str, value: Array, memory: Memory, gradients: Arrays, rate: float) -> Array:
        g = np.asarray(gradients[name], np.float64)
        after = value - rate * PlainAdam.direction(self, name, value, g, memory)
        return after - rate * self.decay(name, after)


@defect("M10.4b")
class embeddings_do_not_decay(AdamW):
    """Tables of embeddings are left out, though they are matrices."""

    def decays(self, name: str, value: Array) -> bool:
        return super().decays(name, value) and "embedding" not in name


@defect("M10.5")
class xavier_of_one_fan(Initialisation):
    """sqrt(3 / inputs): the outputs are forgotten."""

    def xavier_limit(self, outputs: int, inputs: int) -> float:
        return math.sqrt(3.0 / inputs)


@defect("M10.5")
class xavier_deviation_for_limit(Initialisation):
    """The deviation sqrt(2 / (inputs + outputs)) is taken for the limit."""

    def xavier_limit(self, outputs: int, inputs: int) -> float:
        return math.sqrt(2.0 / (inputs + outputs))


@defect("M10.5")
class he_of_the_outputs(Initialisation):
    """The variance is 2 / outputs: the axes of the weight are exchanged."""

    def he_deviation(self, outputs: int, inputs: int) -> float:
        return math.sqrt(2.0 / outputs)


@defect("M10.5")
class he_variance_for_deviation(Initialisation):
    """2 / inputs is taken for the deviation."""

    def he_deviation(self, outputs: int, inputs: int) -> float:
        return 2.0 / inputs


@defect("M10.5")
class every_layer_begins_alike(Initialisation):
    """The seed is ignored."""

    def rng(self, seed: int) -> np.random.Generator:
        return np.random.default_rng(0)


@defect("M10.5")
class initialisation_seeds_the_world(Initialisation):
    """The global generator is seeded and drawn from."""

    def xavier(self, outputs: int, inputs: int, seed: int) -> Array:
        np.random.seed(seed)
        limit = self.xavier_limit(outputs, inputs)
        return np.random.uniform(-limit, limit, (outputs, inputs))
