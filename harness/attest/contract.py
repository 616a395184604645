"""The plugin author's manual: what an implementation offers and what each operation takes and returns.

A plugin is a module with one function, `attest_implementations()`, marked with
`pluggy.HookimplMarker("attest")`. It returns a list of objects; each has a `name` and any subset of the
operations below. What is missing is reported as *not offered*, never as a failure. Nothing has to be
imported from this file: the protocols describe, they are not base classes.

Shapes: B batch, H heads, T queries (target length), S keys (source length), D width (d_model), V vocabulary.

Only numpy arrays cross the boundary: float32 or float64 (the config's dtype; an implementation that
computes in bfloat16 or float16 takes and returns float32), int64 ids, bool masks. A mask is True where a
query may attend.

Every operation except the mask functions and `next_token_distribution` is a builder: it takes a `Config`
and returns a component. A builder reads what it needs, raises NotImplementedError for an option it does not
have (then *not offered*) and ValueError for a config that makes no sense.

operation                 called with (keywords)                       returns (mapping of arrays)
------------------------- -------------------------------------------- ---------------------------------
attention                 q k v (..., T|S, d), mask?, causal?          output (..., T, d_v), weights?
qkv_projection            x (B, T, D)                                  q k v (B, T, D)
length_mask(lengths, size), padding_mask(ids, pad_id)                  bool (B, 1, S)
causal_mask(T, S)                                                      bool (T, S), bottom-right aligned
multi_head_attention      query (B, T, D), key_value (B, S, D), mask?  output (B, T, D), weights? (B, H, T, S)
feed_forward              x (B, T, D)                                  output
token_embedding           ids (B, T)                                   output (B, T, D), not scaled
positional_encoding       x (B, T, D)                                  output = x + positions
input_embedding           ids (B, T)                                   dropout(scaled tokens + positions)
layer_norm                x (B, T, D)                                  output
encoder_layer, encoder    x (B, S, D), mask?                           output
decoder_layer, decoder    x (B, T, D), memory (B, S, D), mask?,        output; causal, `mask` on top of it
                          memory_mask?
transformer               source (B, S), target (B, T)                 logits (B, T, V)
loss                      logits (B, T, V), labels (B, T)              loss ()
learning_rate             step (int, from 1)                           a float
clip_gradients            gradients (mapping)                          mapping of the same names
optimizer                 see Optimizer
trainer                   see Trainer
generate                  source (B, S) and keywords, see Generator    tokens (B, K, L), scores (B, K)
next_token_distribution(logits (B, V), temperature, top_k, top_p)      probabilities (B, V)

`mask?` is left out or of a form that broadcasts: for attention to (..., T, S); above it (T, S) or
(B or 1, T or 1, S), with no head axis; key padding is (B, 1, S).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Protocol, runtime_checkable

import numpy as np
import numpy.typing as npt
import pluggy

Array = npt.NDArray[Any]
Arrays = Mapping[str, Array]

PROJECT = "attest"
hookspec = pluggy.HookspecMarker(PROJECT)
hookimpl = pluggy.HookimplMarker(PROJECT)

OPERATIONS: Mapping[str, str] = {
    "attention": "M1",
    "qkv_projection": "M1",
    "length_mask": "M1",
    "padding_mask": "M1",
    "causal_mask": "M1",
    "multi_head_attention": "M2",
    "feed_forward": "M3",
    "token_embedding": "M3",
    "positional_encoding": "M3",
    "input_embedding": "M3",
    "layer_norm": "M4",
    "encoder_layer": "M4",
    "decoder_layer": "M4",
    "encoder": "M4",
    "decoder": "M4",
    "transformer": "M5",
    "loss": "M5",
    "learning_rate": "M5",
    "clip_gradients": "M5",
    "optimizer": "M5",
    "trainer": "M5",
    "generate": "M6",
    "next_token_distribution": "M6",
}

FUNCTIONS = frozenset({"length_mask", "padding_mask", "causal_mask", "next_token_distribution"})


@dataclass(frozen=True, kw_only=True)
class Config:
    """One flat value for every builder. Not validated here: refusing a bad one is the builder's duty."""

    d_model: int = 512
    num_heads: int = 8
    d_ff: int | None = None  # None: 4 * d_model
    num_encoder_layers: int = 6
    num_decoder_layers: int = 6
    source_vocab: int = 32
    target_vocab: int = 32
    max_len: int = 512
    dropout: float = 0.1
    norm: str = "post"  # or "pre"
    norm_eps: float = 1e-5
    activation: str = "relu"  # or "gelu", the exact one
    bias: bool = True  # of every linear map; the norms keep theirs
    scale_embeddings: bool = True
    tie: bool = False  # projection.weight is target_embedding.weight
    pad_id: int = 0
    bos_id: int = 1
    eos_id: int = 2
    label_smoothing: float = 0.0
    schedule: str = "inverse_sqrt"  # or "cosine"
    warmup: int = 4000
    peak_rate: float = 1e-3  # cosine only
    floor_rate: float = 0.0  # cosine only
    total_steps: int = 100_000  # cosine only
    clip_norm: float = 1.0
    dtype: str = "float32"
    device: str = "cpu"
    seed: int = 0
    options: tuple[tuple[str, str], ...] = ()

    @property
    def inner_width(self) -> int:
        """Width of the feed-forward layer: d_ff, or four times d_model when it is None."""
        return 4 * self.d_model if self.d_ff is None else self.d_ff

    def but(self, **changes: Any) -> Config:
        """A copy with some fields changed."""
        return replace(self, **changes)


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


