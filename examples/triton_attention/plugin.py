"""Attention in Triton, judged. Without a GPU: TRITON_INTERPRET=1 pytest --impl=plugin.py --milestone M1"""

import pluggy
import torch
from attention import GroupedHeads, attend

from attest.adapters.torch import TorchComponent, seeded


class TritonAttention:
    """`--impl=plugin.py,precision=tf32` multiplies as tl.dot does by default."""

    name = "triton_attention"
    dtypes = ("float32",)
    supports = ({"num_kv_heads": "any", "operations": ("self_attention",)},)
    options = ()

    @property
    def precision(self):
        return dict(self.options).get("precision", "ieee")

    def attention(self, config):
        def call(_, q, k, v, mask=None, causal=False):
            return attend(q, k, v, mask, causal, self.precision)

        return TorchComponent(torch.nn.Identity(), config, call=call)

    def self_attention(self, config):
        with seeded(config.seed, config.device):
            layer = GroupedHeads(
                config.d_model, config.num_heads, config.kv_heads, config.d_head, config.bias, self.precision
            )
        return TorchComponent(layer, config)


@pluggy.HookimplMarker("attest")
def attest_implementations():
    return [TritonAttention()]
