"""Which configs are refused, before anything is built. Messages read `name=value rule; remedy`."""

import math
from collections.abc import Callable
from numbers import Integral, Real
from typing import Any

from attest.contract import Config

ACTIVATIONS = ("relu", "gelu", "silu", "gelu_tanh")
NORMS = ("post", "pre")
NORM_KINDS = ("layer", "rms")
POSITIONS = ("sinusoidal", "learned", "rotary", "alibi", "relative", "none")
PAIRINGS = ("halves", "interleaved")
SCALINGS = ("none", "linear", "yarn", "llama3")
WINDOW_SIDES = ("before", "both")
POOLINGS = ("mean", "first", "last")
SCHEDULES = ("inverse_sqrt", "cosine")


def is_whole(value: Any, least: int) -> bool:
    """An integer from `least`. True and False are none, although Python counts with them."""
    return isinstance(value, Integral) and not isinstance(value, bool) and value >= least


def is_number(value: Any) -> bool:
    """A finite real number, and again neither True nor False."""
    return isinstance(value, Real) and not isinstance(value, bool) and math.isfinite(value)


Rule = tuple[Callable[[Any], bool], str]

_SIZE: Rule = (lambda v: is_whole(v, 1), "is not a positive integer; give 1 or more")
_INDEX: Rule = (lambda v: is_whole(v, 0), "is not an index; give an integer from 0")
_SHARE: Rule = (lambda v: is_number(v) and 0 <= v < 1, "is outside [0, 1); give a share below one")


def _positive(remedy: str) -> Rule:
    return lambda v: is_number(v) and v > 0, f"is not a positive number; {remedy}"


_RATE = _positive("give one, such as 1e-3")
_AT_LEAST_ZERO: Rule = (
    lambda v: is_number(v) and v >= 0,
    "is negative or not a number; give 0 or more",
)
_FLAG: Rule = (lambda v: isinstance(v, bool), "is neither True nor False; give one of them")


def _or_none(rule: Rule) -> Rule:
    accepted, message = rule
    return lambda v: v is None or accepted(v), message


def _one_of(words: tuple[str, ...]) -> Rule:
    return lambda v: v in words, f"is unknown; choose one of {', '.join(words)}"


_SIZES = (
    *("d_model", "num_heads", "num_encoder_layers", "num_decoder_layers"),
    *("source_vocab", "target_vocab", "max_len", "total_steps"),
    *("relative_buckets", "relative_distance", "chunk", "block", "rotary_original"),
)
_RULES: dict[str, Rule] = {
    **dict.fromkeys(_SIZES, _SIZE),
    **dict.fromkeys(("d_ff", "num_kv_heads", "head_width", "window"), _or_none(_SIZE)),
    **dict.fromkeys(("bos_id", "eos_id", "mask_id", "warmup", "seed", "segments"), _INDEX),
    "pad_id": _or_none(_INDEX),
    **dict.fromkeys(("dropout", "label_smoothing", "momentum", "beta1", "beta2"), _SHARE),
    **dict.fromkeys(("norm_eps", "peak_rate", "adam_eps"), _RATE),
    "rotary_base": _positive("give one, such as 10000"),
    "projection_scale": _positive("give 1 to scale nothing"),
    "attention_scale": _or_none(_positive("give None for 1 / sqrt(d)")),
    "score_cap": _or_none(_positive("give None for no cap")),
    "rotary_factor": (lambda v: is_number(v) and v >= 1, "is not a number from 1; give 1 to scale nothing"),
    **dict.fromkeys(("rotary_slow_turns", "rotary_fast_turns"), _positive("give a number of turns")),
    "num_classes": (lambda v: is_whole(v, 2), "is not an integer from 2; give two classes or more"),
    "rotary_fraction": (lambda v: is_number(v) and 0 < v <= 1, "is outside (0, 1]; give 1 for all of a head"),
    "clip_norm": (lambda v: v == math.inf or _RATE[0](v), "is not positive; give inf to clip nothing"),
    **dict.fromkeys(("bias", "gated", "scale_embeddings", "tie"), _FLAG),
    **dict.fromkeys(("parallel", "qk_norm", "embedding_norm", "share_embeddings", "sinks"), _FLAG),
    **dict.fromkeys(("qkv_bias", "head_bias"), _or_none(_FLAG)),
    **dict.fromkeys(("floor_rate", "weight_decay"), _AT_LEAST_ZERO),
    "norm": _one_of(NORMS),
    "norm_kind": _one_of(NORM_KINDS),
    "activation": _one_of(ACTIVATIONS),
    "positions": _one_of(POSITIONS),
    "rotary_pairing": _one_of(PAIRINGS),
    "rotary_scaling": _one_of(SCALINGS),
    "window_sides": _one_of(WINDOW_SIDES),
    "pooling": _one_of(POOLINGS),
    "schedule": _one_of(SCHEDULES),
}

