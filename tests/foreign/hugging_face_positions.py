"""Positions of Hugging Face's models behind the contract: their functions, called as their models call them.

`attest run --impl tests/foreign/hugging_face_positions.py -m M7` judges them; it needs `transformers`.
"""

from typing import ClassVar

import pluggy
import torch
from transformers import LlamaConfig
from transformers.models.bloom.modeling_bloom import build_alibi_tensor
from transformers.models.gptj import modeling_gptj as gptj
from transformers.models.llama import modeling_llama as llama
from transformers.models.mpt.modeling_mpt import build_mpt_alibi_tensor
from transformers.models.t5.modeling_t5 import T5Attention

from attest.adapters.rope import rope_parameters
from attest.adapters.torch import TorchComponent
from attest.contract.operations.positions import SCALING_FIELDS


def turned_by_llama(c, x, positions):
    """x (B, H, T, d)."""
    _, heads, _, d = x.shape
    rope = {**rope_parameters(c), "rope_theta": c.rotary_base}
    config = LlamaConfig(hidden_size=heads * d, num_attention_heads=heads, head_dim=d, rope_parameters=rope)
    cos, sin = llama.LlamaRotaryEmbedding(config)(x, positions)
    return llama.apply_rotary_pos_emb(x, x, cos, sin)[0]


def turned_by_gptj(fraction, x, positions):
    """As GPTJAttention does: heads behind the length, the leading rotary_dim features turned."""
    dim = round(x.shape[-1] * fraction)  # their rotary_dim, a whole number
    if dim != x.shape[-1] * fraction or not dim:
        raise ValueError(f"rotary_fraction={fraction} of {x.shape[-1]} features is no whole number of them")
    table = gptj.create_sinusoidal_positions(int(positions.max()) + 1, dim)
    sin, cos = table[positions].chunk(2, dim=-1)
    heads_last = x.transpose(1, 2)
    turned = gptj.apply_rotary_pos_emb(heads_last[..., :dim], sin, cos)
    return torch.cat([turned, heads_last[..., dim:]], dim=-1).transpose(1, 2)


class Llama:
    name = "hf_llama"
    dtypes = ("float32",)
    supports = ({"operations": ("rotary",), "rotary_base": "any"},)

    def rotary(self, config):
        call = lambda _, x, positions: turned_by_llama(config, x, positions)  # noqa: E731
        return TorchComponent(torch.nn.Identity(), config, call=call)


class ScaledLlama(Llama):
    """The same with the rules that slow angles down: linear, yarn and llama3."""

    name = "hf_llama_scaled"
    supports = ({"operations": ("rotary",), "rotary_base": "any", **dict.fromkeys(SCALING_FIELDS, "any")},)


class LlamaInFloat64(Llama):
    """The same without saying that its table is made in float32."""

    name = "hf_llama_float64"
    dtypes = ("float32", "float64")


class GptJ:
    name = "hf_gptj"
    dtypes = ("float32",)
    supports = ({"operations": ("rotary",), "rotary_fraction": "any"},)
    only: ClassVar = {"rotary_pairing": ("interleaved",)}

    def rotary(self, config):
        call = lambda _, x, positions: turned_by_gptj(config.rotary_fraction, x, positions)  # noqa: E731
        return TorchComponent(torch.nn.Identity(), config, call=call)


class Bloom:
    name = "hf_bloom"

    def alibi_slopes(self, num_heads):
        """The bias at the second of two positions."""
        return build_alibi_tensor(torch.ones(1, 2, dtype=torch.long), num_heads, torch.float32)[
            :, 0, 1
        ].numpy()


class Mpt:
    name = "hf_mpt"

    def alibi_slopes(self, num_heads):
        """How far the bias rises from the key before the last to the last."""
        bias = build_mpt_alibi_tensor(num_heads, 2)
        return (bias[:, 0, 1] - bias[:, 0, 0]).numpy()


class T5:
    name = "hf_t5"

    def relative_buckets(self, offsets, buckets, distance, causal=False):
        found = T5Attention._relative_position_bucket(torch.as_tensor(offsets), not causal, buckets, distance)
        return found.numpy()


@pluggy.HookimplMarker("attest")
def attest_implementations():
    return [Llama(), ScaledLlama(), LlamaInFloat64(), GptJ(), Bloom(), Mpt(), T5()]
