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

from .component import Model, contiguous_copy
from .decoding import State, empty_state, keep_address, read_on, remember, reordered
from .single import pays, read_one

# inductor's settings for a step: no checks of sizes that are ours, and products added in one instruction.
STEP = {
    "size_asserts": False,
    "alignment_asserts": False,
    "cpp.enable_floating_point_contract_flag": "fast",
}
CHECK_EVERY = 8  # tokens between two looks at the stop flags: a look waits for the device


class CompiledDecoder:
    """What eager's searches and components ask of a decoder, with the graphs of a component.

    `alone`: there is never more than one new token, so that the graph for one is worth having.
    """

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
        return reordered(state, rows)

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
            if n % CHECK_EVERY == CHECK_EVERY - 1 and bool(ended.all()):
                break
        return written[:, None, : _longest(written, config.eos_id, max_len)], scores

    def _greedy_step(self, model: Transformer) -> Callable[..., Any]:
        one = ("greedy_one", greedy_step_of_one)
        name, function = one if self._single(model) else ("greedy", greedy_step)
        return self._model.compiled(name, function, **STEP)

    def _single(self, model: Transformer) -> bool:
        return self._alone and pays(model.projection.weight)


def greedy_step(model: Transformer, token: Tensor, *rest: Any) -> tuple[Tensor, Tensor, Tensor]:
    """One token for every row."""
    ended, scores, written, *parts = rest
    return _choose(model, read_on(model, token, *parts)[:, -1], ended, scores, written, parts[0])


def greedy_step_of_one(model: Transformer, token: Tensor, *rest: Any) -> tuple[Tensor, Tensor, Tensor]:
    """The same in inductor's own loops."""
    ended, scores, written, *parts = rest
    return _choose(model, read_one(model, token, *parts)[:, -1], ended, scores, written, parts[0])


def _choose(
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


def _longest(written: Tensor, eos_id: int, max_len: int) -> int:
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

    def compute(self, source: Tensor, max_len: int, method: str = "beam", **options: Any) -> Any:
        decoder = CompiledDecoder(self, alone=True)
        if method == "greedy":
            with torch.no_grad(), in_mode(self.module, training=False):
                source = self.module.aligned(source)
                tokens, scores = decoder.greedy(self.module, source, max_len)
        else:
            tokens, scores = generate(self.module, source, max_len, method=method, decoder=decoder, **options)
        return {"tokens": tokens, "scores": scores}