_LAYER = ("d_model", "num_heads", "d_ff", "dropout", "norm", "norm_eps", "activation", "gated", "bias")
_EMBEDDING = ("d_model", "max_len", "dropout", "scale_embeddings", "pad_id", "source_vocab")
_SCHEDULE = ("d_model", "schedule", "warmup", "peak_rate", "floor_rate", "total_steps")
_SPECIAL = ("source_vocab", "target_vocab", "pad_id", "bos_id", "eos_id")
_OF_T5 = (
    *("positions", "relative_buckets", "relative_distance", "norm_kind", "head_width", "attention_scale"),
    *("share_embeddings", "projection_scale"),
)
_MODEL = (*_LAYER, "num_encoder_layers", "num_decoder_layers", *_EMBEDDING, "tie", "seed", *_SPECIAL, *_OF_T5)

_ROTARY = (
    *("rotary_base", "rotary_pairing", "rotary_fraction", "rotary_scaling"),
    *("rotary_factor", "rotary_original", "rotary_slow_turns", "rotary_fast_turns"),
)
_RELATIVE = ("relative_buckets", "relative_distance")
_HEADS = (
    *("d_model", "num_heads", "num_kv_heads", "head_width", "bias", "qkv_bias", "dropout"),
    *("positions", *_ROTARY, *_RELATIVE, "window", "window_sides", "attention_scale", "score_cap"),
    *("sinks", "qk_norm", "norm_eps"),
)
_CAUSAL_LAYER = (*_LAYER, *_HEADS, "norm_kind", "parallel")
_LANGUAGE_MODEL = (
    *(*_CAUSAL_LAYER, "num_decoder_layers", "target_vocab", "pad_id", "bos_id", "eos_id", "max_len", "seed"),
    *("scale_embeddings", "embedding_norm", "tie", "head_bias", "projection_scale"),
)
_ENCODER_MODEL = (
    *(*_LAYER, *(field for field in _HEADS if field not in ("window", "window_sides")), "norm_kind"),
    *("num_encoder_layers", "source_vocab", "pad_id", "max_len", "seed", "segments"),
    *("scale_embeddings", "embedding_norm", "head_bias"),
)
_TRAINING = (*_SCHEDULE, "clip_norm", "label_smoothing", "seed")

_ADAM = ("beta1", "beta2", "adam_eps")

# The fields that each operation reads.
FIELDS: dict[str, tuple[str, ...]] = {
    "attention": (),
    "qkv_projection": ("d_model", "bias"),
    "multi_head_attention": ("d_model", "num_heads", "dropout", "bias"),
    "feed_forward": ("d_model", "d_ff", "activation", "gated", "bias"),
    "token_embedding": ("d_model", "pad_id", "source_vocab"),
    "positional_encoding": ("d_model", "max_len", "positions"),
    "input_embedding": _EMBEDDING,
    "layer_norm": ("d_model", "norm_eps"),
    "rms_norm": ("d_model", "norm_eps"),
    "encoder_layer": _LAYER,
    "decoder_layer": _LAYER,
    "encoder": (*_LAYER, "num_encoder_layers"),
    "decoder": (*_LAYER, "num_decoder_layers"),
    "transformer": _MODEL,
    "generate": _MODEL,
    "loss": ("label_smoothing", "pad_id"),
    "learning_rate": _SCHEDULE,
    "clip_gradients": ("clip_norm",),
    "linear": ("d_model", "d_ff", "bias"),
    "activation": ("activation",),
    "softmax": (),
    "cross_entropy": (),
    "sgd": (),
    "momentum": ("momentum",),
    "adam": _ADAM,
    "adamw": (*_ADAM, "weight_decay"),
    "trainer": _TRAINING,
    "rotary": _ROTARY,
    "relative_bias": (*_RELATIVE, "num_heads"),
    "self_attention": _HEADS,
    "chunked_attention": ("chunk",),
    "linear_attention": (),
    "block_sparse_attention": ("block",),
    "causal_layer": _CAUSAL_LAYER,
    "language_model": _LANGUAGE_MODEL,
    "complete": _LANGUAGE_MODEL,
    "language_model_loss": ("label_smoothing", "pad_id"),
    "masked_language_model_loss": ("label_smoothing", "pad_id"),
    "masked_language_model": (*_ENCODER_MODEL, "mask_id", "tie", "projection_scale"),
    "classifier": (*_ENCODER_MODEL, "pooling", "num_classes"),
}


