"""What training needs besides the model: loss, learning rate, clipping, Adam (section 5 of the paper).

Shapes: B batch, T target length, V vocabulary.
"""

import math

import numpy as np

from . import arguments
from .component import Component, check_names
from .layers import Layer
from .model import TransformerOperation


def log_softmax(logits):
    """x - max - log(sum(exp(x - max))): finite whatever the size of the logits."""
    shifted = logits - logits.max(axis=-1, keepdims=True)
    return shifted - np.log(np.exp(shifted).sum(axis=-1, keepdims=True))


def cross_entropy_forward(logits, labels, real, smoothing):
    """Mean over the real labels of -(sum over classes of wanted * log p); 0 when there are none.

    `wanted` is 1 - smoothing on the label plus smoothing / V on every class.
    """
    log_p = log_softmax(logits)  # (B, T, V)
    losses = -np.take_along_axis(log_p, labels[..., None], axis=-1)[..., 0]  # (B, T)
    if smoothing:
        losses = (1 - smoothing) * losses - smoothing * log_p.mean(axis=-1)
    count = max(int(real.sum()), 1)
    return np.where(real, losses, 0).sum() / count, (log_p, labels, real, smoothing, count)


def cross_entropy_backward(dloss, cache):
    """(p - wanted) / count at the real labels, nothing at padding."""
    log_p, labels, real, smoothing, count = cache
    dlogits = np.exp(log_p) - smoothing / log_p.shape[-1]
    at_label = labels[..., None] == np.arange(log_p.shape[-1])
    dlogits = np.where(at_label, dlogits - (1 - smoothing), dlogits)
    return np.where(real[..., None], dlogits, 0) * (dloss / count)


class Loss(Component):
    """Cross-entropy of logits (B, T, V) and labels (B, T); labels that are padding do not count."""

    def __init__(self, config, dtype, rng):
        arguments.rate("label_smoothing", config.label_smoothing)
        super().__init__(Layer(), dtype)
        self.pad_id, self.smoothing = config.pad_id, float(config.label_smoothing)

    def run(self, rng, *, logits, labels):
        logits = arguments.real_array("logits", logits, self.dtype, rank=3)
        arguments.require(logits.shape[-1] > 0, "logits.shape", logits.shape, "has no classes", "give some")
        labels = arguments.id_array("labels", labels, logits.shape[-1])
        fits = labels.shape == logits.shape[:2]
        remedy = f"give {logits.shape[:2]}"
        arguments.require(fits, "labels.shape", labels.shape, f"does not fit logits {logits.shape}", remedy)
        loss, cache = cross_entropy_forward(logits, labels, labels != self.pad_id, self.smoothing)
        return {"loss": np.asarray(loss, self.dtype)}, cache

    def back(self, cotangent, cache):
        return {"logits": cross_entropy_backward(cotangent("loss"), cache)}


class LearningRate:
    """The rate of a step, counted from 1: linear warmup, then inverse square root or half a cosine."""

    def __init__(self, config, dtype, rng):
        arguments.schedule(config)
        self.config = config

    def __call__(self, step):
        arguments.require(
            arguments.is_integer(step) and step >= 1, "step", step, "is not a step", "count from 1"
        )
        return self._cosine(int(step)) if self.config.schedule == "cosine" else self._inverse_sqrt(int(step))

    def _inverse_sqrt(self, step):
        """d_model^-0.5 min(step^-0.5, step warmup^-1.5): the two meet at step == warmup."""
        warmup = self.config.warmup
        rising = step * warmup**-1.5 if warmup else math.inf
        return self.config.d_model**-0.5 * min(step**-0.5, rising)

    def _cosine(self, step):
        c = self.config
        if step < c.warmup:
            return c.peak_rate * step / c.warmup
        if step >= c.total_steps:
            return c.peak_rate if step == c.warmup else c.floor_rate
        progress = (step - c.warmup) / (c.total_steps - c.warmup)
        return c.floor_rate + (c.peak_rate - c.floor_rate) * (1 + math.cos(math.pi * progress)) / 2


class ClipGradients:
    """All gradients times one factor, so that their common norm is at most clip_norm; 1 if it is already."""

    def __init__(self, config, dtype, rng):
        limit = config.clip_norm
        positive = limit == math.inf or (arguments.is_number(limit) and limit > 0)
        arguments.require(positive, "clip_norm", limit, "is not a positive number", "try 1.0")
        self.limit = float(limit)

    def __call__(self, gradients):
        norm = math.sqrt(sum(float(np.square(g, dtype=np.float64).sum()) for g in gradients.values()))
        factor = self.limit / norm if norm > self.limit else 1.0
        return {name: gradient * factor for name, gradient in gradients.items()}


class Adam:
    """Adam with the paper's beta 0.9 and 0.98, epsilon 1e-9 and no decay, over a transformer's parameters."""

    beta1, beta2, epsilon = 0.9, 0.98, 1e-9

    def __init__(self, config, dtype, rng):
        self.model = TransformerOperation(config, dtype, rng)
        self.dtype = dtype
        self._forget(self.model.parameters())

    def parameters(self):
        return {name: value.copy() for name, value in self.values.items()}

    def load(self, parameters):
        """Set the parameters and forget the moments."""
        self.model.load(parameters)
        self._forget(self.model.parameters())

    def _forget(self, values):
        self.values, self.count = values, 0
        self.mean = {name: np.zeros_like(value) for name, value in values.items()}
        self.square = {name: np.zeros_like(value) for name, value in values.items()}

    def step(self, gradients, rate):
        """Both moments start at zero; dividing by 1 - beta^t takes that bias out."""
        check_names(gradients, self.values)
        self.count += 1
        debias1, debias2 = 1 - self.beta1**self.count, 1 - self.beta2**self.count
        for name, value in self.values.items():
            g = np.asarray(gradients[name], self.dtype)
            self.mean[name] = self.beta1 * self.mean[name] + (1 - self.beta1) * g
            self.square[name] = self.beta2 * self.square[name] + (1 - self.beta2) * g * g
            root = np.sqrt(self.square[name] / debias2) + self.epsilon
            self.values[name] = value - float(rate) * (self.mean[name] / debias1) / root
