"""The reference as an implementation of the contract; mutants are the same with one class exchanged."""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np

from attest.contract import Config
from attest.reference.component import ReferenceComponent
from attest.reference.formulas import Formulas
from attest.reference.tape import Array


class ReferenceImplementation:
    """Every operation of the contract. Subclass it, or pass classes, to replace a piece."""

    name = "reference"
    description = "the reference: float64 inside, rounded once"
    dtypes = ("float32", "float64")
    formulas_class: ClassVar[type[Formulas]] = Formulas
    component_class: ClassVar[type[ReferenceComponent]] = ReferenceComponent

    def __init__(
        self,
        formulas: type[Formulas] | None = None,
        name: str | None = None,
        *,
        component: type[ReferenceComponent] | None = None,
    ) -> None:
        self._formulas = formulas or self.formulas_class
        self._component = component or self.component_class
        self.name = name or self.name

    def build(self, operation: str, config: Config) -> Any:
        """A component of its own, with formulas of its own."""
        return self._component(self._formulas(config), operation, config)

    def attention(self, config: Config) -> Any:
        return self.build("attention", config)

    def qkv_projection(self, config: Config) -> Any:
        return self.build("qkv_projection", config)

    def length_mask(self, lengths: Array, size: int) -> Array:
        return self._formulas(Config()).length_mask(np.asarray(lengths), size)

    def padding_mask(self, ids: Array, pad_id: int) -> Array:
        return self._formulas(Config()).padding_mask(np.asarray(ids), pad_id)

    def causal_mask(self, T: int, S: int) -> Array:
        return self._formulas(Config()).causal_allowed(T, S)

    def multi_head_attention(self, config: Config) -> Any:
        return self.build("multi_head_attention", config)

    def feed_forward(self, config: Config) -> Any:
        return self.build("feed_forward", config)

    def token_embedding(self, config: Config) -> Any:
        return self.build("token_embedding", config)

    def positional_encoding(self, config: Config) -> Any:
        return self.build("positional_encoding", config)

    def input_embedding(self, config: Config) -> Any:
        return self.build("input_embedding", config)

    def layer_norm(self, config: Config) -> Any:
        return self.build("layer_norm", config)

    def encoder_layer(self, config: Config) -> Any:
        return self.build("encoder_layer", config)

    def decoder_layer(self, config: Config) -> Any:
        return self.build("decoder_layer", config)

    def encoder(self, config: Config) -> Any:
        return self.build("encoder", config)

    def decoder(self, config: Config) -> Any:
        return self.build("decoder", config)

    def loss(self, config: Config) -> Any:
        return self.build("loss", config)
