"""Peers of the same shape with random weights: nothing is downloaded. What is not installed is named."""

from __future__ import annotations

import subprocess
import sys
import tempfile
from collections.abc import Callable
from functools import cache, partial
from importlib.util import find_spec
from typing import Any

import numpy as np

from attest.bench import text_peers
from attest.bench.entrants import Entrant, Run
from attest.bench.shapes import BASE, SMALL, Shape
from attest.bench.workloads import Workload
from attest.outcomes import NotOffered


def peers(threads: int) -> tuple[list[Entrant], list[str]]:
    """Those that can take part, and one sentence for each that cannot."""
    transformers = ("torch", "transformers")
    needs: dict[str, tuple[tuple[str, ...], Callable[[Workload], Run]]] = {
        "nn.Transformer": (("torch",), _torch_transformer),
        "Marian": (transformers, _marian),
        "Hugging Face": (transformers, partial(text_peers.hugging_face, cache="dynamic")),
        "Hugging Face, static cache": (transformers, partial(text_peers.hugging_face, cache="static")),
        "CTranslate2": ((*transformers, "ctranslate2"), partial(_ctranslate2, threads=threads)),
        "llama.cpp": (
            (*transformers, "xllamacpp", "gguf"),
            partial(text_peers.llama_cpp, threads=threads),
        ),
        "ONNX Runtime": (
            (*transformers, "onnxruntime_genai", "onnx_ir"),
            partial(text_peers.onnx_runtime, threads=threads),
        ),
    }
    found, missing = [], []
    for name, (packages, prepare) in needs.items():
        absent = [package for package in packages if find_spec(package) is None]
        if absent:
            lacking = " and ".join(absent)
            missing.append(f"{name} takes no part without {lacking}; install attest-transformers[bench]")
        else:
            found.append(Entrant(name, prepare, peer=True))
    return found, missing


def _torch_transformer(work: Workload) -> Run:
    """A training step of torch.nn.Transformer with torch's own loss, clipping and Adam."""
    if work.kind != "train":
        raise NotOffered("it has no positions, no vocabulary and no generation")
    import torch
    from torch import nn

    shape = work.shape
    torch.manual_seed(0)
    body = nn.Transformer(
        shape.d_model, shape.num_heads, shape.layers, shape.layers, shape.d_ff, 0.1, batch_first=True
    )
    tables = nn.ModuleList(nn.Embedding(shape.vocab, shape.d_model, padding_idx=0) for _ in range(2))
    projection = nn.Linear(shape.d_model, shape.vocab)
    weights = [*body.parameters(), *tables.parameters(), *projection.parameters()]
    adam = torch.optim.Adam(weights, lr=1e-4, betas=(0.9, 0.98), eps=1e-9)
    loss_of = nn.CrossEntropyLoss(ignore_index=0)
    source, target = (torch.tensor(work.batch[name]) for name in ("source", "target"))
    causal = torch.ones(target.shape[1] - 1, target.shape[1] - 1, dtype=torch.bool).triu(1)

    def run() -> int:
        given, labels = target[:, :-1], target[:, 1:]
        masks = {"src_key_padding_mask": source == 0, "memory_key_padding_mask": source == 0}
        x = body(
            tables[0](source), tables[1](given), tgt_mask=causal, tgt_key_padding_mask=given == 0, **masks
        )
        loss = loss_of(projection(x).flatten(0, 1), labels.flatten())
        adam.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(weights, 1.0)
        adam.step()
        return work.units

    return run


@cache
def _marian_model(shape: Shape) -> Any:
    import torch
    from transformers import MarianConfig, MarianMTModel

    pad = shape.vocab - 1  # where CTranslate2's converter expects it
    sides = {
        f"{side}_{name}": value
        for side in ("encoder", "decoder")
        for name, value in (
            ("layers", shape.layers),
            ("ffn_dim", shape.d_ff),
            ("attention_heads", shape.num_heads),
        )
    }
    config = MarianConfig(
        vocab_size=shape.vocab,
        d_model=shape.d_model,
        max_position_embeddings=shape.max_len,
        activation_function="relu",
        pad_token_id=pad,
        eos_token_id=0,
        bos_token_id=0,
        decoder_start_token_id=pad,
        forced_eos_token_id=None,
        **sides,
    )
    torch.manual_seed(0)
    return MarianMTModel(config).eval()


def _marian(work: Workload) -> Run:
    import torch

    if work.kind not in ("encode", "greedy", "beam"):
        raise NotOffered("only inference of an encoder-decoder is compared")
    model, source = _marian_model(work.shape), torch.tensor(work.given - 1)
    if work.kind == "encode":
        return lambda: _encoded(model, source)
    lengths = {"min_new_tokens": work.tokens, "max_new_tokens": work.tokens}

    def run() -> int:
        with torch.inference_mode():
            written = model.generate(source, num_beams=work.width, do_sample=False, **lengths)
        return int(written[:, 1:].numel())

    return run


def _encoded(model: Any, source: Any) -> int:
    import torch

    with torch.inference_mode():
        return int(model.get_encoder()(source).last_hidden_state[..., 0].numel())


def _ctranslate2(work: Workload, threads: int) -> Run:
    if work.kind == "complete":
        return text_peers.ctranslate2(work, threads)
    if work.kind not in ("greedy", "beam"):
        raise NotOffered("only generation is compared")
    translator = _translator(work.shape, threads)
    source = [[str(i) for i in row] for row in np.asarray(work.given - 1)]
    lengths = {"min_decoding_length": work.tokens, "max_decoding_length": work.tokens}

    def run() -> int:
        written = translator.translate_batch(source, beam_size=work.width, **lengths)
        return sum(len(result.hypotheses[0]) for result in written)

    return run


@cache
def _translator(shape: Shape, threads: int) -> Any:
    """Marian's weights in CTranslate2's form, converted elsewhere: torch's threads would slow it here."""
    import ctranslate2

    with tempfile.TemporaryDirectory() as directory:
        call = f"from attest.bench.peers import convert; convert({shape.name!r}, {directory!r})"
        subprocess.run([sys.executable, "-c", call], check=True, capture_output=True)
        return ctranslate2.Translator(
            directory, device="cpu", compute_type="float32", inter_threads=1, intra_threads=threads
        )


def convert(shape_name: str, directory: str) -> None:
    """Write the model of a shape for CTranslate2; its vocabulary has no padding."""
    from ctranslate2.converters.transformers import MarianMTLoader

    shape = {shape.name: shape for shape in (BASE, SMALL)}[shape_name]
    spec = MarianMTLoader().get_model_spec(_marian_model(shape))
    words = ["</s>", *(str(i) for i in range(1, shape.vocab - 1))]
    spec.register_source_vocabulary(words)
    spec.register_target_vocabulary(words)
    spec.config.bos_token, spec.config.eos_token, spec.config.unk_token = "<s>", "</s>", "1"
    spec.config.decoder_start_token = "</s>"
    spec.config.add_source_eos = False
    spec.validate()
    spec.optimize(quantization=None)
    spec.save(directory)
