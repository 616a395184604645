"""Equinox and jax.nn: rotary positions, RMSNorm, and attention with fewer key heads. Gradients are JAX's.

`attest run --impl examples/jax_equinox.py -m M7 -m M8 -m M9` judges them; it needs `pip install equinox`.
"""

from typing import ClassVar

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pluggy

from attest.contract import Gradients


class Pure:
    """A function of parameters and inputs behind the contract."""

    def __init__(self, function, shapes):
        self.function, self.held = function, {n: jnp.zeros(s, jnp.float32) for n, s in shapes.items()}

    def __call__(self, **inputs):
        return {"output": np.array(self.function(self.held, **inputs))}

    def parameters(self):
        return {name: np.array(value) for name, value in self.held.items()}

    def load(self, parameters):
        if jax.tree.map(np.shape, dict(parameters)) != jax.tree.map(np.shape, self.held):
            raise ValueError("parameters must have the names and shapes of parameters()")
        self.held = jax.tree.map(jnp.array, dict(parameters))

    def buffers(self):
        return {}

    def gradients(self, inputs, cotangents):
        floats = {n: jnp.array(x) for n, x in inputs.items() if np.asarray(x).dtype.kind == "f"}
        _, pull = jax.vjp(lambda p, x: self.function(p, **{**inputs, **x}), self.held, floats)
        return Gradients(*jax.tree.map(np.array, pull(jnp.array(cotangents["output"]))[::-1]))


class Equinox:
    name = "equinox"
    packages = ("equinox", "jax")
    sizes: ClassVar = {"num_kv_heads": "any", "head_width": "any", "window": "any"}
    supports = {"operations": ("rotary",), "rotary_base": "any"}, {"operations": ("self_attention",), **sizes}
    only: ClassVar = {"positions": ("none",), "rotary_pairing": ("halves",), "bias": (False,)}

    def rotary(self, c):
        def turned(_, x, positions):
            turn = eqx.nn.RotaryPositionalEmbedding(x.shape[-1], theta=c.rotary_base)
            rows = jnp.zeros((int(np.max(positions)) + 1, x.shape[-1]))  # it turns rows 0, 1, 2 ... only
            of_heads = jax.vmap(lambda x, p: turn(rows.at[p].set(x))[p], (0, None))
            return jax.vmap(of_heads)(x, jnp.broadcast_to(positions, (len(x), x.shape[2])))

        return Pure(turned, {})

    def rms_norm(self, c):
        norm = eqx.nn.RMSNorm(c.d_model, eps=c.norm_eps, use_bias=False)
        at = lambda p: eqx.tree_at(lambda n: n.weight, norm, p["weight"])  # noqa: E731
        return Pure(lambda p, x: jax.vmap(jax.vmap(at(p)))(x), {"weight": (c.d_model,)})

    def self_attention(self, c):
        heads = {"query": c.num_heads, "key": c.kv_heads, "value": c.kv_heads}
        near = c.window and (c.window - 1, 0)

        def attended(p, x, mask=None, positions=None, causal=False):
            q, k, v = ((x @ p[f"{n}.weight"].T).reshape(*x.shape[:2], h, c.d_head) for n, h in heads.items())
            shown = None if mask is None else jnp.array(mask)[:, None]
            y = jax.nn.dot_product_attention(q, k, v, mask=shown, is_causal=causal, local_window_size=near)
            return y.reshape(*x.shape[:2], -1) @ p["output.weight"].T

        shapes = {"output.weight": (c.d_model, c.num_heads * c.d_head)}
        return Pure(attended, shapes | {f"{n}.weight": (h * c.d_head, c.d_model) for n, h in heads.items()})


@pluggy.HookimplMarker("attest")
def attest_implementations():
    return [Equinox()]
