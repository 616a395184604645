"""The compiled language model: whole, packed, one step after another, and writing.

Shapes: B rows, T tokens, n new tokens, V vocabulary.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from attest_impls.eager.arguments import check_inputs
from attest_impls.eager.component import LanguageModelComponent
from attest_impls.eager.language_model import LanguageModel, positions_of, sight
from attest_impls.eager.training import token_losses

from .component import CompiledComponent, contiguous_copy
from .generation import LOOK_EVERY, STEP, choose, longest, over, written_by
from .private_torch import keep_address, settings
from .text_decoding import TextState, empty_state, read_last, read_on

CHUNK = 512  # tokens of a prompt that are read at once: the memory this takes does not grow with the prompt


class TextModel(CompiledComponent, LanguageModelComponent):
    """The decoder-only model behind the contract."""

    module: LanguageModel

    @property
    def decoder(self) -> TextDecoder:  # type: ignore[override]
        return TextDecoder(self, alone=False)

    def compute(self, ids: Tensor) -> dict[str, Tensor]:
        return {"logits": self.compiled("forward", whole)(self.module, ids)}

    def compute_packed(self, ids: Tensor, lengths: Tensor) -> dict[str, Tensor]:
        logits, loss = self.compiled("packed", packed)(self.module, ids, lengths)
        return {"logits": logits, "loss": loss}

    def start(self, rows: int) -> TextState:
        check_inputs("language_model.start", self.config, rows=rows)
        return empty_state(self.module, int(rows), self.config.max_len)

    def rewind(self, state: TextState, count: int) -> TextState:
        check_inputs("language_model.rewind", self.config, state=state, count=count)
        return state.rewound(int(count))


def whole(model: LanguageModel, ids: Tensor) -> Tensor:
    """Logits (B, T, V) of a text that nothing comes before."""
    real = model.real(ids)
    at = positions_of(real)
    seen = sight(model.config, model.decoder.relative, at, at, real[:, None], causal=True)
    return model.logits(ids, seen, [None] * model.decoder.depth)


def packed(model: LanguageModel, ids: Tensor, lengths: Tensor) -> tuple[Tensor, Tensor]:
    """Logits (B, T, V) of documents side by side, and the mean loss of tokens that follow one of theirs."""
    logits, counts = model.packed(ids, lengths)
    losses = token_losses(logits[:, :-1], ids[:, 1:], 0.0)  # (B, T - 1)
    return logits, torch.where(counts, losses, 0.0).sum() / counts.sum().clamp(min=1)


class TextDecoder:
    """What eager's searches and components ask of a decoder, with the graphs of a component.

    `alone`: a search, which never goes on from an old state and asks for the last logits alone.
    """

    look_every = LOOK_EVERY

    def __init__(self, component: CompiledComponent, alone: bool) -> None:
        self._component, self._alone = component, alone

    def start(self, model: LanguageModel, prompt: Tensor, capacity: int) -> TextState:
        return empty_state(model, prompt.shape[0], prompt.shape[1] + capacity)

    def step(self, model: LanguageModel, state: TextState, tokens: Tensor) -> tuple[Tensor, TextState]:
        if not self._alone:
            return self._run("read_on", read_on, state, tokens)
        for part in tokens.split(CHUNK, 1):
            logits, state = self._run("read_last", read_last, state, part, **STEP)
        return logits[:, None], state

    def _run(
        self,
        name: str,
        function: Callable[..., Any],
        state: TextState,
        tokens: Tensor,
        *given: Tensor,
        **options: Any,
    ) -> tuple[Any, TextState]:
        n = tokens.shape[1]
        state = state.with_room(n)
        run = self._component.compiled(name, function, **options)
        parts = state.buffers.parts(state.length + n)
        made = run(self._component.module, contiguous_copy(tokens), *given, state.place, *parts)
        state.buffers.filled = state.length + n
        return made, state.behind(n)

    def reorder(self, state: TextState, rows: Tensor) -> TextState:
        if not self._alone or len(rows) != state.rows:
            return state.reordered(rows)
        state.buffers.reorder(rows)
        return state

    def greedy(self, model: LanguageModel, prompt: Tensor, max_len: int) -> tuple[Tensor, Tensor]:
        """The whole step is one graph: read, take the likeliest token, write it down."""
        config, B = model.config, prompt.shape[0]
        state = self.start(model, prompt, max_len)
        written = prompt.new_full((B, max_len), config.pad_id)
        keep_address(written)
        ended = torch.zeros(B, 1, dtype=torch.bool, device=prompt.device)
        scores = torch.zeros(B, 1, dtype=torch.float64, device=prompt.device)
        at = torch.zeros(1, dtype=torch.int64, device=prompt.device)
        *first, token = prompt.split(CHUNK, 1)
        for part in first:
            _, state = self._run("read_last", read_last, state, part, **STEP)
        for n in range(max_len):
            given = (ended, scores, written, at)
            (token, ended, scores), state = self._run("greedy", greedy_step, state, token, *given, **STEP)
            at = at + 1
            if over(ended, n):
                break
        return written[:, None, : longest(written, config.eos_id, max_len)], scores


def greedy_step(
    model: LanguageModel,
    tokens: Tensor,
    ended: Tensor,
    scores: Tensor,
    written: Tensor,
    at: Tensor,
    *parts: Any,
) -> tuple[Tensor, Tensor, Tensor]:
    """One token for every row, behind the given ones."""
    return choose(model, read_last(model, tokens, *parts), ended, scores, written, at)


class Completer(CompiledComponent):
    """Greedy, beam and sampling behind a prompt."""

    module: LanguageModel

    @settings()
    def compute(
        self, prompt: Tensor, max_len: int, method: str = "beam", **options: Any
    ) -> dict[str, Tensor]:
        return written_by(self.module, prompt, max_len, TextDecoder(self, alone=True), method, **options)
