"""Defects of compiled implementations: the reference with a compile report, which tells the truth or lies."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

import numpy as np

from attest.contract import Array, Arrays, Config
from attest.judging.catalogue import defect
from attest.reference.component import ReferenceComponent
from attest.reference.implementation import ReferenceImplementation
from attest.reference.models.transformer import ReferenceTransformer
from attest.reference.training.trainer import ReferenceTrainer


class Counted(ReferenceComponent):
    """Every job has one graph, made on first use."""

    def __init__(self, *args: Any) -> None:
        super().__init__(*args)
        self.graphs: set[str] = set()
        self.compilations = self.calls = self.breaks = 0

    def ran(self, job: str) -> None:
        if job not in self.graphs:
            self.graphs.add(job)
            self.compilations += 1
        self.calls += 1

    def compile_report(self) -> Mapping[str, int]:
        return {
            "graphs": len(self.graphs),
            "graph_breaks": self.breaks,
            "compilations": self.compilations,
            "compiled_calls": self.calls,
        }

    def __call__(self, **inputs: Any) -> dict[str, Array]:
        outputs = super().__call__(**inputs)
        self.ran("forward")
        return outputs


class CountedTransformer(Counted, ReferenceTransformer):
    """A step counts as one job."""

    def step(self, state: Any, tokens: Array) -> tuple[Array, Any]:
        result = super().step(state, tokens)
        self.ran("step")
        return result


class CountedTrainer(ReferenceTrainer):
    """A training step counts as one job."""

    def accumulate(self, batches: Any) -> dict[str, float]:
        result = super().accumulate(batches)
        self.model.ran("training")  # type: ignore[attr-defined]
        return result


class CompiledReference(ReferenceImplementation):
    """The reference as a compiled implementation."""

    dtypes: tuple[str, ...] = ("float32",)  # type: ignore[assignment]
    compiled = True
    component_class: ClassVar[type[ReferenceComponent]] = Counted
    transformer_class: ClassVar[type[ReferenceTransformer]] = CountedTransformer
    trainer_class: ClassVar[type[ReferenceTrainer]] = CountedTrainer


def exchanging(component: type[ReferenceComponent]) -> type[ReferenceTransformer]:
    """A transformer that has what a changed component has."""
    return type(component.__name__, (component, CountedTransformer), {})


class _Broken(Counted):
    def ran(self, job: str) -> None:
        self.breaks += job not in self.graphs
        super().ran(job)


@defect("MC.1")
class a_print_breaks_the_graph(CompiledReference):
    """Something in the forward pass cannot be compiled, and the graph is broken there."""

    component_class = _Broken
    transformer_class = exchanging(_Broken)


class _Pieces(CountedTransformer):
    def step(self, state: Any, tokens: Array) -> tuple[Array, Any]:
        for layer in range(3):
            self.graphs.add(f"step {layer}")
        return super().step(state, tokens)


@defect("MC.1")
class a_graph_for_every_layer(CompiledReference):
    """A decoding step is many small graphs with the interpreter in between."""

    transformer_class = _Pieces


class _Recompiling(CountedTransformer):
    def step(self, state: Any, tokens: Array) -> tuple[Array, Any]:
        self.compilations += 1
        return super().step(state, tokens)


@defect("MC.2")
class recompiles_every_step(CompiledReference):
    """The length of the cache is a Python number in the guards."""

    transformer_class = _Recompiling


class _EveryEight(CountedTransformer):
    def step(self, state: Any, tokens: Array) -> tuple[Array, Any]:
        self.compilations += self.calls % 8 == 7
        return super().step(state, tokens)


@defect("MC.2")
class recompiles_when_the_cache_grows(CompiledReference):
    """The cache grows by eight places, and every size is a new program."""

    transformer_class = _EveryEight


class _FirstLength(Counted):
    first: int | None = None

    def __call__(self, **inputs: Any) -> dict[str, Array]:
        outputs = super().__call__(**inputs)
        name, value = next((n, v) for n, v in outputs.items())
        if value.ndim < 2:
            return outputs
        self.first = self.first or value.shape[-2]
        wrong = value.copy()
        if value.shape[-2] > self.first:
            wrong[..., self.first :, :] = wrong[..., self.first - 1 : self.first, :]
        return {**outputs, name: wrong}


@defect("MC.3")
class keeps_the_first_length(CompiledReference):
    """The first length seen is a constant of the program; later positions repeat its last one."""

    component_class = _FirstLength
    transformer_class = exchanging(_FirstLength)


class _LengthOne(Counted):
    def __call__(self, **inputs: Any) -> dict[str, Array]:
        outputs = super().__call__(**inputs)
        bad = {n: np.full_like(v, np.nan) for n, v in outputs.items() if v.ndim > 1 and v.shape[-2] == 1}
        return {**outputs, **bad}


@defect("MC.3")
class length_one_is_nan(CompiledReference):
    """A dimension of 1 is taken for one to broadcast, and what is read there is not a number."""

    component_class = _LengthOne
    transformer_class = exchanging(_LengthOne)


class _Reused(CountedTransformer):
    space: Array | None = None

    def step(self, state: Any, tokens: Array) -> tuple[Array, Any]:
        logits, grown = super().step(state, tokens)
        if self.space is None or self.space.shape != logits.shape:
            self.space = logits
        self.space[...] = logits
        return self.space, grown


@defect("MC.4")
class output_overwritten_by_next_step(CompiledReference):
    """Every step writes its logits into the same memory."""

    transformer_class = _Reused


class _Recorded(Counted):
    space: dict[str, Array] | None = None

    def __call__(self, **inputs: Any) -> dict[str, Array]:
        outputs = super().__call__(**inputs)
        if self.space is None or any(self.space[n].shape != v.shape for n, v in outputs.items()):
            self.space = outputs
        for name, value in outputs.items():
            self.space[name][...] = value
        return self.space


@defect("MC.4")
class output_overwritten_by_next_call(CompiledReference):
    """A recorded graph returns its own buffer."""

    component_class = _Recorded
    transformer_class = exchanging(_Recorded)


class _Unchecked(Counted):
    def accept(self, inputs: Mapping[str, Any]) -> dict[str, Any]:
        given = {name: np.asarray(x) for name, x in inputs.items() if x is not None}
        sizes = {"source": self.config.source_vocab, "target": self.config.target_vocab}
        return {n: x % sizes[n] if n in sizes else x for n, x in given.items()}


@defect("MC.5")
class checks_are_compiled_away(CompiledReference):
    """An id out of range reads whatever stands there."""

    component_class = _Unchecked
    transformer_class = exchanging(_Unchecked)


class _UncheckedLater(Counted):
    def check_inputs(self, given: Arrays) -> None:
        if self.calls:
            given = {n: np.clip(x, 0, 12) if x.dtype == np.int64 else x for n, x in given.items()}
        super().check_inputs(given)

    def accept(self, inputs: Mapping[str, Any]) -> dict[str, Any]:
        given = super().accept(inputs)
        return {n: np.clip(x, 0, 12) if x.dtype == np.int64 else x for n, x in given.items()}


@defect("MC.5")
class checks_only_the_first_call(CompiledReference):
    """The check ran while the program was recorded, and is not part of it."""

    component_class = _UncheckedLater
    transformer_class = exchanging(_UncheckedLater)


class _Plain(Counted):
    def ran(self, job: str) -> None:
        pass


@defect("MC.6", "MC.1")
class falls_back_to_eager(CompiledReference):
    """The compiler gives up in silence and the plain code runs."""

    component_class = _Plain
    transformer_class = exchanging(_Plain)


class _GivesUp(Counted):
    def ran(self, job: str) -> None:
        if not self.calls:
            super().ran(job)


@defect("MC.6")
class gives_up_after_the_first_shape(CompiledReference):
    """The limit of programs is reached; every other shape runs the plain code."""

    component_class = _GivesUp
    transformer_class = exchanging(_GivesUp)


class OnTorch(CompiledReference):
    """The transformer is a small torch model; the loss is left out."""

    kind = "right"
    loss = None

    def transformer(self, config: Config) -> Any:
        from attest.adapters.samples import sample

        return sample(self.kind, config)


@defect("MC.7", "MC.7a")
class wrong_device_mask(OnTorch):
    """The causal mask is made on the CPU."""

    kind = "mask"


@defect("MC.7")
class table_is_no_buffer(OnTorch):
    """The table of positions stays where it was made."""

    kind = "table"


@defect("MC.7")
class wrong_device_position(OnTorch):
    """Decoding counts its positions on the CPU."""

    kind = "cache"


@defect("MC.9")
class looks_at_every_token(CompiledReference):
    """After each token the program waits for the device to say whether all rows have ended."""

    look = "impatient"

    def generate(self, config: Config) -> Any:
        from attest.adapters.samples import sample

        return sample(self.look, config)


class _Permuted(Counted):
    def __call__(self, **inputs: Any) -> dict[str, Array]:
        key = "key_value" if self.operation == "multi_head_attention" else "k"
        if self.operation not in ("attention", "multi_head_attention"):
            return super().__call__(**inputs)
        heads = self.config.num_heads if key == "key_value" else np.shape(inputs[key])[1]
        if key == "k" and np.ndim(inputs[key]) == 4 and heads == np.shape(inputs[key])[2]:
            inputs = {**inputs, "k": np.swapaxes(inputs["k"], 1, 2)}
        if key == "key_value" and heads == np.shape(inputs[key])[1]:
            inputs = {**inputs, key: np.asarray(inputs[key])[:, ::-1]}
        return super().__call__(**inputs)


@defect("MC.8")
class permutation_taken_for_a_transpose(CompiledReference):
    """With as many keys as heads the two axes are exchanged."""

    component_class = _Permuted


class _Strided(Counted):
    def __call__(self, **inputs: Any) -> dict[str, Array]:
        k = inputs.get("k")
        if k is not None and not k.flags.c_contiguous:
            inputs = {**inputs, "k": np.ravel(k, order="K").reshape(k.shape)}
        return super().__call__(**inputs)


@defect("MC.8")
class strides_are_ignored(CompiledReference):
    """The program reads keys as they lie in memory, whatever their strides."""

    component_class = _Strided
