"""Correct but unusual layers, optimisers and initialisations."""

from __future__ import annotations

import math

import numpy as np

from attest.contract import Arrays
from attest.judging.catalogue import variant
from attest.reference import ops
from attest.reference.component import ReferenceComponent
from attest.reference.parts.feed_forward import Gelu, Relu, Silu
from attest.reference.parts.initialisation import Initialisation
from attest.reference.parts.linear import Linear
from attest.reference.parts.probabilities import CrossEntropy, Softmax
from attest.reference.scope import Scope
from attest.reference.tape import Array, Var, node
from attest.reference.training.updates import AdamW, Memory, Momentum, PlainAdam


@variant("M10")
class softmax_by_its_logarithm(Softmax):
    """exp(x - max - log(sum(exp(x - max))))."""

    def __call__(self, x: Var) -> Var:
        log_p = ops.log_softmax(x)
        p = np.exp(log_p.value)
        return ops.elementwise(log_p, p, p)


@variant("M10")
class relu_as_half_of_a_sum(Relu):
    """(x + |x|) / 2."""

    def __call__(self, x: Var) -> Var:
        slope = 0.5 * (1 + np.sign(x.value))
        return ops.elementwise(x, 0.5 * (x.value + np.abs(x.value)), slope)


@variant("M10")
class gelu_by_erfc(Gelu):
    """x erfc(-x / sqrt 2) / 2, which keeps its digits for negative x."""

    def __call__(self, x: Var) -> Var:
        flat = [0.5 * math.erfc(-a / math.sqrt(2.0)) for a in x.value.ravel().tolist()]
        cdf = np.array(flat).reshape(x.shape)
        slope = cdf + x.value * np.exp(-0.5 * x.value**2) / math.sqrt(2 * math.pi)
        return ops.elementwise(x, x.value * cdf, slope)


@variant("M10")
class silu_of_one_exponential(Silu):
    """x / (1 + exp(-x)): where the exponential overflows the quotient is zero."""

    def __call__(self, x: Var) -> Var:
        with np.errstate(over="ignore"):
            share = 1 / (1 + np.exp(-x.value))
        return ops.elementwise(x, x.value * share, share * (1 + x.value * (1 - share)))


@variant("M10")
class linear_row_by_row(Linear):
    """One product for each position, and the bias as a column of the weight."""

    def __call__(self, x: Var, p: Scope, name: str) -> Var:
        weight, bias = p[f"{name}.weight"], p.get(f"{name}.bias")
        y = ops.swap(ops.matmul(weight, ops.swap(x)))
        return y if bias is None else ops.add(y, bias)


@variant("M10")
class cross_entropy_in_one_node(CrossEntropy):
    """Loss and gradient (p - onehot) / count together, as fused kernels have it."""

    def __call__(self, logits: Var, labels: Array) -> Var:
        x = logits.value
        top = x.max(axis=-1, keepdims=True)
        total = np.exp(x - top).sum(axis=-1, keepdims=True)
        chosen = np.take_along_axis(x, labels[..., None], -1)
        loss = np.asarray((np.log(total) + top - chosen).mean())
        onehot = labels[..., None] == np.arange(x.shape[-1])

        def backward(g: Array) -> tuple[Array]:
            return (g * (np.exp(x - top) / total - onehot) / labels.size,)

        return node(loss, (logits,), backward)


@variant("M10")
class gradients_held_as_a_list(ReferenceComponent):
    """Every pass is kept; the sum is made when it is asked for."""

    _passes: tuple[Arrays, ...] = ()

    def add_gradients(self, inputs: Arrays, cotangents: Arrays) -> None:
        self._passes = (*self._passes, self.gradients(inputs, cotangents).parameters)

    def held_gradients(self) -> dict[str, Array]:
        held = {name: np.zeros_like(value) for name, value in self.values.items()}
        for found in self._passes:
            held = {name: value + found[name] for name, value in held.items()}
        return held

    def zero_gradients(self) -> None:
        self._passes = ()


@variant("M10")
class momentum_with_the_rate_inside(Momentum):
    """The velocity is kept divided by nothing and multiplied late: p + (-rate) v."""

    def moved(self, name: str, value: Array, memory: Memory, gradients: Arrays, rate: float) -> Array:
        velocity = self.direction(name, value, np.asarray(gradients[name], np.float64), memory)
        return value + (-rate) * velocity


@variant("M10")
class adam_with_one_corrected_rate(PlainAdam):
    """The corrections go into the rate and into eps, as section 2 of the paper suggests."""

    def direction(self, name: str, value: Array, g: Array, memory: Memory) -> Array:
        b1, b2 = self.config.beta1, self.config.beta2
        mean = memory.first.get(name, np.zeros_like(g))
        square = memory.second.get(name, np.zeros_like(g))
        memory.first[name] = mean = mean + (1 - b1) * (g - mean)
        memory.second[name] = square = square + (1 - b2) * (g * g - square)
        late = math.sqrt(self.correction(b2, memory))
        found: Array = (
            (late / self.correction(b1, memory)) * mean / (np.sqrt(square) + late * self.config.adam_eps)
        )
        return found


@variant("M10")
class adamw_shrinks_first(AdamW):
    """p (1 - rate lambda) first, then Adam's step, which does not look at p."""

    def moved(self, name: str, value: Array, memory: Memory, gradients: Arrays, rate: float) -> Array:
        g = np.asarray(gradients[name], np.float64)
        share = 1 - rate * self.config.weight_decay if self.decays(name, value) else 1.0
        return value * share - rate * PlainAdam.direction(self, name, value, g, memory)


@variant("M10")
class weights_from_another_generator(Initialisation):
    """Philox instead of PCG64, and the entries drawn by columns."""

    def rng(self, seed: int) -> np.random.Generator:
        return np.random.Generator(np.random.Philox(seed))

    def he(self, outputs: int, inputs: int, seed: int) -> Array:
        return super().he(inputs, outputs, seed).T * math.sqrt(outputs / inputs)
