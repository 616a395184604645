"""What builders return. The protocols describe; they are not base classes."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from attest.contract.arrays import Array, Arrays


@dataclass(frozen=True)
class Gradients:
    """What `gradients` returns: by input name (floating inputs only) and by canonical parameter name.

    Any object with these two attributes will do.
    """

    inputs: Arrays
    parameters: Arrays


class Component(Protocol):
    """What a builder returns. A plain function will do where there are no parameters and no gradients."""

    def __call__(self, **inputs: Array) -> Arrays:
        """Compute the named outputs. In eval mode until `train` is called."""

    def parameters(self) -> Arrays:
        """Copies of all learned arrays under their canonical names; weights are (out, in)."""

    def load(self, parameters: Arrays) -> None:
        """Copy these values in. Called once per example, with every name that `parameters` returns."""

    def buffers(self) -> Arrays:
        """Arrays that belong to the component and are not learned (the table of positions)."""

    def train(self, seed: int) -> None:
        """Until `eval`, each call is a pure function of parameters, inputs and this seed."""

    def eval(self) -> None:
        """Switch off whatever is random."""

    def gradients(self, inputs: Arrays, cotangents: Arrays) -> Gradients:
        """Gradients of sum over outputs of <cotangent, output>, for the named outputs only."""


class Accumulating(Component, Protocol):
    """Optional: a component that holds the gradients of its parameters from one backward pass to the next."""

    def add_gradients(self, inputs: Arrays, cotangents: Arrays) -> None:
        """Add the gradients of the parameters, as `gradients` returns them, to those held."""

    def held_gradients(self) -> Arrays:
        """Copies of what is held by canonical name; zeros before anything was added."""

    def zero_gradients(self) -> None:
        """Hold zeros again."""


class Transformer(Component, Protocol):
    """The full model. Masks are made from the ids and pad_id inside.

    The decoding methods are optional. A state is opaque, and used up by `step` and `reorder`.
    """

    def encode(self, *, source: Array) -> Arrays:
        """memory (B, S, D)."""

    def decode(self, *, target: Array, memory: Array, source: Array) -> Arrays:
        """logits (B, T, V); `source` is there for its padding."""

    def attention_maps(self, *, source: Array, target: Array) -> Arrays:
        """Optional. The weights of every layer and head before dropout, in evaluation mode.

        encoder (L, B, H, S, S), decoder (N, B, H, T, T) and cross (N, B, H, T, S), the first layer first.
        """

    def start(self, source: Array) -> Any:
        """Run the encoder once and return the state of an empty prefix."""

    def step(self, state: Any, tokens: Array) -> tuple[Array, Any]:
        """Append tokens (B, n), n >= 1; logits (B, n, V) and the new state."""

    def reorder(self, state: Any, rows: Array) -> Any:
        """The state whose row i is the old row rows[i]; rows may repeat, drop and grow."""


class LanguageModel(Component, Protocol):
    """Decoder only: logits of what follows each token.

    A token's position is the number of real tokens before it; pad_id is hidden wherever it stands, and logits
    under padding are unspecified. The decoding methods are optional; a state is opaque, and used up by each
    of them. A prompt is a step of several tokens.
    """

    def start(self, rows: int) -> Any:
        """The state of so many rows without a token."""

    def step(self, state: Any, tokens: Array) -> tuple[Array, Any]:
        """Append tokens (B, n), n >= 1; logits (B, n, V) and the new state."""

    def reorder(self, state: Any, rows: Array) -> Any:
        """The state whose row i is the old row rows[i]; rows may repeat, drop and grow."""

    def rewind(self, state: Any, count: int) -> Any:
        """Optional. The state without the last `count` tokens of every row, as speculative decoding needs."""

    def packed(self, *, ids: Array, lengths: Array) -> Arrays:
        """Optional. logits (B, T, V) and loss () of several documents in each row of ids (B, T).

        Document n of row b has lengths[b, n] tokens, none where that is 0, and follows the one before it;
        what is left of the row is padding. Documents do not see each other, positions count from 0 in each,
        and the last token of a document predicts nothing: `loss` is the mean cross-entropy of the others.
        `gradients` with inputs that have `lengths` are those of this method.
        """


class Optimizer(Protocol):
    """`optimizer` is Adam with beta 0.9, 0.98, epsilon 1e-9, no weight decay. The others read the config.

    With gradient g and rate r: `sgd` p - r g; `momentum` v = momentum v + g from zero, p - r v; `adam` as
    `optimizer`; `adamw` p - r (Adam's direction + weight_decay p), where only arrays of two or more axes
    decay: neither biases nor the gains of norms.
    """

    def parameters(self) -> Arrays: ...

    def load(self, parameters: Arrays) -> None:
        """Set the parameters and forget the moments."""

    def step(self, gradients: Arrays, rate: float) -> None: ...


class Trainer(Protocol):
    """A model, its optimiser, schedule and clipping.

    A batch has `source` (B, S) and `target` (B, T) = BOS ... EOS pad; the trainer shifts the target and makes
    the masks. Each step takes the next learning rate, counted from step 1.

    A batch of a language model is `ids` (B, T), shifted as the target is. One of a masked language model is
    `ids` (B, T) as mask_tokens hid them and `labels` (B, T), the id that is asked for where a token was
    chosen and pad_id elsewhere; one of a classifier `ids` and `labels` (B,), the class of each row, all of
    which count. Segments are of kind 0. What is said of tokens below holds for the labels that count.
    """

    model: Transformer

    def step(self, batch: Arrays) -> Mapping[str, float]:
        """One update: `loss` before it, `rate` used, `norm` of the gradient before clipping."""

    def accumulate(self, batches: Sequence[Arrays]) -> Mapping[str, float]:
        """Optional. One update from several batches, equal to the one from their concatenation."""

    def fit(self, batches: Iterable[Arrays], log_every: int, on_log: Any) -> None:
        """`step` through the batches; `on_log({"step", "loss", "rate"})` after every log_every-th step."""

    def evaluate(self, batches: Iterable[Arrays]) -> Mapping[str, float]:
        """`loss` per token without smoothing or dropout, and `perplexity`; changes nothing."""

    def save(self, directory: str) -> None: ...

    def load(self, directory: str) -> None:
        """Continue to the bit as if training had never stopped, whatever seed this trainer was built with."""


class Generator(Component, Protocol):
    """Built from a config, loaded with the parameters of a transformer."""

    def __call__(  # type: ignore[override]
        self,
        *,
        source: Array,
        max_len: int,
        width: int = 4,
        num_results: int = 1,
        alpha: float = 0.6,
        method: str = "beam",
        temperature: float = 1.0,
        top_k: int | None = None,
        top_p: float | None = None,
        seed: int = 0,
    ) -> Arrays:
        """tokens (B, K, L): without BOS, with EOS, then pad. scores (B, K), best first.

        `method` is "greedy" (K = 1, score: summed log-probability), "beam" or "sample" (K = 1). L <= max_len.
        Dropout is off whatever the mode; a `training` flag of the component or of its `module` or `model`,
        where there is one, is afterwards as before.
        """


class CompiledComponent(Protocol):
    """What a component of an implementation with `compiled = True` also answers."""

    def compile_report(self) -> Mapping[str, int]:
        """`graphs`, `graph_breaks`, `compilations` and `compiled_calls` since the component was built."""
