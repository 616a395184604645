"""An implementation as properties see it: what it offers, what it declares, its components."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import fields
from typing import Any

import numpy as np

from attest.boundary.arrays import aligned, array_of, error_sentence, guarded, kind_of, quiet, text_of
from attest.boundary.component import JudgedComponent
from attest.contract import OPERATIONS, Array, Config, Form, ShapePolicy
from attest.contract.claims import claims_of
from attest.contract.config import OPTIONS, default_of
from attest.declared import MOST_WIDENING
from attest.outcomes import NotClaimed, NotOffered, Violation
from attest.registry import class_name
from attest.sealed.outside import Remote

DEFAULT_DTYPES = ("float32",)
BACKEND = "backend"  # the option under which a config names it


class JudgedImplementation:
    """An implementation as criteria see it. Components are kept per operation and config."""

    def __init__(self, implementation: Any, *, dtype: str | None = None, device: str = "cpu") -> None:
        self.implementation = implementation
        self.name = str(implementation.name)
        self.device = device
        declared = tuple(getattr(implementation, "dtypes", None) or DEFAULT_DTYPES)
        # Half precision is judged where --dtype asks for it or nothing else is declared: its wide bounds
        # would hide what float32 shows.
        judged = tuple(d for d in declared if d in ("float32", "float64")) or declared
        self.dtypes = (dtype,) if dtype else judged
        self.policy = _policy(getattr(implementation, "shape_policy", None))
        self.options: tuple[tuple[str, str], ...] = tuple(getattr(implementation, "options", ()))
        self.claims = claims_of(implementation)
        self.backend = ""  # that which is judged at the moment, see `on`
        self.packages: tuple[str, ...] = tuple(getattr(implementation, "packages", None) or ())
        self.widened = _bounded(getattr(implementation, "wider_bounds", None) or {})
        self._components: dict[tuple[str, Config], JudgedComponent] = {}

    def offers(self, operation: str) -> bool:
        """Whether the implementation has this operation at all."""
        return callable(getattr(self.implementation, operation, None))

    @property
    def compiled(self) -> bool:
        """Whether it declares that it runs compiled code."""
        return bool(getattr(self.implementation, "compiled", False))

    @property
    def sealed(self) -> bool:
        """Whether it is in another process."""
        return isinstance(getattr(self.implementation, "remote", None), Remote)

    def factor(self, operation: str) -> float:
        """How far the implementation widens the bound of this operation; at least 1."""
        return self.widened.get(operation, 1.0)

    @property
    def backends(self) -> tuple[str, ...]:
        """The backends that are judged in turn: the one the options name, or all that are declared."""
        named = tuple(value for name, value in self.options if name == BACKEND)
        return named or self.claims.backends or ("",)

    @contextmanager
    def on(self, backend: str) -> Iterator[None]:
        """Inside, builders are asked for this backend."""
        before, self.backend = self.backend, backend
        try:
            yield
        finally:
            self.backend = before

    def with_run_options(self, config: Config) -> Config:
        """The config with this run's device and options, and the backend that is judged."""
        others = tuple(pair for pair in self.options if pair[0] != BACKEND)
        chosen = ((BACKEND, self.backend),) if self.backend else ()
        return config.but(device=self.device, options=(*others, *chosen))

    def build(self, operation: str, config: Config) -> JudgedComponent:
        """The component of an operation, built once per config and put in eval mode."""
        config = self.with_run_options(config)
        key = (operation, config)
        if key not in self._components:
            # Every drawn config is another component: a deep run would keep thousands of models.
            if len(self._components) > 256:
                self._components.clear()
            self._components[key] = JudgedComponent(
                operation, self.construct(operation, config), config, self
            )
        component = self._components[key]
        component.eval()
        return component

    @property
    def sharpest(self) -> str:
        """Its most exact dtype."""
        return "float64" if "float64" in self.dtypes else self.dtypes[0]

    def can_build(self, operation: str, config: Config) -> bool:
        """Whether this config is on offer; a builder that fails for another reason is judged later."""
        try:
            self.build(operation, config)
        except NotOffered:
            return False
        except Violation:
            return True
        return True

    def construct(self, operation: str, config: Config) -> Any:
        """Call the builder and return what it gives, uncached; never for a config that is not claimed."""
        builder = self._operation(operation)
        if outside := self.claims.outside(operation, config):
            raise NotClaimed(outside)
        try:
            with quiet():
                component = builder(config)
        except NotImplementedError as error:
            if self.claims.promises(operation, config):
                raise Violation(
                    _broken_promise(operation, config, error), raised=class_name(type(error))
                ) from None
            raise NotOffered(f"{operation}: {text_of(error)}") from None
        except Exception as error:
            sentence = f"building {operation} raised {error_sentence(error)}"
            raise Violation(sentence, raised=class_name(type(error))) from error
        if not callable(component) and OPERATIONS[operation].called:
            raise Violation(
                f"building {operation} gave {kind_of(component)}; return a component that can be called"
            )
        return component

    def raw_build(self, operation: str, config: Config) -> Any:
        """The bare builder call, for configs that must be refused; exceptions are the caller's to judge."""
        config, builder = self.with_run_options(config), self._operation(operation)
        if outside := self.claims.refusal_asked(operation, config):
            raise NotClaimed(outside)
        with quiet():
            return builder(config)

    def call(self, operation: str, *args: Any) -> Array:
        """One of the plain functions of the contract."""
        return self.call_as_given(operation, *(aligned(a) if isinstance(a, np.ndarray) else a for a in args))

    def call_as_given(self, operation: str, *args: Any) -> Array:
        """One of the plain functions with these very arrays, whatever their strides."""
        assert OPERATIONS[operation].form is Form.FUNCTION
        function = self._operation(operation)
        return array_of(guarded(operation, lambda: function(*args)), operation)

    def text(self, operation: str, *args: Any) -> str:
        """One of the plain functions that returns a text."""
        function = self._operation(operation)
        value = guarded(operation, lambda: function(*args))
        if not issubclass(type(value), str):
            raise Violation(f"{operation} is {kind_of(value)}; return a str")
        return "".join(value)

    def _operation(self, operation: str) -> Callable[..., Any]:
        assert operation in OPERATIONS, operation
        if not self.offers(operation):
            raise NotOffered(f"{operation} is not offered")
        function: Callable[..., Any] = getattr(self.implementation, operation)
        return function


def _broken_promise(operation: str, config: Config, error: Exception) -> str:
    read = {n: getattr(config, n) for n in OPTIONS if n in OPERATIONS[operation].reads}
    told = [f"{n}={value!r}" for n, value in read.items() if value != default_of(n)]
    said = f"{operation} with {', '.join(told) or 'the default options'} is declared, but refused"
    return f"{said}: {text_of(error)}; build it, or take it out of `supports`"


def _bounded(factors: Mapping[str, float]) -> dict[str, float]:
    """Between 1 and the ceiling, read once: what a plugin changes later has no effect."""
    return {str(n): min(max(1.0, float(factor)), MOST_WIDENING) for n, factor in factors.items()}


def _policy(declared: Any) -> ShapePolicy:
    """Any object with the attributes will do."""
    if declared is None or isinstance(declared, ShapePolicy):
        return declared or ShapePolicy()
    given: dict[str, Any] = {f.name: getattr(declared, f.name, f.default) for f in fields(ShapePolicy)}
    return ShapePolicy(**given)