class Transformer(Component, Protocol):
    """The full model. Masks are made from the ids and pad_id inside.

    The decoding methods are optional. A state is opaque, and used up by `step` and `reorder`.
    """

    def encode(self, *, source: Array) -> Arrays:
        """memory (B, S, D)."""

    def decode(self, *, target: Array, memory: Array, source: Array) -> Arrays:
        """logits (B, T, V); `source` is there for its padding."""

    def start(self, source: Array) -> Any:
        """Run the encoder once and return the state of an empty prefix."""

    def step(self, state: Any, tokens: Array) -> tuple[Array, Any]:
        """Append tokens (B, n), n >= 1; logits (B, n, V) and the new state."""

    def reorder(self, state: Any, rows: Array) -> Any:
        """The state whose row i is the old row rows[i]; rows may repeat, drop and grow."""


class Optimizer(Protocol):
    """Adam with beta 0.9, 0.98, epsilon 1e-9, no weight decay."""

    def parameters(self) -> Arrays: ...

    def load(self, parameters: Arrays) -> None:
        """Set the parameters and forget the moments."""

    def step(self, gradients: Arrays, rate: float) -> None: ...


class Trainer(Protocol):
    """A model, its optimiser, schedule and clipping.

    A batch has `source` (B, S) and `target` (B, T) = BOS ... EOS pad; the trainer shifts the target and makes
    the masks. Each step takes the next learning rate, counted from step 1.
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


@dataclass(frozen=True)
class KnownFailure:
    """A criterion an implementation is known to fail. `witness` is one case, as the report prints it."""

    criterion: str
    reason: str
    link: str
    witness: str


@dataclass(frozen=True)
class ShapePolicy:
    """How drawn cases are narrowed for an implementation that pays for every new shape.

    `min_size`: no batch, length or head count below it. `one_config`: each operation keeps to a small fixed
    set of configs instead of a drawn one. `always_mask`: an all-True mask in place of none.
    """

    min_size: int = 1
    one_config: bool = False
    always_mask: bool = False

    def sentence(self) -> str:
        """As the report prints it; empty where nothing is narrowed."""
        asked = {
            f"no batch, length or head count below {self.min_size}": self.min_size > 1,
            "few fixed configs per operation, one dtype and at most one more for gradients": self.one_config,
            "an all-True mask in place of none": self.always_mask,
        }
        return "; ".join(rule for rule, holds in asked.items() if holds)


@runtime_checkable
class Implementation(Protocol):
    """Only `name` is required. The operations are attributes of this object; so are these declarations.

    description       one line
    dtypes            what it computes in, of float32, float64, bfloat16, float16; default ("float32",)
    devices           default ("cpu",)
    known_failures    a sequence of KnownFailure
    shape_policy      a ShapePolicy
    wider_bounds      operation -> factor above 1 by which its bounds are widened; the report says so
    compiled          True if its components run compiled code; see CompiledComponent
    """

    name: str


class CompiledComponent(Protocol):
    """What a component of an implementation with `compiled = True` also answers."""

    def compile_report(self) -> Mapping[str, int]:
        """`graphs`, `graph_breaks`, `compilations` and `compiled_calls` since the component was built."""


class Hooks:
    """The hook specifications of the pluggy project `attest`."""

    @hookspec
    def attest_implementations(self) -> Sequence[Implementation]:
        """Return the implementations of this plugin, as a list.

        >>> @pluggy.HookimplMarker("attest")
        ... def attest_implementations():
        ...     return [MyTransformer()]
        """
        raise NotImplementedError

    @hookspec
    def attest_milestones(self) -> Sequence[Any]:
        """Return further milestones as pairs: path of a spec file, name of the module with its properties.

        >>> @pluggy.HookimplMarker("attest")
        ... def attest_milestones():
        ...     return [(Path(__file__).parent / "m07_mine.toml", "my_package.m07_criteria")]
        """
        raise NotImplementedError


def float_dtype(dtype: str) -> np.dtype[Any]:
    """The dtype of arrays that cross the boundary for a compute dtype: float64 for itself, else float32."""
    return np.dtype(np.float64 if dtype == "float64" else np.float32)
