"""Defects of completing a prompt. Shapes: prompt (B, P), tokens (B, K, L)."""

from __future__ import annotations

from typing import Any

import numpy as np

from attest.judging.catalogue import defect
from attest.reference.decoding.generator import Hypothesis
from attest.reference.decoding.text_cache import TextState
from attest.reference.models.language_model import ReferenceCompleter
from attest.reference.tape import Array

Results = list[list[tuple[Hypothesis, float]]]


@defect("M9.24")
class prompt_comes_back(ReferenceCompleter):
    """The tokens returned begin with the prompt."""

    def __call__(self, *, max_len: int, **settings: Any) -> dict[str, Array]:  # type: ignore[override]
        prompt = np.asarray(settings["prompt"])
        found = super().__call__(max_len=max_len, **settings)
        K = found["tokens"].shape[1]
        repeated = np.repeat(prompt[:, None, :], K, axis=1)
        return {**found, "tokens": np.concatenate([repeated, found["tokens"]], axis=2)}


@defect("M9.24")
class continued_behind_padding(ReferenceCompleter):
    """Prompts are moved to the left, and the first token is chosen behind their padding."""

    def aligned(self, prompt: Array) -> Array:
        return self.left_aligned(prompt)


@defect("M9.24")
class prompt_without_its_last_token(ReferenceCompleter):
    """The last token of the prompt is left to be written, and never read."""

    def aligned(self, prompt: Array) -> Array:
        return prompt[:, :-1] if prompt.shape[1] > 1 else prompt


@defect("M9.24")
class first_token_from_the_first_logits(ReferenceCompleter):
    """Of the logits of a prompt, those of its first token are taken."""

    def last_position(self, logits: Array) -> Array:
        return logits[:, 0]


@defect("M9.24")
class ends_at_an_end_in_the_prompt(ReferenceCompleter):
    """A prompt that holds EOS is taken for finished after one token."""

    def search(self, prompt: Array, max_len: int, chosen: dict[str, Any]) -> Results:
        found = super().search(prompt, max_len, chosen)
        ended = (prompt == self.config.eos_id).any(axis=1)
        return [
            [(Hypothesis(h.row, h.tokens[:1], h.log_probability), score) for h, score in row] if end else row
            for row, end in zip(found, ended)
        ]


@defect("M9.24")
class text_end_left_out(ReferenceCompleter):
    """EOS is not among the tokens returned."""

    def __call__(self, *, max_len: int, **settings: Any) -> dict[str, Array]:  # type: ignore[override]
        found = super().__call__(max_len=max_len, **settings)
        ends = found["tokens"] == self.config.eos_id
        return {**found, "tokens": np.where(ends, self.config.pad_id, found["tokens"])}


@defect("M9.24")
class prompt_positions_not_shifted(ReferenceCompleter):
    """Padding before a prompt is read as if it were its last real token."""

    def aligned(self, prompt: Array) -> Array:
        return np.where(prompt == self.config.pad_id, prompt[:, -1:], prompt)


@defect("M9.24")
class all_end_with_the_first(ReferenceCompleter):
    """The batch ends where its first row does."""

    def still_going(self, live: list[Hypothesis]) -> list[int]:
        going = super().still_going(live)
        return going if len(going) == len(live) else []


@defect("M9.25")
class prompt_counts_as_length(ReferenceCompleter):
    """The length penalty counts the tokens of the prompt."""

    def beam(self, prompt: Array, max_len: int, width: int, num_results: int, alpha: float) -> Results:
        self.before = prompt.shape[1]
        return super().beam(prompt, max_len, width, num_results, alpha)

    def ranked(self, finished: list[Hypothesis], alpha: float) -> list[tuple[Hypothesis, float]]:
        score, before = self.parts.ranking.score, self.before
        scored = [(h, score(h.log_probability, len(h.tokens) + before, alpha)) for h in finished]
        return sorted(scored, key=lambda pair: -pair[1])


@defect("M9.25")
class beams_keep_their_rows(ReferenceCompleter):
    """The cache is not reordered when a hypothesis goes on from another one."""

    def reorder(self, state: TextState, rows: Array) -> TextState:  # type: ignore[override]
        stay = np.minimum(np.arange(len(rows)), len(state.tokens) - 1)
        moves = len(rows) == len(state.tokens)
        return super().reorder(state, stay if moves else rows)  # type: ignore[arg-type,return-value]


@defect("M9.26")
class text_draws_repeat(ReferenceCompleter):
    """Every step draws with the generator of the first."""

    def choose(
        self, logits: Array, live: list[Hypothesis], draws: list[np.random.Generator], chosen: dict[str, Any]
    ) -> list[int]:
        again = [np.random.default_rng([chosen["seed"], row]) for row in range(len(draws))]
        return super().choose(logits, live, again, chosen)


@defect("M9.26")
class text_temperature_ignored(ReferenceCompleter):
    """Completion draws at temperature 1."""

    def choose(
        self, logits: Array, live: list[Hypothesis], draws: list[np.random.Generator], chosen: dict[str, Any]
    ) -> list[int]:
        return super().choose(logits, live, draws, {**chosen, "temperature": 1.0})


@defect("M9.26")
class text_seed_ignored(ReferenceCompleter):
    """Every request draws the same tokens."""

    def choose(
        self, logits: Array, live: list[Hypothesis], draws: list[np.random.Generator], chosen: dict[str, Any]
    ) -> list[int]:
        if all(len(h.tokens) == 0 for h in live):
            draws[:] = [np.random.default_rng(row) for row in range(len(draws))]
        return super().choose(logits, live, draws, chosen)


@defect("M9.26a")
class text_limit_not_checked(ReferenceCompleter):
    """A limit of nothing gives nothing."""

    def check_limit(self, max_len: int) -> None:
        pass


@defect("M9.26a")
class text_temperature_not_checked(ReferenceCompleter):
    """A temperature that is no number, or below zero, is taken for 1."""

    def check_settings(self, max_len: int, **settings: Any) -> None:
        allowed = settings["temperature"] >= 0
        super().check_settings(max_len, **{**settings, "temperature": 1.0 if not allowed else 0.5})


@defect("M9.26b")
class completion_leaves_eval(ReferenceCompleter):
    """A request switches to eval mode and stays there."""

    def __call__(self, *, max_len: int, **settings: Any) -> dict[str, Array]:  # type: ignore[override]
        self.eval()
        return super().__call__(max_len=max_len, **settings)


@defect("M9.26b")
class prompt_overwritten(ReferenceCompleter):
    """The caller's prompt is filled with what was written."""

    def __call__(self, *, max_len: int, **settings: Any) -> dict[str, Array]:  # type: ignore[override]
        found = super().__call__(max_len=max_len, **settings)
        settings["prompt"][:, -1] = found["tokens"][:, 0, 0]
        return found
