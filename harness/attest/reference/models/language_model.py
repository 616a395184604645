"""The decoder-only model as a component: a call, and decoding with a cache."""

from __future__ import annotations

import numpy as np

from attest.contract import Arrays
from attest.contract.architectures import DECODER_ONLY
from attest.reference.decoding.generator import ReferenceGenerator
from attest.reference.decoding.text_cache import TextCache, TextState
from attest.reference.models.transformer import ReferenceModel
from attest.reference.scope import Scope
from attest.reference.tape import Array
from attest.reference.validation import check_size


class ReferenceLanguageModel(ReferenceModel):
    """The contract's LanguageModel."""

    architecture = DECODER_ONLY

    @property
    def cache(self) -> TextCache:
        return self.parts.text_cache

    def load(self, parameters: Arrays) -> None:
        """Names and shapes are those of the config, no more and no fewer."""
        wanted = self.shapes()
        for name in sorted({*wanted, *parameters}):
            given = np.shape(parameters[name]) if name in parameters else None
            if given != wanted.get(name):
                raise ValueError(
                    f"{name}={given}, should be {wanted.get(name)}; load the names and shapes of parameters()"
                )
        super().load(parameters)

    def start(self, rows: int) -> TextState:
        check_size("rows", rows)
        return self.cache.start(int(rows))

    def rewind(self, state: TextState, count: int) -> TextState:
        if not 0 <= count <= state.length:
            raise ValueError(f"count={count} is not among the {state.length} tokens read; take back fewer")
        return self.cache.rewind(state, int(count))


class ReferenceCompleter(ReferenceGenerator):
    """The contract's Generator for a language model: it continues its prompt and returns new tokens only."""

    architecture = DECODER_ONLY

    @property
    def cache(self) -> TextCache:
        return self.parts.text_cache

    def start(self, prompt: Array, p: Scope) -> TextState:  # type: ignore[override]
        return self.cache.start(len(prompt))
