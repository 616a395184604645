"""Peers that complete prompts with the weights of `shapes.parameters`: the same numbers in their own format.

Each takes the class of transformers as it is made from the family's file, and what it needs of it.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from functools import cache
from pathlib import Path
from typing import Any
from urllib.request import Request, urlopen

import numpy as np

from attest.bench.entrants import Run
from attest.bench.shapes import SHAPES, TextShape, parameters
from attest.bench.workloads import Workload
from attest.contract import Array
from attest.families import family_named
from attest.outcomes import NotOffered

UNSEEN = "only completing a prompt is compared"
GGUF = "model.gguf"
SLOTS = 16  # rows that llama.cpp takes at a time: the largest batch of a workload
LONGEST = 600  # seconds for one request


def hugging_face(work: Workload, cache: str) -> Run:
    """`generate` of transformers, with a dynamic or a static cache."""
    if work.kind != "complete":
        raise NotOffered(UNSEEN)
    import torch

    model, prompt = _llama(work.shape), torch.tensor(work.given)
    lengths = {"min_new_tokens": work.tokens, "max_new_tokens": work.tokens}
    chosen = {"cache_implementation": "static"} if cache == "static" else {}

    def run() -> Array:
        with torch.inference_mode():
            written = model.generate(
                prompt,
                attention_mask=torch.ones_like(prompt),
                do_sample=False,
                disable_compile=True,
                **lengths,
                **chosen,
            )
        return np.asarray(written[:, work.length :])

    return run


def ctranslate2(work: Workload, threads: int) -> Run:
    """CTranslate2's generator in float32."""
    if work.kind != "complete":
        raise NotOffered(UNSEEN)
    generator = _generator(work.shape, threads)
    prompt = [[str(i) for i in row] for row in work.given]

    def run() -> Array:
        written = generator.generate_batch(
            prompt,
            max_length=work.tokens,
            min_length=work.tokens,
            sampling_topk=1,
            include_prompt_in_result=False,
        )
        return np.array([row.sequences_ids[0] for row in written])

    return run


def llama_cpp(work: Workload, threads: int) -> Run:
    """llama.cpp's server, asked over the loopback address of its own process; rows share its batches."""
    if work.kind != "complete":
        raise NotOffered(UNSEEN)
    address = _llama_cpp_server(work.shape, threads).listening_address
    asked = {
        "prompt": work.given.tolist() if work.B > 1 else work.given[0].tolist(),
        "n_predict": work.tokens,
        "temperature": 0,
        "samplers": ["top_k"],
        "top_k": 1,
        "ignore_eos": True,
        "return_tokens": True,
        "cache_prompt": False,  # each run reads the prompt again
    }
    request = Request(
        f"{address}/completion", json.dumps(asked).encode(), {"Content-Type": "application/json"}
    )

    def run() -> Array:
        with urlopen(request, timeout=LONGEST) as answer:
            said = json.load(answer)
        rows = sorted(said if isinstance(said, list) else [said], key=lambda row: int(row["index"]))
        return np.array([row["tokens"] for row in rows])

    return run


def onnx_runtime(work: Workload, threads: int) -> Run:
    """ONNX Runtime GenAI with the graph that its builder makes, in float32."""
    if work.kind != "complete":
        raise NotOffered(UNSEEN)
    import onnxruntime_genai

    model = _onnx_model(work.shape, threads)
    length = work.length + work.tokens

    def run() -> Array:
        asked = onnxruntime_genai.GeneratorParams(model)
        asked.set_search_options(max_length=length, min_length=length, do_sample=False, batch_size=work.B)
        generator = onnxruntime_genai.Generator(model, asked)
        generator.append_tokens(work.given.astype(np.int32))
        for _ in range(work.tokens):
            generator.generate_next_token()
        return np.array([generator.get_sequence(row)[work.length :] for row in range(work.B)])

    return run


@cache
def _llama(shape: TextShape) -> Any:
    from attest.adapters.huggingface import TransformersModel

    component = TransformersModel(family_named("llama"), shape.config, "sdpa")
    component.load(parameters(shape))
    return component.module.eval()


def _converted(call: str, shape: TextShape, directory: str) -> None:
    """Convert in a process of its own: torch's threads would slow down whoever reads the result."""
    code = f"from attest.bench import text_peers; text_peers.{call}({shape.name!r}, {directory!r})"
    subprocess.run([sys.executable, "-c", code], check=True, capture_output=True)


@cache
def _generator(shape: TextShape, threads: int) -> Any:
    import ctranslate2

    with tempfile.TemporaryDirectory() as directory:
        _converted("write_for_ctranslate2", shape, directory)
        return ctranslate2.Generator(
            directory, device="cpu", compute_type="float32", inter_threads=1, intra_threads=threads
        )


def write_for_ctranslate2(shape_name: str, directory: str) -> None:
    """The model of a shape in CTranslate2's format."""
    from ctranslate2.converters.transformers import LlamaLoader

    shape = _text_shape(shape_name)
    spec = LlamaLoader().get_model_spec(_llama(shape))
    spec.register_vocabulary([str(i) for i in range(shape.vocab)])
    spec.config.bos_token, spec.config.eos_token, spec.config.unk_token = "1", "2", "0"
    spec.config.layer_norm_epsilon = shape.config.norm_eps
    spec.validate()
    spec.optimize(quantization=None)
    spec.save(directory)


def _text_shape(name: str) -> TextShape:
    shape = SHAPES[name]
    assert isinstance(shape, TextShape)
    return shape


