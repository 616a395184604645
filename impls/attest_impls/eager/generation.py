"""Writing with a model: greedy, sampling and beam search over its cached decoder.

The searches ask a model two things beside its steps: `aligned`, a prompt with its padding where the model
wants it, and `opening`, what the model reads before it writes: BOS, or the prompt that it goes on with.

Shapes: B batch, K results, L tokens, V vocabulary. Tokens exclude BOS and include EOS.
"""

from typing import Any

import torch
from torch import Tensor

from . import cache
from .beam import beam_search
from .cache import StepwiseDecoder
from .language_model import LanguageModel
from .mode import in_mode
from .model import Transformer
from .sampling import next_token_distribution


@torch.no_grad()
def generate(
    model: Transformer | LanguageModel,
    source: Tensor,
    max_len: int,
    width: int = 4,
    num_results: int = 1,
    alpha: float = 0.6,
    method: str = "beam",
    seed: int = 0,
    decoder: StepwiseDecoder = cache,
    **sampling: Any,
) -> tuple[Tensor, Tensor]:
    """tokens (B, K, L), scores (B, K), best first."""
    with in_mode(model, training=False):
        source = model.aligned(source)
        if method == "beam":
            return beam_search(model, source, max_len, width, num_results, alpha, decoder)
        if method == "greedy":
            return walk(model, source, max_len, None, decoder)
        draw = torch.Generator(device=source.device).manual_seed(seed)
        return walk(model, source, max_len, draw, decoder, **sampling)


def walk(
    model: Transformer | LanguageModel,
    source: Tensor,
    max_len: int,
    draw: torch.Generator | None,
    decoder: StepwiseDecoder = cache,
    **sampling: Any,
) -> tuple[Tensor, Tensor]:
    """One token after another, the likeliest or a drawn one. A row that has ended gets padding.

    The score is the log-probability of the tokens under the model itself, whatever the temperature.
    """
    config, B = model.config, source.shape[0]
    state = decoder.start(model, source, max_len)
    token = model.opening(source)
    written = source.new_full((B, max_len), config.pad_id)
    ended = torch.zeros(B, 1, dtype=torch.bool, device=source.device)
    scores = torch.zeros(B, 1, dtype=torch.float64, device=source.device)
    for n in range(max_len):
        logits, state = decoder.step(model, state, token)
        logits = logits[:, -1]  # (B, V)
        token = _likeliest(logits) if draw is None else _drawn(logits, draw, **sampling)
        log_probability = logits.double().log_softmax(-1).gather(-1, token)
        scores += torch.where(ended, 0.0, log_probability)
        written[:, n] = torch.where(ended, config.pad_id, token)[:, 0]
        ended = ended | (token == config.eos_id)
        if bool(ended.all()):
            break
    return written[:, None, : n + 1], scores


def _likeliest(logits: Tensor) -> Tensor:
    return logits.argmax(-1, keepdim=True)  # of equal maxima the first


def _drawn(logits: Tensor, draw: torch.Generator, **sampling: Any) -> Tensor:
    return torch.multinomial(next_token_distribution(logits, **sampling), 1, generator=draw)
