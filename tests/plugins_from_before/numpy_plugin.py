"""Pieces of a Transformer in numpy for the contract of version 0.1.0. It must keep running as it is.

Nothing of attest is imported: components, gradients and declarations are told by their attributes alone.
"""

import numpy as np


def attention(q, k, v, mask=None, causal=False):
    if min(q.ndim, k.ndim, v.ndim) < 2 or k.shape[-2] != v.shape[-2] or k.shape[-2] == 0:
        raise ValueError(f"k {k.shape} and v {v.shape} need one value per key")
    if q.shape[-1] != k.shape[-1] or not q.shape[:-2] == k.shape[:-2] == v.shape[:-2]:
        raise ValueError(f"q {q.shape}, k {k.shape} and v {v.shape} do not go together")
    scores = q @ np.swapaxes(k, -1, -2) / np.sqrt(np.array(q.shape[-1], q.dtype))
    allowed = np.ones(scores.shape, bool) if mask is None else np.broadcast_to(mask, scores.shape)
    if causal:
        allowed = allowed & causal_mask(*scores.shape[-2:])
    highest = np.max(scores, axis=-1, keepdims=True, where=allowed, initial=np.finfo(scores.dtype).min)
    powers = np.where(allowed, np.exp(np.where(allowed, scores - highest, 0)), 0)
    total = powers.sum(-1, keepdims=True)
    weights = powers / np.where(total == 0, 1, total)
    return {"output": weights @ np.where(allowed.any(-2)[..., None], v, 0), "weights": weights}


def causal_mask(T, S):
    return np.tri(T, S, S - T, dtype=bool)


class Found:
    """What `gradients` returns."""

    def __init__(self, inputs, parameters):
        self.inputs, self.parameters = inputs, parameters


class LayerNorm:
    def __init__(self, config):
        self.eps, dtype = config.norm_eps, np.float64 if config.dtype == "float64" else np.float32
        if config.d_model < 1:
            raise ValueError(f"d_model={config.d_model} is not positive")
        self.learned = {"weight": np.ones(config.d_model, dtype), "bias": np.zeros(config.d_model, dtype)}

    def __call__(self, x):
        if x.ndim != 3 or x.shape[-1] != self.learned["weight"].size:
            raise ValueError(f"x {x.shape} is not (B, T, {self.learned['weight'].size})")
        return {"output": self._normalised(x)[0] * self.learned["weight"] + self.learned["bias"]}

    def _normalised(self, x):
        centred = x - x.mean(-1, keepdims=True)
        root = np.sqrt(np.square(centred).mean(-1, keepdims=True) + self.eps)
        return centred / root, root

    def gradients(self, inputs, cotangents):
        g = cotangents["output"]
        n, root = self._normalised(inputs["x"])
        gn = g * self.learned["weight"]
        along = (gn * n).mean(-1, keepdims=True)
        by_parameter = {"weight": (g * n).sum((0, 1)), "bias": g.sum((0, 1))}
        return Found({"x": (gn - gn.mean(-1, keepdims=True) - n * along) / root}, by_parameter)

    def parameters(self):
        return {name: value.copy() for name, value in self.learned.items()}

    def load(self, parameters):
        self.learned = {name: np.array(parameters[name]) for name in self.learned}

    def buffers(self):
        return {}

    def train(self, seed):
        pass

    def eval(self):
        pass


class Adam:
    def __init__(self, config):
        self.load({"weight": np.zeros((3, 2), np.float64 if config.dtype == "float64" else np.float32)})

    def parameters(self):
        return {name: value.copy() for name, value in self.values.items()}

    def load(self, parameters):
        self.values = {name: np.array(value) for name, value in parameters.items()}
        self.first = {name: np.zeros_like(value) for name, value in self.values.items()}
        self.second = {name: np.zeros_like(value) for name, value in self.values.items()}
        self.count = 0

    def step(self, gradients, rate):
        self.count += 1
        for name, g in gradients.items():
            self.first[name] = self.first[name] * 0.9 + g * (1 - 0.9)
            self.second[name] = self.second[name] * 0.98 + np.square(g) * (1 - 0.98)
            mean = self.first[name] / (1 - 0.9**self.count)
            root = np.sqrt(self.second[name] / (1 - 0.98**self.count))
            self.values[name] = self.values[name] - (rate * mean / (root + 1e-9)).astype(g.dtype)


class NumpyFromBefore:
    name = "numpy_from_before"
    description = "pieces of the time of version 0.1.0"
    dtypes = ("float32", "float64")

    def attention(self, config):
        return attention

    def length_mask(self, lengths, size):
        return (np.arange(size) < np.asarray(lengths)[:, None])[:, None]

    def padding_mask(self, ids, pad_id):
        return (np.asarray(ids) != pad_id)[:, None]

    def causal_mask(self, T, S):
        return causal_mask(T, S)

    def layer_norm(self, config):
        return LayerNorm(config)

    def learning_rate(self, config):
        if config.schedule != "inverse_sqrt":
            raise NotImplementedError("inverse square root only")
        slope = config.warmup**-1.5 if config.warmup else np.inf
        return lambda step: config.d_model**-0.5 * min(step**-0.5, step * slope)

    def clip_gradients(self, config):
        def clip(gradients):
            squares = sum(np.square(g, dtype=np.float64).sum() for g in gradients.values())
            factor = min(1.0, config.clip_norm / max(np.sqrt(squares), 1e-300))
            return {name: (g * factor).astype(g.dtype) for name, g in gradients.items()}

        return clip

    def optimizer(self, config):
        return Adam(config)

    def next_token_distribution(self, logits, temperature=1.0, top_k=None, top_p=None):
        if not np.isfinite(temperature) or temperature < 0:
            raise ValueError(f"temperature={temperature} is not a finite number from 0")
        if temperature < 1e-6:
            return np.eye(logits.shape[-1], dtype=logits.dtype)[logits.argmax(-1)]
        powers = np.exp((logits - logits.max(-1, keepdims=True)).astype(np.float64) / temperature)
        return (powers / powers.sum(-1, keepdims=True)).astype(logits.dtype)


def attest_implementations():
    return [NumpyFromBefore()]
