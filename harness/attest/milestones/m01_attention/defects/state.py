"""Defects of memory layout, state and length that any component may have; each acts on the operations of M1.

Shapes: q (..., T, d), k and v (..., S, d), x (B, T, D).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from attest.contract import Arrays, Config, Gradients
from attest.judging.catalogue import defect
from attest.reference.component import ReferenceComponent
from attest.reference.implementation import ReferenceImplementation
from attest.reference.parts.masks import Masks
from attest.reference.tape import Array

Inputs = Mapping[str, Any]


@defect("M1.16")
class buffer_read_in_its_own_order(ReferenceComponent):
    """Inputs are read in the order of their memory, whatever their strides say."""

    def accept(self, inputs: Inputs) -> dict[str, Any]:
        given = super().accept(inputs)
        return {name: x.ravel(order="K").reshape(x.shape) for name, x in given.items()}


@defect("M1.16")
class mask_read_in_its_own_order(ReferenceComponent):
    """The mask alone is read in the order of its memory."""

    def accept(self, inputs: Inputs) -> dict[str, Any]:
        given = super().accept(inputs)
        return {n: x.ravel(order="K").reshape(x.shape) if n == "mask" else x for n, x in given.items()}


@defect("M1.16")
class read_only_inputs_refused(ReferenceComponent):
    """An input that cannot be written raises."""

    def accept(self, inputs: Inputs) -> dict[str, Any]:
        for name, x in inputs.items():
            if isinstance(x, np.ndarray) and not x.flags.writeable:
                raise ValueError(f"{name} is read-only")
        return super().accept(inputs)


@defect("M1.16")
class steps_between_ids_ignored(Masks):
    """The padding mask reads as many ids from the buffer as there are, without their steps."""

    def padding_mask(self, ids: Array, pad_id: int) -> Array:
        base = ids.base if isinstance(ids.base, np.ndarray) and ids.base.size >= ids.size else ids
        return super().padding_mask(base.ravel(order="K")[: ids.size].reshape(ids.shape), pad_id)


@defect("M1.2", "M1.1", "M2.5", "M3.1", "M3.3", "M3.5", "M3.6", "M4.1", "M4.3", "M4.6", "M4.9")
class scratch_of_the_longest_call(ReferenceComponent):
    """A result is kept with its length; for a shorter input its beginning is handed out again."""

    def release(self, outputs: Mapping[str, Any]) -> dict[str, Array]:
        fresh = super().release(outputs)
        if not hasattr(self, "_longest"):
            self._longest: dict[tuple[str, int], Array] = {}
        return {name: self.kept(name, x) if x.ndim > 2 else x for name, x in fresh.items()}

    def kept(self, name: str, x: Array) -> Array:
        held = self._longest.setdefault((name, x.ndim), x)
        if held.shape[-2] <= x.shape[-2] or held.shape[:-2] != x.shape[:-2] or held.shape[-1] != x.shape[-1]:
            self._longest[name, x.ndim] = x
            return x
        return held[..., : x.shape[-2], :].copy()


@defect("M1.2", "M1.1", "M2.5", "M3.1", "M3.3", "M3.5", "M3.6", "M4.1", "M4.3", "M4.6", "M4.9")
class results_in_float64(ReferenceComponent):
    """Results have the dtype of the arithmetic inside."""

    def release(self, outputs: Mapping[str, Any]) -> dict[str, Array]:
        return {name: x.astype(np.float64) for name, x in super().release(outputs).items()}


@defect("M1.15", "M2.13", "M3.10a", "M4.12")
class builder_memoised(ReferenceImplementation):
    """The builder returns the same component every time it is called with a config."""

    def build(self, operation: str, config: Config, kind: type[ReferenceComponent] | None = None) -> Any:
        if not hasattr(self, "_built"):
            self._built: dict[tuple[str, Config], Any] = {}
        key = (operation, config)
        if key not in self._built:
            self._built[key] = super().build(operation, config, kind)
        return self._built[key]


@defect("M1.15", "M2.13", "M3.10a", "M4.12")
class load_keeps_reference(ReferenceComponent):
    """The arrays given to load are kept, not copied."""

    def load(self, parameters: Arrays) -> None:
        super().load(parameters)
        self._values = {n: np.asarray(parameters[n], self.dtype) for n in self.shapes()}

    def scope(self, gradient: bool = False) -> Any:
        self._scope = None
        return super().scope(gradient)


@defect("M1.15", "M2.13", "M3.10a", "M4.12")
class parameters_are_views(ReferenceComponent):
    """parameters() returns the arrays themselves."""

    def parameters(self) -> dict[str, Array]:
        return dict(self.values)

    def scope(self, gradient: bool = False) -> Any:
        self._scope = None
        return super().scope(gradient)


@defect("M1.15", "M2.13", "M3.10a", "M4.12")
class gradients_switch_to_eval(ReferenceComponent):
    """After gradients the component is in eval mode."""

    def gradients(self, inputs: Arrays, cotangents: Arrays) -> Gradients:
        found = super().gradients(inputs, cotangents)
        self.eval()
        return found


@defect("M2.13", "M3.10a", "M4.12")
class loading_switches_to_eval(ReferenceComponent):
    """After load the component is in eval mode."""

    def load(self, parameters: Arrays) -> None:
        super().load(parameters)
        self.eval()


@defect("M1.14")
class one_feature_is_repeated(ReferenceComponent):
    """An input of one feature is repeated to the width of the model."""

    def accept(self, inputs: Inputs) -> dict[str, Any]:
        width = self.config.d_model
        return super().accept(
            {
                n: np.repeat(x, width, -1) if n == "x" and np.ndim(x) == 3 and x.shape[-1] == 1 else x
                for n, x in inputs.items()
            }
        )