def check_config(operation: str, config: Config) -> None:
    """Refuse the first field of the config that makes no sense for the operation, alone or with others."""
    fields = FIELDS[operation]
    for field in fields:
        value = getattr(config, field)
        accepted, rule = _RULES[field]
        if not accepted(value):
            raise ValueError(f"{field}={value!r} {rule}")
    if {"d_model", "num_heads"} <= set(fields):
        _check_heads(config, fields)
    if "rotary_scaling" in fields:
        _check_scaling(config)
    if operation == "relative_bias" or ("relative_buckets" in fields and config.positions == "relative"):
        _check_buckets(config)
    if "eos_id" in fields:
        _check_special_ids(config)
    if "source_vocab" in fields:
        _check_id_fits(config, "pad_id", "source_vocab")
    if operation in ("transformer", "generate"):
        _check_transformer(config)
    if "mask_id" in fields:
        _check_mask_id(config)
    if operation in ("generate", "complete") and config.pad_id is None:
        raise ValueError("pad_id=None leaves nothing to write behind a row that has ended; give an id")


def _check_heads(config: Config, fields: tuple[str, ...]) -> None:
    """Heads share the width of the model unless they have one of their own; key heads share query heads."""
    if "head_width" not in fields or config.head_width is None:
        _check_divides(config, "num_heads", "d_model")
    if "num_kv_heads" in fields and config.num_kv_heads is not None:
        _check_divides(config, "num_kv_heads", "num_heads")
    if "rotary_fraction" in fields and config.positions == "rotary":
        rotated_width(config.d_head, config.rotary_fraction)


def _check_divides(config: Config, name: str, whole: str) -> None:
    part, total = getattr(config, name), getattr(config, whole)
    if total % part:
        raise ValueError(f"{name}={part} does not divide {whole}={total}; choose a divisor of {total}")


def rotated_width(width: int, fraction: float) -> int:
    """How many leading features of a head are turned by rotary positions. They must be whole pairs."""
    turned = round(width * fraction)
    if not turned or turned % 2 or abs(turned - width * fraction) > 1e-9:
        raise ValueError(
            f"rotary_fraction={fraction} of a head of width {width} is not an even number of features; "
            "choose another width or fraction"
        )
    return turned


def _check_scaling(config: Config) -> None:
    """What the rules of YaRN and Llama 3 take for slow turns less often than what they take for fast."""
    slow, fast = config.rotary_slow_turns, config.rotary_fast_turns
    if config.rotary_scaling in ("yarn", "llama3") and slow >= fast:
        raise ValueError(f"rotary_slow_turns={slow} is not below rotary_fast_turns={fast}; give less")
    if config.rotary_scaling == "yarn" and config.rotary_base <= 1:
        raise ValueError(f"rotary_base={config.rotary_base} is not above 1; yarn takes its logarithm")


def _check_buckets(config: Config) -> None:
    """Near distances have a bucket each, up to half of all: the others share what lies beyond these."""
    buckets, distance = config.relative_buckets, config.relative_distance
    if buckets < 4:
        raise ValueError(f"relative_buckets={buckets} is below 4; give two or more for each side")
    if distance <= buckets // 2:
        raise ValueError(
            f"relative_distance={distance} is not above half of relative_buckets={buckets}; "
            f"give {buckets // 2 + 1} or more"
        )


def _check_special_ids(config: Config) -> None:
    """Padding, start and end differ and lie in the vocabulary of the target. No id has to be padding."""
    special = {"pad_id": config.pad_id, "bos_id": config.bos_id, "eos_id": config.eos_id}
    if len(set(special.values())) < 3:
        shown = ", ".join(f"{name}={value}" for name, value in special.items())
        raise ValueError(f"{shown} are not three different ids; give each its own")
    for name in special:
        _check_id_fits(config, name, "target_vocab")


def _check_transformer(config: Config) -> None:
    """Its positions act on the embeddings or on the scores; a shared table has a row for each id."""
    if config.positions not in ("sinusoidal", "relative", "none"):
        raise NotImplementedError(
            f"positions={config.positions!r} is not offered; choose sinusoidal, relative or none"
        )
    if config.share_embeddings and config.source_vocab > config.target_vocab:
        raise ValueError(
            f"source_vocab={config.source_vocab} is above target_vocab={config.target_vocab}, whose table is "
            "shared; give both the same"
        )


def _check_mask_id(config: Config) -> None:
    """The token that stands for what is to be filled in is no padding."""
    _check_id_fits(config, "mask_id", "source_vocab")
    if config.mask_id == config.pad_id:
        raise ValueError(f"mask_id={config.mask_id} is pad_id too; give each its own")


def _check_id_fits(config: Config, name: str, vocabulary: str) -> None:
    value, size = getattr(config, name), getattr(config, vocabulary)
    if value is not None and value >= size:
        raise ValueError(f"{name}={value} is outside {vocabulary}={size}; give an id below {size}")
