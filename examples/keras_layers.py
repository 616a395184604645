"""Layers of keras on its torch backend: grouped attention, RMSNorm. Kernels are (in, heads, width).

`attest run --impl examples/keras_layers.py -m M8 -m M9` judges them; it needs `pip install keras`.
"""

import os
from typing import ClassVar

os.environ.setdefault("KERAS_BACKEND", "torch")

import keras
import numpy as np
import pluggy


class Layer:
    """A keras layer behind the contract. `kernels` says for each canonical name how its array is stored."""

    def __init__(self, layer, shape, kernels, call):
        layer.build(*shape)
        self.layer, self.kernels, self.call = layer, kernels, call

    def __call__(self, **inputs):
        return {"output": keras.ops.convert_to_numpy(self.call(self.layer, **inputs))}

    def parameters(self):
        held = self.layer.get_weights()
        return {name: theirs(held[i], back=True) for name, (i, theirs) in self.kernels.items()}

    def load(self, parameters):
        if parameters.keys() != self.kernels.keys():
            raise ValueError(f"parameters={sorted(parameters)} must be {sorted(self.kernels)}")
        held = self.layer.get_weights()
        for name, (i, theirs) in self.kernels.items():
            held[i] = np.asarray(theirs(parameters[name])).reshape(held[i].shape)
        self.layer.set_weights(held)

    def buffers(self):
        return {}


def plain(array, back=False):
    return array


def turned(array, back=False):
    """Ours are (out, in), theirs (in, heads, width)."""
    return array.reshape(array.shape[0], -1).T if back else array.T


def turned_output(array, back=False):
    return array.reshape(-1, array.shape[-1]).T if back else array.T


class Keras:
    name = "keras"
    description = "layers of keras 3 on torch"
    packages = ("keras", "torch")
    dtypes = ("float32",)
    supports = ({"operations": ("self_attention",), "num_kv_heads": "any", "head_width": "any"},)
    only: ClassVar = {"positions": ("none",), "bias": (False,)}

    def rms_norm(self, c):
        layer = keras.layers.RMSNormalization(epsilon=c.norm_eps)
        return Layer(layer, [(None, None, c.d_model)], {"weight": (0, plain)}, lambda m, x: m(x))

    def self_attention(self, c):
        layer = keras.layers.GroupQueryAttention(c.d_head, c.num_heads, c.kv_heads, use_bias=False)
        parts = ("query", "key", "value", "output")
        kernels = {f"{n}.weight": (i, turned_output if i == 3 else turned) for i, n in enumerate(parts)}

        def call(m, x, mask=None, positions=None, causal=False):
            return m(x, x, attention_mask=mask, use_causal_mask=causal)

        return Layer(layer, [(1, 4, c.d_model)] * 2, kernels, call)


@pluggy.HookimplMarker("attest")
def attest_implementations():
    return [Keras()]
