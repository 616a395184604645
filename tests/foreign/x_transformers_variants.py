"""What x-transformers computes beside the Transformer of 2017, behind the contract: its modules, as they are.

attest run --impl tests/foreign/x_transformers_variants.py -m M7 -m M8

Its softmax and its angles are float32 whatever it is given, so it is judged in float32.
"""

from typing import ClassVar

import pluggy
import torch
from x_transformers.x_transformers import (
    AlibiPositionalBias,
    Attention,
    RelativePositionBias,
    RotaryEmbedding,
    apply_rotary_pos_emb,
)

from attest.adapters.torch import TorchComponent


class Rotary:
    """Interleaved pairs of a leading part."""

    name = "x_rotary"
    dtypes = ("float32",)
    supports = (
        {
            "operations": ("rotary",),
            "rotary_base": "any",
            "rotary_fraction": "any",
        },
    )
    only: ClassVar = {"rotary_pairing": ("interleaved",)}

    def rotary(self, config):
        if config.rotary_scaling not in ("none", "linear"):
            raise ValueError(f"rotary_scaling={config.rotary_scaling!r} is neither none nor linear; use one")
        factor = config.rotary_factor if config.rotary_scaling == "linear" else 1.0

        def call(_, x, positions):
            width = round(x.shape[-1] * config.rotary_fraction)
            if width != x.shape[-1] * config.rotary_fraction:
                raise ValueError(f"rotary_fraction={config.rotary_fraction} of {x.shape[-1]} is not whole")
            table = RotaryEmbedding(width, base=config.rotary_base, interpolation_factor=factor)
            angles, scale = table(positions)
            return apply_rotary_pos_emb(x, angles, scale)

        return TorchComponent(torch.nn.Identity(), config, call=call)


class LinearRotary(Rotary):
    """Whole heads, with the rule linear."""

    name = "x_rotary_linear"
    supports = (
        {
            "operations": ("rotary",),
            "rotary_base": "any",
            "rotary_scaling": ("linear",),
            "rotary_factor": "any",
        },
    )


class Alibi:
    name = "x_alibi"

    def alibi_slopes(self, num_heads):
        """How far the bias falls over one position."""
        bias = AlibiPositionalBias(num_heads)(2, 2)  # (H, 2, 2)
        return -bias.reshape(-1, 2, 2)[:, 1, 0].numpy()


class Buckets:
    name = "x_buckets"

    def relative_buckets(self, offsets, buckets, distance, causal=False):
        given = torch.as_tensor(offsets)
        return RelativePositionBias._relative_position_bucket(given, causal, buckets, distance).numpy()


class Heads:
    """`Attention` with heads of a width of their own, a cap and sinks."""

    name = "x_heads"
    dtypes = ("float32",)
    only: ClassVar = {"bias": (False,)}
    supports = (
        {
            "operations": ("self_attention",),
            "head_width": "any",
            "score_cap": "any",
            "sinks": (True,),
        },
    )

    def self_attention(self, config):
        module = Attention(
            config.d_model,
            dim_head=config.d_head,
            heads=config.num_heads,
            kv_heads=config.kv_heads,
            softclamp_logits=config.score_cap is not None,
            logit_softclamp_value=config.score_cap or 50.0,
            head_learned_sink=config.sinks,
            project_out=True,
        )
        names = {"query.weight": "to_q.weight", "key.weight": "to_k.weight", "value.weight": "to_v.weight"}
        names |= {"output.weight": "to_out.weight"}
        names |= {"sinks.weight": "attend.head_attn_sink"} if config.sinks else {}
        return TorchComponent(module, config, names, attend)


class GroupedHeads(Heads):
    """The same with fewer key heads than query heads."""

    name = "x_grouped"
    supports = ({"operations": ("self_attention",), "num_kv_heads": "any"},)


def attend(module, x, mask=None, positions=None, causal=False):
    """One mask for everything that hides; positions change nothing here."""
    T = x.shape[1]
    allowed = torch.ones(1, T, T, dtype=torch.bool) if mask is None else mask.reshape(-1, *mask.shape[-2:])
    if causal:
        allowed = allowed & torch.ones(T, T, dtype=torch.bool).tril()
    return module(x, attn_mask=allowed[:, None].expand(-1, 1, T, T))


@pluggy.HookimplMarker("attest")
def attest_implementations():
    return [Rotary(), LinearRotary(), Alibi(), Buckets(), Heads(), GroupedHeads()]
