"""litgpt's GPT as a port of Llama: one class, its fused map named by its parts.

`attest run --impl examples/lit_gpt.py -m M9` judges it; it needs `pip install litgpt`.
"""

import pluggy
from litgpt.config import Config as LitConfig
from litgpt.model import GPT

from attest.adapters.torch import TorchComponent, seeded

LAYER = "transformer.h.{i}."
NAMES = {
    "embedding.weight": "transformer.wte.weight",
    "decoder.{i}.self_attention.query.weight": f"{LAYER}attn.qkv.weight[q of q,k,v]",
    "decoder.{i}.self_attention.key.weight": f"{LAYER}attn.qkv.weight[k of q,k,v]",
    "decoder.{i}.self_attention.value.weight": f"{LAYER}attn.qkv.weight[v of q,k,v]",
    "decoder.{i}.self_attention.output.weight": f"{LAYER}attn.proj.weight",
    "decoder.{i}.feed_forward.gate.weight": f"{LAYER}mlp.fc_1.weight",
    "decoder.{i}.feed_forward.inner.weight": f"{LAYER}mlp.fc_2.weight",
    "decoder.{i}.feed_forward.outer.weight": f"{LAYER}mlp.proj.weight",
    "decoder.{i}.norm0.weight": f"{LAYER}norm_1.weight",
    "decoder.{i}.norm1.weight": f"{LAYER}norm_2.weight",
    "decoder.norm.weight": "transformer.ln_f.weight",
    "projection.weight": "lm_head.weight",
}


class LitGPT:
    name = "litgpt"
    description = "litgpt.model.GPT as a Llama"
    families = {"llama": {"tie": (False,)}}  # noqa: RUF012  its head has weights of its own
    padding = ("none", "right")  # it takes no mask: what stands behind the text changes nothing
    only = {"cache": (False,)}  # noqa: RUF012  its cache belongs to the module, not to a state
    packages = ("litgpt", "torch")
    dtypes = ("float32",)  # the table of angles is float32

    def language_model(self, config):
        settings = LitConfig(
            block_size=config.max_len, vocab_size=config.target_vocab, padded_vocab_size=config.target_vocab,
            n_layer=config.num_decoder_layers, n_embd=config.d_model, n_head=config.num_heads,
            n_query_groups=config.kv_heads, head_size=config.d_head, intermediate_size=config.inner_width,
            norm_class_name="RMSNorm", norm_eps=config.norm_eps, mlp_class_name="LLaMAMLP", bias=False,
            parallel_residual=False, rotary_percentage=1.0, rope_base=config.rotary_base,
        )  # fmt: skip
        with seeded(config.seed):
            model = GPT(settings)
        return TorchComponent(model, config, NAMES, lambda m, ids: {"logits": m(ids)})


@pluggy.HookimplMarker("attest")
def attest_implementations():
    return [LitGPT()]
