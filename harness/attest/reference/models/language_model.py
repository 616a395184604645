"""The decoder-only model as a component: a call, and decoding with a cache."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from attest.contract import Arrays, Gradients
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

    def packed(self, *, ids: Array, lengths: Array) -> dict[str, Array]:
        given = self.accept_packed({"ids": ids, "lengths": lengths})
        with np.errstate(all="ignore"):
            return self.release(self.outputs("packed", self.scope(), given))

    def accept_packed(self, inputs: Mapping[str, Any]) -> dict[str, Any]:
        """Documents that fit into their rows; it is they that end at max_len, not the rows."""
        given = {name: np.asarray(x) for name, x in inputs.items()}
        self.check_inputs({**given, "ids": given["ids"][:, : self.config.max_len]})
        self.check_ids("ids", given["ids"], self.config.target_vocab)
        self.check_length("a document", int(given["lengths"].max(initial=0)))
        longest, room = int(given["lengths"].sum(axis=1).max(initial=0)), given["ids"].shape[1]
        if longest > room:
            raise ValueError(f"lengths sum to {longest} in a row of {room} ids; give shorter documents")
        return given

    def check_length(self, name: str, length: int) -> None:
        """How many documents there are is no number of positions."""
        if name != "lengths":
            super().check_length(name, length)

    def gradients(self, inputs: Arrays, cotangents: Arrays) -> Gradients:
        """Of a call, or of `packed` where the inputs have lengths."""
        if "lengths" not in inputs:
            return super().gradients(inputs, cotangents)
        with np.errstate(all="ignore"):
            return self.backward("packed", self.accept_packed(inputs), cotangents)


class ReferenceCompleter(ReferenceGenerator):
    """The contract's Generator for a language model: it continues its prompt and returns new tokens only."""

    architecture = DECODER_ONLY

    @property
    def cache(self) -> TextCache:
        return self.parts.text_cache

    def start(self, prompt: Array, p: Scope) -> TextState:  # type: ignore[override]
        return self.cache.start(len(prompt))
