"""Between criteria and an implementation: copies in, checked arrays out, exceptions as sentences."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, fields
from typing import Any

import numpy as np

from attest.checks import Violation, quiet
from attest.contract import FUNCTIONS, OPERATIONS, Array, Arrays, Config, Gradients, ShapePolicy

DEFAULT_DTYPES = ("float32",)
BOUNDARY_DTYPES = (np.dtype(np.float32), np.dtype(np.float64))


class NotOffered(Exception):
    """The implementation does not have what the criterion needs."""


class NotRun(Exception):
    """The run lacks what the criterion needs; the reason is recorded."""


def aligned(array: Array) -> Array:
    """A contiguous copy that starts at a multiple of 64 bytes, so that kernels take the same path."""
    space = np.empty(array.nbytes + 64, np.uint8)
    start = -space.ctypes.data % 64
    copy = space[start : start + array.nbytes].view(array.dtype).reshape(array.shape)
    copy[...] = array
    return copy


def fresh(inputs: Mapping[str, Any]) -> dict[str, Any]:
    """Aligned copies of the arrays among these inputs."""
    return {k: aligned(v) if isinstance(v, np.ndarray) else v for k, v in inputs.items()}


@dataclass(frozen=True)
class Call:
    """One call an implementation answered, complete enough to be put to another one."""

    operation: str
    config: Config | None  # None: one of the plain functions
    method: str
    inputs: Mapping[str, Any]
    parameters: Arrays | None
    seed: int | None
    outputs: Arrays | None  # None: it raised


class Subject:
    """An implementation as criteria see it. Components are kept per operation and config."""

    def __init__(self, implementation: Any, *, dtype: str | None = None, device: str = "cpu") -> None:
        self.implementation = implementation
        self.name = str(implementation.name)
        self.device = device
        declared = tuple(getattr(implementation, "dtypes", None) or DEFAULT_DTYPES)
        judged = tuple(d for d in declared if d in ("float32", "float64")) or declared
        self.dtypes = (dtype,) if dtype else judged
        self.policy = _policy(getattr(implementation, "shape_policy", None))
        self.options: tuple[tuple[str, str], ...] = tuple(getattr(implementation, "options", ()))
        self.widened: Mapping[str, float] = getattr(implementation, "wider_bounds", None) or {}
        self._components: dict[tuple[str, Config], Boundary] = {}
        self.calls: list[Call] | None = None  # a list while somebody listens

    def offers(self, operation: str) -> bool:
        """Whether the implementation has this operation at all."""
        return callable(getattr(self.implementation, operation, None))

    @property
    def compiled(self) -> bool:
        """Whether it declares that it runs compiled code."""
        return bool(getattr(self.implementation, "compiled", False))

    def factor(self, operation: str) -> float:
        """How far the implementation widens the bound of this operation; at least 1."""
        return max(1.0, float(self.widened.get(operation, 1.0)))

    def placed(self, config: Config) -> Config:
        """The config with this run's device and options."""
        return config.but(device=self.device, options=self.options)

    def build(self, operation: str, config: Config) -> Boundary:
        """The component of an operation, built once per config and put in eval mode."""
        config = self.placed(config)
        key = (operation, config)
        if key not in self._components:
            if len(self._components) > 256:
                self._components.clear()
            self._components[key] = Boundary(operation, self.construct(operation, config), config, self)
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
        """Call the builder and return what it gives, uncached."""
        builder = self._operation(operation)
        try:
            with quiet():
                component = builder(config)
        except NotImplementedError as error:
            raise NotOffered(f"{operation}: {error}") from None
        except Exception as error:
            raise Violation(f"building {operation} raised {_sentence(error)}") from error
        if not callable(component) and operation not in ("trainer", "optimizer"):
            raise Violation(
                f"building {operation} gave {kind_of(component)}; return a component that can be called"
            )
        return component

    def raw_build(self, operation: str, config: Config) -> Any:
        """The bare builder call; its exceptions are the caller's to judge."""
        with quiet():
            return self._operation(operation)(self.placed(config))

    def call(self, operation: str, *args: Any) -> Array:
        """One of the plain functions of the contract."""
        assert operation in FUNCTIONS
        function = self._operation(operation)
        args = tuple(aligned(a) if isinstance(a, np.ndarray) else a for a in args)
        given = {str(i): a for i, a in enumerate(args)}
        with self.listening(operation, None, "function", given) as heard:
            heard["output"] = array_of(guarded(operation, lambda: function(*args)), operation)
        return heard["output"]

    @contextmanager
    def listening(
        self,
        operation: str,
        config: Config | None,
        method: str,
        inputs: Mapping[str, Any],
        parameters: Arrays | None = None,
        seed: int | None = None,
    ) -> Iterator[dict[str, Array]]:
        """Note the call and what the body heard, for diagnosis."""
        heard: dict[str, Array] = {}
        outputs: dict[str, Array] | None = None
        try:
            yield heard
            outputs = heard
        finally:
            if self.calls is not None:
                self.calls.append(Call(operation, config, method, inputs, parameters, seed, outputs))

    def _operation(self, operation: str) -> Callable[..., Any]:
        assert operation in OPERATIONS, operation
        if not self.offers(operation):
            raise NotOffered(f"{operation} is not offered")
        function: Callable[..., Any] = getattr(self.implementation, operation)
        return function


