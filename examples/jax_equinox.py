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
        given, wanted = ({n: np.shape(v) for n, v in p.items()} for p in (parameters, self.held))
        if given != wanted:
            raise ValueError(f"parameters={given} must be {wanted}")
        self.held = {name: jnp.array(value) for name, value in parameters.items()}

    def buffers(self):
        return {}

    def gradients(self, inputs, cotangents):
        floats = {n: jnp.array(x) for n, x in inputs.items() if np.asarray(x).dtype.kind == "f"}
        rest = {n: x for n, x in inputs.items() if n not in floats}
        _, pull = jax.vjp(lambda p, x: self.function(p, **x, **rest), self.held, floats)
        of_parameters, of_inputs = pull(jnp.array(cotangents["output"]))
        return Gradients(*({n: np.array(v) for n, v in g.items()} for g in (of_inputs, of_parameters)))


class Equinox:
    name = "equinox"
    description = "layers of equinox and jax.nn"
    packages = ("equinox", "jax")
    dtypes = ("float32",)
    supports = (
        {"operations": ("rotary",), "rotary_base": "any"},
        {"operations": ("self_attention",), "num_kv_heads": "any", "head_width": "any", "window": "any"},
    )
    only: ClassVar = {"positions": ("none",), "rotary_pairing": ("halves",), "bias": (False,)}

    def rotary(self, c):
        def turned(_, x, positions):
            turn = eqx.nn.RotaryPositionalEmbedding(x.shape[-1], theta=c.rotary_base)
            whole = jnp.zeros((int(np.max(positions)) + 1, x.shape[-1]))  # it turns rows 0, 1, 2 ... only
            place = lambda x, p: turn(whole.at[p].set(x))[p]  # noqa: E731
            return jax.vmap(jax.vmap(place, (0, None)))(x, jnp.broadcast_to(positions, (len(x), x.shape[2])))

        return Pure(turned, {})

    def rms_norm(self, c):
        def normed(p, x):
            norm = eqx.nn.RMSNorm(c.d_model, eps=c.norm_eps, use_bias=False)
            norm = eqx.tree_at(lambda n: n.weight, norm, p["weight"])
            return jax.vmap(jax.vmap(norm))(x)

        return Pure(normed, {"weight": (c.d_model,)})

    def self_attention(self, c):
        def attended(p, x, mask=None, positions=None, causal=True):
            heads = lambda name, n: (x @ p[f"{name}.weight"].T).reshape(*x.shape[:2], n, c.d_head)  # noqa: E731
            q, k, v = heads("query", c.num_heads), heads("key", c.kv_heads), heads("value", c.kv_heads)
            shown = None if mask is None else jnp.array(mask)[:, None]
            window = None if c.window is None else (c.window - 1, 0 if causal else c.window - 1)
            y = jax.nn.dot_product_attention(q, k, v, mask=shown, is_causal=causal, local_window_size=window)
            return y.reshape(*x.shape[:2], -1) @ p["output.weight"].T

        wide, narrow = c.num_heads * c.d_head, c.kv_heads * c.d_head
        rows = {"query": wide, "key": narrow, "value": narrow}
        shapes = {f"{n}.weight": (r, c.d_model) for n, r in rows.items()}
        return Pure(attended, {**shapes, "output.weight": (c.d_model, wide)})


@pluggy.HookimplMarker("attest")
def attest_implementations():
    return [Equinox()]
