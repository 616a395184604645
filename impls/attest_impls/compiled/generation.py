"""The compiled decoder: start, step and reorder for eager's searches, and a separate greedy loop.

Shapes: B rows, L tokens, n new tokens, V vocabulary.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor

from attest_impls.eager.generation import generate
from attest_impls.eager.mode import in_mode
from attest_impls.eager.model import Transformer
from attest_impls.eager.sampling import check_sound, distribution

from .component import Model, contiguous_copy
from .cpu import single_steps
from .cpu.single import read_one
from .decoding import State, empty_state, read_on, remember, reordered
from .private_torch import keep_address, settings

# inductor's settings for a step: no checks of sizes that are ours, and products added in one instruction.
STEP = {
    "size_asserts": False,
    "alignment_asserts": False,
    "cpp.enable_floating_point_contract_flag": "fast",
}
SAMPLING = ("seed", "temperature", "top_k", "top_p")
LOOK_EVERY = 8  # tokens between two looks at the stop flags: a look waits for the device


class CompiledDecoder:
    """What eager's searches and components ask of a decoder, with the graphs of a component.

    `alone`: a search. There is never more than one new token, so that the graph for one is worth having, and
    reorders exchange rows of one source.
    """

    look_every = LOOK_EVERY

    def __init__(self, model: Model, alone: bool) -> None:
        self._model, self._alone = model, alone

    def start(self, model: Transformer, source: Tensor, capacity: int) -> State:
        memory = self._model.compiled("remember", remember)(model, source)
        return empty_state(model, source, memory, capacity)

    def step(self, model: Transformer, state: State, tokens: Tensor) -> tuple[Tensor, State]:
        name, read = ("read_one", read_one) if self._single(model) else ("read_on", read_on)
        n = tokens.shape[1]
        logits = self._model.compiled(name, read)(model, contiguous_copy(tokens), *state.parts(n))
        state.spent = True
        return logits, replace(state, position=state.position + n, length=state.length + n, spent=False)

    def reorder(self, state: State, rows: Tensor) -> State:
        return reordered(state, rows, keeps_sources=self._alone)

    def greedy(self, model: Transformer, source: Tensor, max_len: int) -> tuple[Tensor, Tensor]:
        """The whole step is one graph: read, take the likeliest token, write it down."""
        config, B = model.config, source.shape[0]
        state = self.start(model, source, max_len)
        token = source.new_full((B, 1), config.bos_id)
        written = source.new_full((B, max_len), config.pad_id)
        keep_address(written)
        ended = torch.zeros(B, 1, dtype=torch.bool, device=source.device)
        scores = torch.zeros(B, 1, dtype=torch.float64, device=source.device)
        step = self._greedy_step(model)
        for n in range(max_len):
            token, ended, scores = step(model, token, ended, scores, written, *state.parts(1))
            state.position += 1
            state.length += 1
            if over(ended, n):
                break
        return written[:, None, : longest(written, config.eos_id, max_len)], scores

    def _greedy_step(self, model: Transformer) -> Callable[..., Any]:
        one = ("greedy_one", greedy_step_of_one)
        name, function = one if self._single(model) else ("greedy", greedy_step)
        return self._model.compiled(name, function, **STEP)

    def _single(self, model: Transformer) -> bool:
        return self._alone and single_steps(self._model.kernels, model.projection.weight)


def greedy_step(model: Transformer, token: Tensor, *rest: Any) -> tuple[Tensor, Tensor, Tensor]:
    """One token for every row."""
    ended, scores, written, *parts = rest
    return choose(model, read_on(model, token, *parts)[:, -1], ended, scores, written, parts[0])


def greedy_step_of_one(model: Transformer, token: Tensor, *rest: Any) -> tuple[Tensor, Tensor, Tensor]:
    """The same in inductor's own loops."""
    ended, scores, written, *parts = rest
    return choose(model, read_one(model, token, *parts)[:, -1], ended, scores, written, parts[0])