def _policy(declared: Any) -> ShapePolicy:
    """Any object with the attributes will do."""
    if declared is None or isinstance(declared, ShapePolicy):
        return declared or ShapePolicy()
    given: dict[str, Any] = {f.name: getattr(declared, f.name, f.default) for f in fields(ShapePolicy)}
    return ShapePolicy(**given)


class Boundary:
    """A component behind the boundary. Every call gets copies; every result is checked and copied."""

    def __init__(self, operation: str, component: Any, config: Config, subject: Subject) -> None:
        self.operation = operation
        self.component = component
        self.config = config
        self.subject = subject
        self.loaded: Arrays | None = None
        self.seed: int | None = None

    @property
    def widening(self) -> float:
        """How far the implementation widens the bounds of this operation; at least 1."""
        return self.subject.factor(self.operation)

    def __call__(self, **inputs: Any) -> dict[str, Array]:
        """The named outputs as arrays of their own."""
        return self.method("__call__", **inputs)

    def method(self, name: str, **inputs: Any) -> dict[str, Array]:
        """Call a method that takes keyword arrays and returns a mapping."""
        function = self._method(name) if name != "__call__" else self.component
        label = self.operation if name == "__call__" else f"{self.operation}.{name}"
        with self._listening(name, inputs) as heard:
            results = arrays_of(guarded(label, lambda: function(**fresh(inputs))), label)
            heard |= results
        return results

    def accepted(self, **inputs: Any) -> dict[str, Array] | None:
        """What a call gives, None where it is refused by an exception."""
        try:
            with quiet():
                result = self.component(**fresh(inputs))
        except Exception:
            return None
        return arrays_of(result, self.operation)

    def as_given(self, **inputs: Any) -> dict[str, Array]:
        """Call with the very arrays given, whatever their strides."""
        return arrays_of(guarded(self.operation, lambda: self.component(**inputs)), self.operation)

    def _listening(self, method: str, inputs: Mapping[str, Any]) -> AbstractContextManager[dict[str, Array]]:
        return self.subject.listening(self.operation, self.config, method, inputs, self.loaded, self.seed)

    def start(self, source: Array) -> Any:
        """The state of an empty prefix, as opaque as it came."""
        start = self._method("start")
        return guarded(self._label("start"), lambda: start(aligned(source)))

    def step(self, state: Any, tokens: Array) -> tuple[Array, Any]:
        """Logits of the new tokens, and the state that includes them."""
        step, label = self._method("step"), self._label("step")
        result = guarded(label, lambda: step(state, aligned(tokens)))
        if not isinstance(result, tuple) or len(result) != 2:
            raise Violation(f"{label} returned {kind_of(result)}; return a pair of logits and state")
        return array_of(result[0], label), result[1]

    def reorder(self, state: Any, rows: Array) -> Any:
        """The state with these rows of the old one."""
        reorder = self._method("reorder")
        return guarded(self._label("reorder"), lambda: reorder(state, aligned(rows)))

    def parameters(self) -> dict[str, Array]:
        """Canonical parameters; empty for a component that has no such method."""
        if not hasattr(self.component, "parameters"):
            return {}
        return arrays_of(
            guarded(self._label("parameters"), self.component.parameters), self._label("parameters")
        )

    def load(self, parameters: Arrays) -> None:
        """Inject weights."""
        if not parameters:
            return
        load = self._method("load")
        self.loaded = parameters
        guarded(self._label("load"), lambda: load(fresh(parameters)))

    def buffers(self) -> dict[str, Array]:
        """Arrays that are not learned."""
        buffers = self._method("buffers")
        return arrays_of(guarded(self._label("buffers"), buffers), self._label("buffers"))

    def train(self, seed: int) -> None:
        """Switch randomness on."""
        train = self._method("train")
        self.seed = seed
        guarded(self._label("train"), lambda: train(seed))

    def eval(self) -> None:
        """Switch randomness off."""
        self.seed = None
        if hasattr(self.component, "eval"):
            guarded(self._label("eval"), self.component.eval)

    def gradients(self, inputs: Mapping[str, Any], cotangents: Arrays) -> Gradients:
        """Gradients by input and parameter name."""
        gradients = self._method("gradients")
        label = self._label("gradients")
        with self._listening("gradients", {**inputs, "cotangents": cotangents}) as heard:
            result = guarded(label, lambda: gradients(fresh(inputs), fresh(cotangents)))
            for part in ("inputs", "parameters"):
                if not hasattr(result, part):
                    raise Violation(
                        f"{label} gave {kind_of(result)}; return an object with inputs and parameters"
                    )
            found = Gradients(arrays_of(result.inputs, label), arrays_of(result.parameters, label))
            heard |= {**found.inputs, **found.parameters}
        return found

    def _label(self, method: str) -> str:
        return f"{self.operation}.{method}"

    def _method(self, name: str) -> Callable[..., Any]:
        method = getattr(self.component, name, None)
        if not callable(method):
            raise NotOffered(f"{self.operation} has no {name}()")
        function: Callable[..., Any] = method
        return function


