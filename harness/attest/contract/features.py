"""The features that criteria concern, each a question about what an implementation claims.

A criterion of the spec names its features; where none of them is claimed its verdict is *not claimed*. This
table is the whole vocabulary.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from attest.contract.config import ANY, default_of

if TYPE_CHECKING:
    from attest.contract.claims import Claims


@dataclass(frozen=True)
class Feature:
    """Claimed where the option has the value, or one beside its default if `value` is ANY.

    An implementation that offers the operation of a feature claims it too. A feature that is `asked` is older
    than claims: it is asked of implementations that declare nothing, as it was before.
    """

    says: str  # what a report calls it
    option: str = ""
    value: Any = ANY
    operation: str = ""
    asked: bool = False
    pieces: tuple[str, ...] = ()  # operations that are a piece of it; who offers one claims it as well

    def claimed(self, claims: Claims) -> bool:
        """Whether an implementation with these claims is judged on it."""
        if not claims.declared and self.asked:
            return True
        if claims.offers.intersection({self.operation, *self.pieces}):
            return True
        values = claims.values(self.option)
        return (
            self.value in values if self.value != ANY else any(v != default_of(self.option) for v in values)
        )


@dataclass(frozen=True)
class Ability(Feature):
    """Of a model's methods: claimed unless `only` takes it away or its operation is missing."""

    def claimed(self, claims: Claims) -> bool:
        there = not self.operation or self.operation in claims.offers
        return there and True in claims.only.get(self.option, (True,))


@dataclass(frozen=True)
class Chosen(Feature):
    """Of an operation that is offered and claimed with the value of the option."""

    def claimed(self, claims: Claims) -> bool:
        return self.operation in claims.offers and self.value in claims.values(self.option, self.operation)


@dataclass(frozen=True)
class Padding(Feature):
    """Of where padding may stand in ids."""

    def claimed(self, claims: Claims) -> bool:
        return self.value in claims.padding


@dataclass(frozen=True)
class Backends(Feature):
    """Of an implementation that declares several ways to compute the same."""

    def claimed(self, claims: Claims) -> bool:
        return bool(claims.backends)


FEATURES: Mapping[str, Feature] = {
    "sinusoidal": Feature("sinusoidal positions", "positions", "sinusoidal", "positional_encoding"),
    "learned": Feature("learned positions", "positions", "learned"),
    "rotary": Feature("rotary positions", "positions", "rotary", "rotary"),
    "alibi": Feature("ALiBi", "positions", "alibi", "alibi_slopes"),
    "relative": Feature(
        "relative positions", "positions", "relative", "relative_bias", pieces=("relative_buckets",)
    ),
    "interleaved": Feature("interleaved rotary pairs", "rotary_pairing", "interleaved"),
    "partial_rotary": Feature("rotary positions of a part of each head", "rotary_fraction"),
    "scaled_rotary": Feature("scaled rotary angles", "rotary_scaling"),
    "grouped": Feature("grouped key heads", "num_kv_heads"),
    "head_width": Feature("heads of a width of their own", "head_width"),
    "window": Feature("windowed attention", "window"),
    "two_sided_window": Feature("windows to both sides", "window_sides", "both"),
    "qk_norm": Feature("norms of queries and keys", "qk_norm"),
    "chunked": Feature("attention in blocks of keys", operation="chunked_attention"),
    "linear": Feature("linear attention", operation="linear_attention"),
    "block_sparse": Feature("block-sparse attention", operation="block_sparse_attention"),
    "capped": Feature("capped scores", "score_cap"),
    "sinks": Feature("sinks of attention", "sinks", True),
    "scaled": Feature("a scale of attention of its own", "attention_scale"),
    "rms": Feature("RMSNorm", "norm_kind", "rms", "rms_norm", asked=True),
    "gated": Feature("a gated feed-forward network", "gated", True, asked=True),
    "silu": Feature("SiLU", "activation", "silu", asked=True),
    "gelu_tanh": Feature("GELU by tanh", "activation", "gelu_tanh", asked=True),
    "pre_norm": Feature("norms before the sublayers", "norm", "pre", asked=True),
    "post_norm": Feature("norms after the sublayers", "norm", "post", asked=True),
    "tied": Feature("tied embeddings", "tie", True, asked=True),
    "language_model": Feature("decoder-only language models", operation="language_model"),
    "language_model_training": Feature("trained language models", operation="language_model_trainer"),
    "text_loss": Feature("the loss of a language model", operation="language_model_loss"),
    "masked_training": Feature("trained masked language models", operation="masked_language_model_trainer"),
    "classifier_training": Feature("trained classifiers", operation="classifier_trainer"),
    "relative_training": Chosen(
        "trained encoder-decoders with relative positions", "positions", "relative", "trainer"
    ),
    "relative_writing": Chosen(
        "encoder-decoders with relative positions that write", "positions", "relative", "generate"
    ),
    "completion": Feature("prompts that are completed", operation="complete"),
    "masked_language_model": Feature("masked language models", operation="masked_language_model"),
    "token_masking": Feature("tokens that are hidden", operation="mask_tokens"),
    "masked_loss": Feature("the loss over hidden tokens", operation="masked_language_model_loss"),
    "classifier": Feature("classifiers of sequences", operation="classifier"),
    "decoding": Ability("language models with a cache", "cache", operation="language_model"),
    "left_padding": Padding("padding on the left", value="left"),
    "packed": Padding("documents side by side", value="packed"),
    "backends": Backends("several backends"),
    "cache": Ability("decoding with a cache", "cache"),
    "reorder": Ability("reordered caches", "reorder"),
}
