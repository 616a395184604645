"""The plugin author's manual: what an implementation offers and what each operation takes and returns.

A plugin is a module with one function, `attest_implementations()`, marked with
`pluggy.HookimplMarker("attest")`. It returns a list of objects; each has a `name` and any subset of the
operations below. What is missing is reported as *not offered*, never as a failure. Nothing has to be
imported from this file: the protocols describe, they are not base classes.

Shapes: B batch, H heads, T queries (target length), S keys (source length), D width (d_model), V vocabulary,
K results, L tokens of the longest result; d and d_v are widths of attention alone.

Only numpy arrays cross the boundary: float32 or float64 (the config's dtype; an implementation that
computes in bfloat16 or float16 takes and returns float32), int64 ids, bool masks. A mask is True where a
query may attend.

Every operation is a builder: it takes a `Config` and returns a component. The exceptions are marked with
(): they are plain functions that take positional arguments and return one array, or a text. A builder reads
what it needs, raises NotImplementedError for an option it does not have (then *not offered*) and ValueError
for a config that makes no sense.

operation                     called with (keywords)                      returns (mapping of arrays)
----------------------------- ------------------------------------------- -----------------------------------
attention                     q (..., T, d), k (..., S, d),               output (..., T, d_v),
                              v (..., S, d_v), mask?, causal?             weights? (..., T, S)
qkv_projection                x (B, T, D)                                 q (B, T, D), k (B, T, D),
                                                                          v (B, T, D)
length_mask()                 lengths (B), size                           output (B, 1, S)
padding_mask()                ids (B, S), pad_id                          output (B, 1, S)
causal_mask()                 T, S                                        output (T, S); aligned at the bottom
                                                                          right
multi_head_attention          query (B, T, D), key_value (B, S, D), mask? output (B, T, D),
                                                                          weights? (B, H, T, S)
feed_forward                  x (B, T, D)                                 output (B, T, D)
token_embedding               ids (B, T)                                  output (B, T, D); not scaled
positional_encoding           x (B, T, D)                                 output (B, T, D); x + positions
input_embedding               ids (B, T)                                  output (B, T, D); dropout(scaled
                                                                          tokens + positions)
layer_norm                    x (B, T, D)                                 output (B, T, D)
rms_norm                      x (B, T, D)                                 output (B, T, D)
encoder_layer                 x (B, T, D), mask?                          output (B, T, D)
decoder_layer                 x (B, T, D), memory (B, S, D), mask?,       output (B, T, D); causal; `mask` on
                              memory_mask?                                top of it
encoder                       x (B, T, D), mask?                          output (B, T, D)
decoder                       x (B, T, D), memory (B, S, D), mask?,       output (B, T, D); causal; `mask` on
                              memory_mask?                                top of it
transformer                   source (B, S), target (B, T)                logits (B, T, V)
loss                          logits (B, T, V), labels (B, T)             loss ()
learning_rate                 step                                        rate (); a plain number; steps count
                                                                          from 1
clip_gradients                gradients                                   a mapping of the same names
optimizer                                                                 see Optimizer
trainer                                                                   see Trainer
generate                      source (B, S), max_len, width?,             tokens (B, K, L), scores (B, K); see
                              num_results?, alpha?, method?,              Generator
                              temperature?, top_k?, top_p?, seed?
next_token_distribution()     logits (B, V), temperature?, top_k?, top_p? output (B, V)
rotary                        x (B, H, T, d), positions (B, T)            output (B, H, T, d); pairs of
                                                                          features turned by their angle
alibi_slopes()                num_heads                                   output (H); positive; the bias is
                                                                          -slope times the distance
relative_buckets()            offsets (T, S), buckets, distance, causal?  output (T, S); of key minus query
                                                                          positions
relative_bias                 positions (B, T), key_positions (B, S),     output (B, H, T, S); added to the
                              causal?                                     scores
self_attention                x (B, T, D), mask?, positions? (B, T),      output (B, T, D),
                              causal?                                     weights? (B, H, T, T); positions
                                                                          count from 0 unless given
chunked_attention             q (..., T, d), k (..., S, d),               output (..., T, d_v),
                              v (..., S, d_v), mask?, causal?             log_sum_exp (..., T); log_sum_exp of
                                                                          the scaled scores that a query sees,
                                                                          -inf where it sees none
linear_attention              q (B, H, T, d), k (B, H, S, d),             output (B, H, T, d_v); the kernel is
                              v (B, H, S, d_v), mask?, causal?            elu + 1; `mask` hides keys, from
                                                                          every query alike
block_sparse_attention        q (B, H, T, d), k (B, H, S, d),             output (B, H, T, d_v); `blocks` (H
                              v (B, H, S, d_v), blocks, causal?           or 1, blocks of T, blocks of S):
                                                                          True where a block of queries sees
                                                                          one of keys
causal_layer                  x (B, T, D), mask?, positions? (B, T)       output (B, T, D); causal; `mask` on
                                                                          top of it
language_model                ids (B, T)                                  logits (B, T, V); see LanguageModel
masked_language_model         ids (B, T), segments? (B, T)                logits (B, T, V); every token sees
                                                                          every real one
classifier                    ids (B, T), segments? (B, T)                logits (B, C); of the real tokens
                                                                          pooled
language_model_loss           logits (B, T, V), ids (B, T)                loss (); of what follows each token
language_model_optimizer                                                  see Optimizer
language_model_trainer                                                    see Trainer; a batch is `ids`
masked_language_model_trainer                                             see Trainer; a batch is `ids` and
                                                                          `labels`
classifier_trainer                                                        see Trainer; a batch is `ids` and
                                                                          `labels`
complete                      prompt (B, T), max_len, width?,             tokens (B, K, L), scores (B, K); see
                              num_results?, alpha?, method?,              Generator; new tokens only
                              temperature?, top_k?, top_p?, seed?
mask_tokens()                 ids (B, T), mask_id, vocabulary,            masked (2, B, T); new ids, and 1
                              special (K), seed, rate?                    where a token was chosen; `rate` is
                                                                          0.15 unless given
masked_language_model_loss    logits (B, T, V), ids (B, T),               loss (); of the tokens that were
                              masked (B, T), chosen (B, T)                chosen; masked and chosen are from
                                                                          mask_tokens
linear                        x (B, T, D)                                 output (B, T, F); F is d_ff
activation                    x (B, T, d)                                 output (B, T, d); that of the config
softmax                       x (B, T, S)                                 output (B, T, S); over the last axis
cross_entropy                 logits (B, T, V), labels (B, T)             loss (); the mean over all
                                                                          positions; nothing is padding
sgd                                                                       see Optimizer
momentum                                                                  see Optimizer
adam                                                                      see Optimizer
adamw                                                                     see Optimizer; matrices decay
xavier()                      outputs, inputs, seed                       output (O, I); uniform
he()                          outputs, inputs, seed                       output (O, I); normal
tokenize()                    text                                        ids (T); of the 20 in
                                                                          contract/vocabulary.py
detokenize()                  ids (T)                                     the text, as a str
split_examples()              examples (N, L), seed                       part (N); 0 train, 1 validation, 2
                                                                          test
confusion_matrix()            wanted (N), written (N), classes            counts (C, C); rows wanted, columns
                                                                          written

`mask?` is left out or of a form that broadcasts: for attention to (..., T, S); above it (T, S) or
(B or 1, T or 1, S), with no head axis; key padding is (B, 1, S). `causal?` is left out where it is False.
"""