class Named(dict[str, Array]):
    """Arrays by name. Asking for one that was not returned is the implementation's failure."""

    def __init__(self, label: str, arrays: Mapping[str, Array]) -> None:
        super().__init__(arrays)
        self.label = label

    def __missing__(self, name: str) -> Array:
        names = ", ".join(sorted(self)) or "nothing"
        raise Violation(f"{self.label} returned {names}; return {name} too")


def arrays_of(result: Any, label: str) -> dict[str, Array]:
    """Check that a result is a mapping of arrays and copy it."""
    if not isinstance(result, Mapping):
        raise Violation(f"{label} returned {kind_of(result)}; return a mapping of names to numpy arrays")
    return Named(label, {str(name): array_of(x, f"{label}[{name!r}]") for name, x in result.items()})


def array_of(value: Any, label: str) -> Array:
    """Check that a value is a numpy array of a dtype that crosses the boundary, and copy it."""
    if isinstance(value, np.generic):
        value = np.asarray(value)
    if not isinstance(value, np.ndarray):
        raise Violation(f"{label} is {kind_of(value)}; return a numpy array")
    if value.dtype.kind == "f" and value.dtype not in BOUNDARY_DTYPES:
        raise Violation(f"{label} has dtype {value.dtype}; return float32 or float64")
    if value.dtype.kind not in "fiub":
        raise Violation(f"{label} has dtype {value.dtype}; return an array of numbers")
    return np.array(value)


def guarded(label: str, call: Callable[[], Any]) -> Any:
    """Run a call of the implementation; its exceptions become sentences."""
    try:
        with quiet():
            return call()
    except (NotOffered, NotRun, Violation):
        raise
    except NotImplementedError as error:
        raise NotOffered(f"{label}: {error}") from None
    except MemoryError:
        raise
    except Exception as error:
        raise Violation(f"{label} raised {_sentence(error)}") from error


def _sentence(error: BaseException) -> str:
    text = " ".join(str(error).split())
    return f"{type(error).__name__}: {text[:300]}" if text else type(error).__name__


def kind_of(value: Any) -> str:
    """What something is, as a failure names it."""
    name = f"{type(value).__module__}.{type(value).__name__}".removeprefix("builtins.")
    return "None" if value is None else f"a {name}"
