"""A trainer or optimiser behind the boundary: copies in, checked numbers out, exceptions as sentences."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from attest.boundary import (
    JudgedComponent,
    JudgedImplementation,
    arrays_of,
    fresh,
    guarded,
    kind_of,
    reading,
)
from attest.contract import ENCODER_DECODER, Architecture, Array, Arrays, Config
from attest.outcomes import NotOffered, Violation

REPORTED = ("loss", "rate", "norm")


class JudgedTrainer:
    """A fresh trainer. Nothing of it is kept between cases: a trainer has a history."""

    def __init__(
        self,
        impl: JudgedImplementation,
        config: Config,
        parameters: Arrays | None = None,
        architecture: Architecture = ENCODER_DECODER,
    ) -> None:
        self.impl, self.architecture = impl, architecture
        self.config = impl.with_run_options(config)
        self.trainer = impl.construct(architecture.trainer, self.config)
        model = reading("the trainer", lambda: getattr(self.trainer, "model", None))
        if model is None:
            raise Violation(
                f"the trainer has no model; give it the {architecture.operation} it trains as `model`"
            )
        self.model = JudgedComponent(architecture.operation, model, self.config, impl)
        if parameters is not None:
            self.model.load(parameters)

    def parameters(self) -> dict[str, Array]:
        """The parameters of the trainer's model."""
        return self.model.parameters()

    def step(self, batch: Arrays) -> dict[str, float]:
        """One update: loss, rate and norm."""
        return self._call("step", fresh(batch), names=REPORTED)

    def accumulate(self, batches: Sequence[Arrays]) -> dict[str, float]:
        """One update from several batches."""
        return self._call("accumulate", [fresh(batch) for batch in batches], names=REPORTED)

    def evaluate(
        self, batches: Sequence[Arrays], *, once: bool = False, copied: bool = True
    ) -> dict[str, float]:
        """Loss and perplexity; with `once` from batches that can be read only once.

        Without `copied` the trainer gets the caller's list, as in a loop that evaluates after every epoch.
        """
        given = _copies(batches) if once else list(_copies(batches)) if copied else batches
        return self._call("evaluate", given, names=("loss", "perplexity"))

    def fit(self, batches: Sequence[Arrays], log_every: int, *, once: bool = True) -> list[dict[str, float]]:
        """Step through the batches; what was logged."""
        logged: list[dict[str, float]] = []

        def on_log(entry: Any) -> None:
            logged.append(_numbers(entry, "the log", ("step", "loss", "rate")))

        method = self._method("fit")
        given = _copies(batches) if once else list(_copies(batches))
        guarded("trainer.fit", lambda: method(given, log_every, on_log))
        return logged

    def save(self, directory: str) -> None:
        """Write a checkpoint."""
        method = self._method("save")
        guarded("trainer.save", lambda: method(directory))

    def load(self, directory: str) -> None:
        """Continue from a checkpoint."""
        method = self._method("load")
        guarded("trainer.load", lambda: method(directory))

    def _call(self, name: str, argument: Any, *, names: tuple[str, ...]) -> dict[str, float]:
        method = self._method(name)
        return _numbers(guarded(f"trainer.{name}", lambda: method(argument)), f"trainer.{name}", names)

    def _method(self, name: str) -> Any:
        method = reading("the trainer", lambda: getattr(self.trainer, name, None))
        if not callable(method):
            raise NotOffered(f"trainer has no {name}()")
        return method


class JudgedOptimizer:
    """A fresh optimiser over the parameters of an architecture's model, or another one over any arrays."""

    def __init__(
        self,
        impl: JudgedImplementation,
        config: Config,
        parameters: Arrays,
        architecture: Architecture = ENCODER_DECODER,
        *,
        operation: str = "",
    ) -> None:
        self.optimizer = impl.construct(operation or architecture.optimizer, impl.with_run_options(config))
        self.load(parameters)

    def load(self, parameters: Arrays) -> None:
        """Set the parameters; the moments are forgotten."""
        guarded("optimizer.load", lambda: self.optimizer.load(fresh(parameters)))

    def step(self, gradients: Arrays, rate: float) -> None:
        """One update."""
        guarded("optimizer.step", lambda: self.optimizer.step(fresh(gradients), rate))

    def parameters(self) -> dict[str, Array]:
        """Copies of the parameters as they are now."""
        found = guarded("optimizer.parameters", self.optimizer.parameters)
        return arrays_of(found, "optimizer.parameters")


def number_of(value: Any, label: str) -> float:
    """A plain float; Violation where it is none."""

    def look() -> float:
        try:
            return float(value)
        except (TypeError, ValueError):
            raise Violation(f"{label} is {kind_of(value)}, should be a number") from None

    found: float = reading(label, look)
    return found


def finite_number(value: Any, label: str) -> float:
    """A float that is neither NaN nor infinite."""
    number = number_of(value, label)
    if not math.isfinite(number):
        raise Violation(f"{label} is {number}, should be finite")
    return number


def _copies(batches: Iterable[Arrays]) -> Iterator[dict[str, Any]]:
    for batch in batches:
        yield fresh(batch)


def _numbers(result: Any, label: str, names: tuple[str, ...]) -> dict[str, float]:
    def look() -> dict[str, float]:
        if not isinstance(result, Mapping):
            raise Violation(f"{label} gave {kind_of(result)}; give a mapping with {', '.join(names)}")
        for name in names:
            if name not in result:
                given = ", ".join(map(str, result)) or "nothing"
                raise Violation(f"{label} gave {given}; should give {name}")
        return {name: number_of(result[name], f"{label}[{name!r}]") for name in names}

    found: dict[str, float] = reading(label, look)
    return found