from attest.contract.architectures import (
    CLASSIFYING,
    DECODER_ONLY,
    ENCODER_DECODER,
    MASKED,
    RELATIVE_ENCODER_DECODER,
    Architecture,
)
from attest.contract.arrays import Array, Arrays, float_dtype
from attest.contract.config import Config
from attest.contract.declarations import Implementation, KnownFailure, ShapePolicy
from attest.contract.hooks import PROJECT, Hooks, hookimpl, hookspec
from attest.contract.milestones import Milestone
from attest.contract.operation import (
    OPERATIONS,
    Form,
    Kind,
    Method,
    Operation,
    Port,
    operation_of,
    readers,
    register_operation,
)

from attest.contract import operations as operations  # registers the records  # isort: skip
from attest.contract.protocols import (
    Accumulating,
    CompiledComponent,
    Component,
    Generator,
    Gradients,
    LanguageModel,
    Optimizer,
    Trainer,
    Transformer,
)

__all__ = [
    "CLASSIFYING",
    "DECODER_ONLY",
    "ENCODER_DECODER",
    "MASKED",
    "OPERATIONS",
    "PROJECT",
    "RELATIVE_ENCODER_DECODER",
    "Accumulating",
    "Architecture",
    "Array",
    "Arrays",
    "CompiledComponent",
    "Component",
    "Config",
    "Form",
    "Generator",
    "Gradients",
    "Hooks",
    "Implementation",
    "Kind",
    "KnownFailure",
    "LanguageModel",
    "Method",
    "Milestone",
    "Operation",
    "Optimizer",
    "Port",
    "ShapePolicy",
    "Trainer",
    "Transformer",
    "float_dtype",
    "hookimpl",
    "hookspec",
    "operation_of",
    "readers",
    "register_operation",
]
