"""The reference as an implementation of the contract; defects are the same with one class exchanged."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, ClassVar

from attest.contract import OPERATIONS, Config, Form
from attest.contract.architectures import architectures
from attest.contract.claims import EVERYTHING, PADDINGS
from attest.reference.assembly import Parts
from attest.reference.component import ReferenceComponent
from attest.reference.decoding.generator import ReferenceGenerator
from attest.reference.models.language_model import ReferenceCompleter, ReferenceLanguageModel
from attest.reference.models.transformer import ReferenceModel, ReferenceTransformer
from attest.reference.operations import run_function
from attest.reference.parts.part import Part
from attest.reference.training.trainer import (
    ReferenceClipping,
    ReferenceOptimizer,
    ReferenceSchedule,
    ReferenceTrainer,
)
from attest.reference.training.updates import ReferenceUpdate


class ReferenceImplementation:
    """Every operation of the contract. Subclass it, or pass classes, to replace a piece."""

    name = "reference"
    description = "the reference: float64 inside, rounded once"
    dtypes = ("float32", "float64")
    supports = EVERYTHING
    padding = PADDINGS
    pieces: ClassVar[tuple[type[Part], ...]] = ()
    models: ClassVar[tuple[type[ReferenceModel], ...]] = (ReferenceLanguageModel,)  # beside the transformer
    writers: ClassVar[tuple[type[ReferenceGenerator], ...]] = (ReferenceCompleter,)  # beside the generator
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

    def __getattr__(self, name: str) -> Any:
        """The builder, or the function, of any operation that is registered."""
        record = OPERATIONS.get(name)
        if record is None:
            raise AttributeError(f"the reference has no operation {name!r}")
        if record.form is Form.FUNCTION:
            return partial(self.call, name)
        return partial(self._builders().get(record.form, self.build), name)

    def _builders(self) -> dict[Form, Callable[[str, Config], Any]]:
        """How operations of a special form are built."""
        return {
            Form.MODEL: lambda name, config: self.build(name, config, self._model(name)),
            Form.GENERATOR: lambda name, config: self.build(name, config, self._writer(name)),
            Form.SCHEDULE: lambda name, config: self.build(name, config, self._joined(ReferenceSchedule)),
            Form.CLIPPING: lambda name, config: self.build(name, config, self._joined(ReferenceClipping)),
            Form.OPTIMIZER: self._build_optimizer,
            Form.UPDATE: lambda name, config: ReferenceUpdate(self.parts(config), name, config),
            Form.TRAINER: self._build_trainer,
        }

    def build(self, operation: str, config: Config, kind: type[ReferenceComponent] | None = None) -> Any:
        """A new component with new parts; nothing is shared with an earlier one."""
        return (kind or self._component)(self.parts(config), operation, config)

    def parts(self, config: Config) -> Parts:
        """The reference's parts, with the pieces that this implementation exchanges."""
        return Parts(config, *self._pieces)

    def _model(self, operation: str) -> type[ReferenceComponent]:
        """The class of a model: that of its architecture."""
        models = (self._transformer, *(self._joined(kind) for kind in self.models))
        return next((m for m in models if m.architecture.operation == operation), self._component)

    def _writer(self, operation: str) -> type[ReferenceComponent]:
        """The class that generates with a model."""
        writers = (self._generator, *(self._joined(kind) for kind in self.writers))
        return next(w for w in writers if w.architecture.generate == operation)

    def _build_trainer(self, name: str, config: Config) -> Any:
        self.build(name, config)  # refuses what the trainer reads and its model does not
        architecture = next(a for a in architectures().values() if a.trainer == name)
        model = getattr(self, architecture.operation)(config)
        return self._trainer(model, config, architecture)

    def _build_optimizer(self, name: str, config: Config) -> Any:
        architecture = next(a for a in architectures().values() if a.optimizer == name)
        return self._optimizer(self.parts(config), config, architecture)

    def _joined(self, special: type[ReferenceComponent]) -> type[ReferenceComponent]:
        return joined(self._component, special)

    def call(self, operation: str, *args: Any, **settings: Any) -> Any:
        """One of the plain functions."""
        return run_function(self.parts(Config()), operation, args, **settings)


def joined(component: type[Any], special: type[Any]) -> type[Any]:
    """A special component that also has what a changed plain component has."""
    if issubclass(special, component):
        return special
    return type(component.__name__, (component, special), {})