def choose(
    model: Transformer, logits: Tensor, ended: Tensor, scores: Tensor, written: Tensor, position: Tensor
) -> tuple[Tensor, Tensor, Tensor]:
    """The likeliest token of every row, written down; a row that has ended gets padding."""
    likeliest = logits.argmax(-1, keepdim=True)
    # Its log-probability is minus the logarithm of a sum whose largest term is 1: only the sum is widened.
    wide = logits if logits.dtype == torch.float64 else logits.float()
    gained = -(wide - wide.amax(-1, keepdim=True)).exp().double().sum(-1, keepdim=True).log()
    written.index_copy_(1, position, torch.where(ended, model.config.pad_id, likeliest))
    scores = scores + torch.where(ended, 0.0, gained)
    return likeliest, ended | (likeliest == model.config.eos_id), scores


def over(ended: Tensor, n: int) -> bool:
    """Whether every row has ended, after token number n from 0. It is only looked at now and then."""
    return n % LOOK_EVERY == LOOK_EVERY - 1 and bool(ended.all())


def sampled(
    model: Any, source: Tensor, max_len: int, decoder: Any, seed: int = 0, **sampling: Any
) -> tuple[Tensor, Tensor]:
    """eager's walk with drawn tokens, and the same tokens, without waiting for the device at each of them.

    torch.multinomial would wait: it looks at what it is given. What it then does stands here.
    """
    config, B = model.config, source.shape[0]
    draw = torch.Generator(device=source.device).manual_seed(seed)
    state, token = decoder.start(model, source, max_len), model.opening(source)
    written = source.new_full((B, max_len), config.pad_id)
    ended = torch.zeros(B, 1, dtype=torch.bool, device=source.device)
    sound = torch.ones(B, 1, dtype=torch.bool, device=source.device)
    scores = torch.zeros(B, 1, dtype=torch.float64, device=source.device)
    for n in range(max_len):
        logits, state = decoder.step(model, state, token)
        logits = logits[:, -1]  # (B, V)
        sound = sound & (ended | torch.isfinite(logits.amax(-1, keepdim=True)))
        p = distribution(torch.where(sound, logits, 0.0), **sampling)
        token = (p / torch.empty_like(p).exponential_(1, generator=draw)).argmax(-1, keepdim=True)
        gained = logits.double().log_softmax(-1).gather(-1, token)
        scores = scores + torch.where(ended, 0.0, gained)
        written[:, n] = torch.where(ended, config.pad_id, token)[:, 0]
        ended = ended | (token == config.eos_id)
        if over(ended, n):
            break
    check_sound(sound)
    return written[:, None, : longest(written, config.eos_id, max_len)], scores


def longest(written: Tensor, eos_id: int, max_len: int) -> int:
    """The length of the longest row: up to its end token, or all of it."""
    ends = (written == eos_id).int()
    lengths = torch.where(ends.any(1), ends.argmax(1) + 1, max_len)
    return int(lengths.max())


class Decoding(Model):
    """The model with its cached steps."""

    @property
    def decoder(self) -> CompiledDecoder:
        return CompiledDecoder(self, alone=False)


class Generator(Decoding):
    """Greedy, beam and sampling; the generator owns its model."""

    @settings()
    def compute(self, source: Tensor, max_len: int, method: str = "beam", **options: Any) -> Any:
        return written_by(self.module, source, max_len, CompiledDecoder(self, alone=True), method, **options)


def written_by(
    model: Any,
    source: Tensor,
    max_len: int,
    decoder: Any,
    method: str,
    **options: Any,
) -> dict[str, Tensor]:
    """What a search writes behind a source or a prompt. Options of the other methods are left alone."""
    if method == "beam":
        tokens, scores = generate(model, source, max_len, method=method, decoder=decoder, **options)
        return {"tokens": tokens, "scores": scores}
    with torch.no_grad(), in_mode(model, training=False):
        source = model.aligned(source)
        if method == "greedy":
            tokens, scores = decoder.greedy(model, source, max_len)
        else:
            known = {n: value for n, value in options.items() if n in SAMPLING}
            tokens, scores = sampled(model, source, max_len, decoder, **known)
    return {"tokens": tokens, "scores": scores}
