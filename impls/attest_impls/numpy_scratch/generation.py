"""Writing with the model: greedy, by drawing, by beam search, all over the cached decoder.

Shapes: B batch, K results, L tokens, V vocabulary. Tokens exclude BOS and include EOS.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from attest.contract import Array

from .arguments import is_integer, is_number, one_of, require
from .beam import Writer, beam_search
from .layers import Random
from .loss import log_softmax
from .sampling import check_sampling, drawn, next_token_distribution

METHODS = ("greedy", "beam", "sample")

Choice = Callable[[Array], Array]  # logits (B, V) -> tokens (B,)


def generate(
    model: Writer,
    prompt: Array,
    *,
    max_len: int,
    width: int = 4,
    num_results: int = 1,
    alpha: float = 0.6,
    method: str = "beam",
    temperature: float = 1.0,
    top_k: int | None = None,
    top_p: float | None = None,
    seed: int = 0,
) -> tuple[Array, Array]:
    """tokens (B, K, L) and scores (B, K), best first."""
    check_request(model.config.max_len, max_len, width, num_results, alpha, method, seed)
    check_sampling(temperature, top_k, top_p)
    prompt = model.aligned(prompt)
    if method == "beam":
        return beam_search(model, prompt, max_len, width, num_results, alpha)
    if method == "greedy":
        return walk(model, prompt, max_len, lambda logits: logits.argmax(axis=-1))  # of equals the first
    rng: Random = np.random.default_rng(seed)
    return walk(
        model,
        prompt,
        max_len,
        lambda logits: drawn(next_token_distribution(logits, temperature, top_k, top_p), rng),
    )


def walk(model: Writer, prompt: Array, max_len: int, choose: Choice) -> tuple[Array, Array]:
    """One token after the other. A row that has ended gets padding while the others go on.

    The score is the summed log-probability of the tokens under the model itself, whatever the temperature.
    """
    config, B = model.config, len(prompt)
    state, fed = model.begin(prompt, max_len)
    tokens = np.full((B, max_len), config.pad_id)
    ended, scores = np.zeros(B, bool), np.zeros(B)
    for n in range(max_len):
        logits, state = model.step(state, fed)
        token = choose(logits[:, -1])  # (B,)
        fed = token[:, None]
        log_p = log_softmax(logits[:, -1].astype(np.float64))  # (B, V)
        scores += np.where(ended, 0, np.take_along_axis(log_p, token[:, None], axis=-1)[:, 0])
        tokens[:, n] = np.where(ended, config.pad_id, token)
        ended |= token == config.eos_id
        if ended.all():
            break
    return tokens[:, None, : n + 1], scores[:, None]


def check_request(
    positions: int,
    max_len: int,
    width: int,
    num_results: int,
    alpha: float,
    method: str,
    seed: int,
) -> None:
    """Refuse what makes no sense before the encoder runs."""
    one_of("method", method, METHODS)
    for name, value in (("max_len", max_len), ("width", width), ("num_results", num_results)):
        require(is_integer(value) and value >= 1, name, value, "is not a positive integer", "give 1 or more")
    remedy = "ask for fewer tokens"
    require(max_len <= positions, "max_len", max_len, f"is beyond the model's {positions} positions", remedy)
    kept = width if method == "beam" else 1
    rule = f"is above the {kept} that method={method} keeps"
    require(num_results <= kept, "num_results", num_results, rule, "ask for fewer or raise the width")
    require(is_number(alpha), "alpha", alpha, "is not a finite number", "give 0 for no length penalty")
    require(is_integer(seed) and seed >= 0, "seed", seed, "is not an integer from 0", "give one, as 0")
