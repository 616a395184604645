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

from attest.contract.arrays import Array, Arrays, float_dtype
from attest.contract.config import Config
from attest.contract.declarations import Implementation, KnownFailure, ShapePolicy
from attest.contract.hooks import PROJECT, Hooks, hookimpl, hookspec
from attest.contract.milestones import Milestone
from attest.contract.operations import FUNCTIONS, OPERATIONS, register_operation
from attest.contract.protocols import (
    CompiledComponent,
    Component,
    Generator,
    Gradients,
    Optimizer,
    Trainer,
    Transformer,
)

__all__ = [
    "FUNCTIONS",
    "OPERATIONS",
    "PROJECT",
    "Array",
    "Arrays",
    "CompiledComponent",
    "Component",
    "Config",
    "Generator",
    "Gradients",
    "Hooks",
    "Implementation",
    "KnownFailure",
    "Milestone",
    "Optimizer",
    "ShapePolicy",
    "Trainer",
    "Transformer",
    "float_dtype",
    "hookimpl",
    "hookspec",
    "register_operation",
]