@cache
def _llama_cpp_server(shape: TextShape, threads: int) -> Any:
    import xllamacpp

    with tempfile.TemporaryDirectory() as directory:
        _converted("write_for_llama_cpp", shape, directory)
        asked = xllamacpp.CommonParams()
        asked.model.path = str(Path(directory) / GGUF)
        asked.n_parallel, asked.n_ctx = SLOTS, SLOTS * shape.max_len
        asked.cpuparams.n_threads = asked.cpuparams_batch.n_threads = threads
        asked.cache_type_k = asked.cache_type_v = xllamacpp.ggml_type.GGML_TYPE_F32  # float16 otherwise
        asked.verbosity = -1
        return xllamacpp.Server(asked)


@cache
def _onnx_model(shape: TextShape, threads: int) -> Any:
    import onnxruntime_genai

    with tempfile.TemporaryDirectory() as directory:
        _converted("write_for_onnx_runtime", shape, directory)
        written = Path(directory) / "onnx" / "genai_config.json"
        config = json.loads(written.read_text())
        config["model"]["decoder"]["session_options"]["intra_op_num_threads"] = threads
        written.write_text(json.dumps(config))
        return onnxruntime_genai.Model(str(written.parent))


def write_for_onnx_runtime(shape_name: str, directory: str) -> None:
    """The model of a shape saved by transformers, with a vocabulary, then made by ONNX Runtime's builder."""
    from tokenizers import Tokenizer, models

    saved, made = Path(directory) / "saved", Path(directory) / "onnx"
    _llama(_text_shape(shape_name)).save_pretrained(saved)
    # The builder wants a tokenizer; none of it is used, since prompts are given as ids.
    Tokenizer(models.WordLevel({"0": 0, "1": 1, "2": 2}, unk_token="0")).save(str(saved / "tokenizer.json"))
    about = {"tokenizer_class": "PreTrainedTokenizerFast", "unk_token": "0"}
    (saved / "tokenizer_config.json").write_text(json.dumps(about))
    builder = [sys.executable, "-m", "onnxruntime_genai.models.builder", "-p", "fp32", "-e", "cpu"]
    subprocess.run([*builder, "-i", str(saved), "-o", str(made)], check=True, capture_output=True)


def write_for_llama_cpp(shape_name: str, directory: str) -> None:
    """The model of a shape in llama.cpp's format, with a vocabulary of bytes and numbered words."""
    import gguf

    shape = _text_shape(shape_name)
    config, weights = shape.config, parameters(shape)
    writer = gguf.GGUFWriter(str(Path(directory) / GGUF), "llama")
    writer.add_context_length(shape.max_len)
    writer.add_embedding_length(shape.d_model)
    writer.add_block_count(shape.layers)
    writer.add_feed_forward_length(shape.d_ff)
    writer.add_head_count(shape.num_heads)
    writer.add_head_count_kv(shape.num_kv_heads)
    writer.add_rope_dimension_count(config.d_head)
    writer.add_rope_freq_base(config.rotary_base)
    writer.add_layer_norm_rms_eps(config.norm_eps)
    writer.add_vocab_size(shape.vocab)
    bytes_ = [f"<0x{i:02X}>" for i in range(256)]
    words = ["<unk>", "<s>", "</s>", *bytes_]
    words += [f"word{i}" for i in range(len(words), shape.vocab)]
    kinds = gguf.TokenType
    types = [kinds.UNKNOWN, kinds.CONTROL, kinds.CONTROL, *[kinds.BYTE] * 256]
    types += [kinds.NORMAL] * (shape.vocab - len(types))
    writer.add_tokenizer_model("llama")
    writer.add_token_list(words)
    writer.add_token_scores([0.0] * shape.vocab)
    writer.add_token_types(types)
    writer.add_bos_token_id(config.bos_id)
    writer.add_eos_token_id(config.eos_id)
    for canonical, own in GGUF_NAMES.items():
        for i in range(shape.layers if "{i}" in canonical else 1):
            value = weights[canonical.replace("{i}", str(i))]
            if canonical.endswith(("query.weight", "key.weight")):
                value = _interleaved(value, config.d_head)
            writer.add_tensor(own.replace("{i}", str(i)), np.ascontiguousarray(value))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


GGUF_NAMES = {
    "embedding.weight": "token_embd.weight",
    "decoder.{i}.self_attention.query.weight": "blk.{i}.attn_q.weight",
    "decoder.{i}.self_attention.key.weight": "blk.{i}.attn_k.weight",
    "decoder.{i}.self_attention.value.weight": "blk.{i}.attn_v.weight",
    "decoder.{i}.self_attention.output.weight": "blk.{i}.attn_output.weight",
    "decoder.{i}.feed_forward.gate.weight": "blk.{i}.ffn_gate.weight",
    "decoder.{i}.feed_forward.inner.weight": "blk.{i}.ffn_up.weight",
    "decoder.{i}.feed_forward.outer.weight": "blk.{i}.ffn_down.weight",
    "decoder.{i}.norm0.weight": "blk.{i}.attn_norm.weight",
    "decoder.{i}.norm1.weight": "blk.{i}.ffn_norm.weight",
    "decoder.norm.weight": "output_norm.weight",
    "projection.weight": "output.weight",
}


def _interleaved(weight: Array, width: int) -> Array:
    """Rows (h, half, pair) as (h, pair, half): llama.cpp turns neighbours where the family turns halves."""
    heads = weight.reshape(-1, 2, width // 2, weight.shape[1])
    return heads.swapaxes(1, 2).reshape(weight.shape)
