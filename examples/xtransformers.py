"""x-transformers' decoder: interleaved rotary pairs, fewer key heads, RMSNorm, value and gate in one matrix.

`attest run --impl examples/xtransformers.py -m M7 -m M9` judges it; it needs `pip install x-transformers`.
"""

from typing import ClassVar

import pluggy
import torch
from x_transformers import Decoder, TransformerWrapper
from x_transformers.x_transformers import RMSNorm, RotaryEmbedding, apply_rotary_pos_emb

from attest.adapters.torch import TorchComponent, seeded


def names(depth):
    """Attention and feed-forward networks are layers of their own: 0 and 1 are those of our layer 0."""
    found = {"embedding.weight": "token_emb.emb.weight", "decoder.norm.weight": "attn_layers.final_norm.g"}
    for i in range(depth):
        ours, first, second = f"decoder.{i}", f"attn_layers.layers.{2 * i}", f"attn_layers.layers.{2 * i + 1}"
        for part, own in {"query": "q", "key": "k", "value": "v", "output": "out"}.items():
            found[f"{ours}.self_attention.{part}.weight"] = f"{first}.1.to_{own}.weight"
        found[f"{ours}.feed_forward.inner.weight"] = f"{second}.1.ff.0.proj.weight[0/2]"
        found[f"{ours}.feed_forward.gate.weight"] = f"{second}.1.ff.0.proj.weight[1/2]"
        found[f"{ours}.feed_forward.outer.weight"] = f"{second}.1.ff.2.weight"
        found[f"{ours}.norm0.weight"], found[f"{ours}.norm1.weight"] = f"{first}.0.0.g", f"{second}.0.0.g"
    return {**found, "projection.weight": "to_logits.weight"}


def model_of(c):
    layers = Decoder(
        dim=c.d_model, depth=c.num_decoder_layers, heads=c.num_heads, attn_dim_head=c.d_head,
        attn_kv_heads=c.kv_heads, attn_project_out=True, rotary_pos_emb=True, rotary_emb_dim=c.d_head,
        use_rmsnorm=True, ff_glu=True, ff_swish=True, ff_no_bias=True, ff_mult=c.inner_width / c.d_model,
    )  # fmt: skip
    for layer in layers.layers:
        if hasattr(layer[1], "ff"):
            layer[1].ff[0].proj.bias = None  # the gate has one whatever ff_no_bias says
    return TransformerWrapper(num_tokens=c.target_vocab, max_seq_len=c.max_len, attn_layers=layers)


class XTransformers:
    name = "x_transformers"
    description = "TransformerWrapper of x-transformers with rotary positions"
    packages = ("x-transformers", "torch")
    dtypes = ("float32",)
    padding = ("none", "right", "left")
    supports = (
        {"operations": ("rotary",), "rotary_base": "any"},
        {"operations": ("rms_norm",)},
        {"operations": ("language_model",), "num_kv_heads": "any"},
    )
    only: ClassVar = {
        "positions": ("rotary",), "rotary_pairing": ("interleaved",), "norm": ("pre",), "norm_kind": ("rms",),
        "activation": ("silu",), "gated": (True,), "bias": (False,), "scale_embeddings": (False,),
        "tie": (False,), "cache": (False,),
    }  # fmt: skip

    def rotary(self, config):
        def turned(_, x, positions):
            angles, _ = RotaryEmbedding(x.shape[-1], base=config.rotary_base)(positions)
            return apply_rotary_pos_emb(x, angles[:, None])

        return TorchComponent(torch.nn.Identity(), config, call=turned)

    def rms_norm(self, config):
        return TorchComponent(RMSNorm(config.d_model), config, {"weight": "g"})

    def language_model(self, config):
        def logits(model, ids):
            return {"logits": model(ids, mask=None if config.pad_id is None else ids != config.pad_id)}

        with seeded(config.seed):
            return TorchComponent(model_of(config), config, names(config.num_decoder_layers), logits)


@pluggy.HookimplMarker("attest")
def attest_implementations():
    return [XTransformers()]
