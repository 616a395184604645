"""The reference as an implementation of the contract; defects are the same with one class exchanged."""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np

from attest.contract import Config
from attest.reference.assembly import Parts
from attest.reference.component import ReferenceComponent
from attest.reference.generator import ReferenceGenerator
from attest.reference.parts.part import Part
from attest.reference.tape import Array
from attest.reference.trainer import (
    ReferenceClipping,
    ReferenceOptimizer,
    ReferenceSchedule,
    ReferenceTrainer,
)
from attest.reference.transformer import ReferenceTransformer


class ReferenceImplementation:
    """Every operation of the contract. Subclass it, or pass classes, to replace a piece."""

    name = "reference"
    description = "the reference: float64 inside, rounded once"
    dtypes = ("float32", "float64")
    pieces: ClassVar[tuple[type[Part], ...]] = ()
    component_class: ClassVar[type[ReferenceComponent]] = ReferenceComponent
    transformer_class: ClassVar[type[ReferenceTransformer]] = ReferenceTransformer
    trainer_class: ClassVar[type[ReferenceTrainer]] = ReferenceTrainer
    optimizer_class: ClassVar[type[ReferenceOptimizer]] = ReferenceOptimizer
    generator_class: ClassVar[type[ReferenceGenerator]] = ReferenceGenerator

    def __init__(
        self,
        *pieces: type[Part],
        name: str | None = None,
        component: type[ReferenceComponent] | None = None,
        transformer: type[ReferenceTransformer] | None = None,
        trainer: type[ReferenceTrainer] | None = None,
        optimizer: type[ReferenceOptimizer] | None = None,
        generator: type[ReferenceGenerator] | None = None,
    ) -> None:
        self._pieces = pieces or self.pieces
        self._component = component or self.component_class
        self._transformer = joined(self._component, transformer or self.transformer_class)
        self._generator = joined(self._component, generator or self.generator_class)
        self._trainer = trainer or self.trainer_class
        self._optimizer = optimizer or self.optimizer_class
        self.name = name or self.name

    def build(self, operation: str, config: Config, kind: type[ReferenceComponent] | None = None) -> Any:
        """A component of its own, with parts of its own."""
        return (kind or self._component)(self.parts(config), operation, config)

    def parts(self, config: Config) -> Parts:
        """The reference's parts, with the pieces that this implementation exchanges."""
        return Parts(config, *self._pieces)

    def attention(self, config: Config) -> Any:
        return self.build("attention", config)

    def qkv_projection(self, config: Config) -> Any:
        return self.build("qkv_projection", config)

    def length_mask(self, lengths: Array, size: int) -> Array:
        return self.parts(Config()).masks.length_mask(np.asarray(lengths), size)

    def padding_mask(self, ids: Array, pad_id: int) -> Array:
        return self.parts(Config()).masks.padding_mask(np.asarray(ids), pad_id)

    def causal_mask(self, T: int, S: int) -> Array:
        return self.parts(Config()).masks.causal_allowed(T, S)

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

    def transformer(self, config: Config) -> Any:
        return self.build("transformer", config, self._transformer)

    def learning_rate(self, config: Config) -> Any:
        return self.build("learning_rate", config, joined(self._component, ReferenceSchedule))

    def clip_gradients(self, config: Config) -> Any:
        return self.build("clip_gradients", config, joined(self._component, ReferenceClipping))

    def optimizer(self, config: Config) -> Any:
        return self._optimizer(self.parts(config), config)

    def trainer(self, config: Config) -> Any:
        return self._trainer(self.transformer(config), config)

    def generate(self, config: Config) -> Any:
        return self.build("generate", config, self._generator)

    def next_token_distribution(
        self, logits: Array, temperature: float = 1.0, top_k: int | None = None, top_p: float | None = None
    ) -> Array:
        sampling = self.parts(Config()).sampling
        sampling.check_sampling(temperature, top_k, top_p)
        logits = np.asarray(logits)
        with np.errstate(all="ignore"):
            p = sampling.next_token_distribution(logits, temperature, top_k, top_p)
        return p.astype(logits.dtype if logits.dtype == np.float64 else np.float32)


def joined(component: type[Any], special: type[Any]) -> type[Any]:
    """A special component that also has what a changed plain component has."""
    if issubclass(special, component):
        return special
    return type(component.__name__, (component, special), {})
