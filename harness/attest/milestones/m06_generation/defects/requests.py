"""Defects of refusing what decoding by hand is given."""

from __future__ import annotations

from typing import Any

import numpy as np

from attest.judging.catalogue import defect
from attest.reference.decoding.generator import Hypothesis, ReferenceGenerator
from attest.reference.decoding.sampling import Sampling
from attest.reference.models.transformer import ReferenceTransformer
from attest.reference.tape import Array


@defect("M6.10b")
class negative_rows_count_from_the_end(ReferenceTransformer):
    """reorder takes row -1 for the last one, as numpy does."""

    def reorder(self, state: Any, rows: Array) -> Any:
        return super().reorder(state, np.asarray(rows) % max(1, len(state.tokens)))


@defect("M6.10b")
class rows_beyond_are_clipped(ReferenceTransformer):
    """A row that the state does not have becomes its last one."""

    def reorder(self, state: Any, rows: Array) -> Any:
        rows = np.asarray(rows)
        return super().reorder(state, np.where(rows > 0, np.minimum(rows, len(state.tokens) - 1), rows))


@defect("M6.10b")
class steps_wrap_ids(ReferenceTransformer):
    """Ids outside the vocabulary are taken modulo its size."""

    def step(self, state: Any, tokens: Array) -> tuple[Array, Any]:
        return super().step(state, np.asarray(tokens) % self.config.target_vocab)


@defect("M6.10b", "M6.10")
class settings_of_sampling_are_not_looked_at(Sampling):
    """Whatever temperature, top_k and top_p are, something is computed."""

    def check_sampling(self, temperature: float, top_k: int | None, top_p: float | None) -> None:
        pass


@defect("M6.10b")
class nan_among_the_logits_is_a_token(Sampling):
    """Logits are not looked at, so NaN and an empty row give what the arithmetic gives."""

    def check_logits(self, logits: Array) -> None:
        pass


@defect("M6.10b")
class a_start_wraps_ids(ReferenceTransformer):
    """Ids of the source outside the vocabulary are taken modulo its size."""

    def start(self, source: Array) -> Any:
        return super().start(np.asarray(source) % self.config.source_vocab)


@defect("M6.2b")
class a_column_of_padding_behind(ReferenceGenerator):
    """The tokens have a column more than the longest result."""

    def packed(
        self, results: list[list[tuple[Hypothesis, float]]], chosen: dict[str, Any]
    ) -> dict[str, Array]:
        made = super().packed(results, chosen)
        longer = np.pad(made["tokens"], ((0, 0), (0, 0), (0, 1)), constant_values=self.config.pad_id)
        return {**made, "tokens": longer[..., : self.most]}

    def __call__(self, *, max_len: int, **settings: Any) -> dict[str, Array]:  # type: ignore[override]
        self.most = max_len
        return super().__call__(max_len=max_len, **settings)
