"""Writing with the model: greedy, sampling and beam search over the cached decoder.

Shapes: B batch, W width of the beam, K results, L tokens, V vocabulary. Tokens exclude BOS, include EOS.
"""

import math
from numbers import Integral, Real
from typing import Any

import torch
from torch import Tensor

from . import cache
from .arguments import check_ids
from .beam import beam_search
from .model import Transformer
from .sampling import check_sampling, next_token_distribution

METHODS = ("greedy", "beam", "sample")


@torch.no_grad()
def generate(
    model: Transformer,
    source: Tensor,
    max_len: int,
    width: int = 4,
    num_results: int = 1,
    alpha: float = 0.6,
    method: str = "beam",
    temperature: float = 1.0,
    top_k: int | None = None,
    top_p: float | None = None,
    seed: int = 0,
    decoder: Any = cache,
) -> tuple[Tensor, Tensor]:
    """tokens (B, K, L), scores (B, K), best first. The model is in the mode it was in when this returns.

    `decoder` has start, advance and reorder, as the module `cache` does; one with `greedy` has its own loop.
    """
    check_request(model, max_len, width, num_results, alpha, method, seed)
    check_sampling(temperature, top_k, top_p)
    check_ids("source", source, model.config.source_vocab, model.config.max_len)
    training = model.training
    model.eval()
    try:
        source = left_aligned(source, model.config.pad_id)
        if method == "beam":
            return beam_search(model, source, max_len, width, num_results, alpha, decoder)
        if method == "greedy":
            greedy = getattr(decoder, "greedy", None)
            return greedy(model, source, max_len) if greedy else walk(model, source, max_len, None, decoder)
        draw = torch.Generator(device=source.device).manual_seed(seed)
        options = {"temperature": temperature, "top_k": top_k, "top_p": top_p}
        return walk(model, source, max_len, draw, decoder, **options)
    finally:
        model.train(training)


def walk(
    model: Transformer,
    source: Tensor,
    max_len: int,
    draw: torch.Generator | None,
    decoder: Any = cache,
    **options: Any,
) -> tuple[Tensor, Tensor]:
    """One token after another, the likeliest or a drawn one. A row that has ended gets padding.

    The score is the log-probability of the tokens under the model itself, whatever the temperature.
    """
    config, B = model.config, source.shape[0]
    state = decoder.start(model, source, max_len)
    token = source.new_full((B, 1), config.bos_id)
    written = source.new_full((B, max_len), config.pad_id)
    ended = torch.zeros(B, 1, dtype=torch.bool, device=source.device)
    scores = torch.zeros(B, 1, dtype=torch.float64, device=source.device)
    for n in range(max_len):
        logits, state = decoder.advance(model, state, token)
        logits = logits[:, -1]
        token = _likeliest(logits) if draw is None else _drawn(logits, draw, **options)
        log_probability = logits.double().log_softmax(-1).gather(-1, token)
        scores += torch.where(ended, 0.0, log_probability)
        written[:, n] = torch.where(ended, config.pad_id, token)[:, 0]
        ended = ended | (token == config.eos_id)
        if bool(ended.all()):
            break
    return written[:, None, : n + 1], scores


def left_aligned(source: Tensor, pad_id: int) -> Tensor:
    """Padding before a sequence goes behind it: positions count from the first real token."""
    leading = (source != pad_id).long().argmax(-1, keepdim=True)
    index = torch.arange(source.shape[1], device=source.device) + leading
    return source.gather(1, index % source.shape[1])


def _likeliest(logits: Tensor) -> Tensor:
    return logits.argmax(-1, keepdim=True)  # of equal maxima the first


def _drawn(logits: Tensor, draw: torch.Generator, **options: Any) -> Tensor:
    return torch.multinomial(next_token_distribution(logits, **options), 1, generator=draw)


def check_request(
    model: Transformer,
    max_len: int,
    width: int,
    num_results: int,
    alpha: float,
    method: str,
    seed: int,
) -> None:
    """Refuse what makes no sense before the encoder runs."""
    for name, value in (("max_len", max_len), ("width", width), ("num_results", num_results)):
        if not isinstance(value, Integral) or isinstance(value, bool) or value < 1:
            raise ValueError(f"{name}={value!r} is not a positive integer; give 1 or more")
    if max_len > model.config.max_len:
        limit = model.config.max_len
        raise ValueError(
            f"max_len={max_len} is beyond the {limit} positions of the model; ask for fewer tokens"
        )
    if method not in METHODS:
        raise ValueError(f"method={method!r} is unknown; choose one of {', '.join(METHODS)}")
    most = width if method == "beam" else 1
    if num_results > most:
        raise ValueError(
            f"num_results={num_results} is above the {most} that {method} keeps; raise width={width}"
        )
    if not isinstance(alpha, Real) or not math.isfinite(alpha):
        raise ValueError(f"alpha={alpha!r} is not a finite number; give 0 for no length penalty")
    if not isinstance(seed, Integral) or seed < 0:
        raise ValueError(f"seed={seed!r} is not an integer from 0; give one")
