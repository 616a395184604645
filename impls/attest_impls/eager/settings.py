"""Which configs are refused, before anything is built. Messages read `name=value rule; remedy`."""

import math
from collections.abc import Callable
from numbers import Integral, Real
from typing import Any

from attest.contract import Config

ACTIVATIONS = ("relu", "gelu", "silu", "gelu_tanh")
NORMS = ("post", "pre")
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
_RATE: Rule = (lambda v: is_number(v) and v > 0, "is not a positive number; give one, such as 1e-3")
_AT_LEAST_ZERO: Rule = (
    lambda v: is_number(v) and v >= 0,
    "is negative or not a number; give 0 or more",
)
_FLAG: Rule = (lambda v: isinstance(v, bool), "is neither True nor False; give one of them")

_SIZES = (
    *("d_model", "num_heads", "num_encoder_layers", "num_decoder_layers"),
    *("source_vocab", "target_vocab", "max_len", "total_steps"),
)
_RULES: dict[str, Rule] = {
    **dict.fromkeys(_SIZES, _SIZE),
    "d_ff": (lambda v: v is None or _SIZE[0](v), _SIZE[1]),
    **dict.fromkeys(("pad_id", "bos_id", "eos_id", "warmup", "seed"), _INDEX),
    **dict.fromkeys(("dropout", "label_smoothing", "momentum", "beta1", "beta2"), _SHARE),
    **dict.fromkeys(("norm_eps", "peak_rate", "adam_eps"), _RATE),
    "clip_norm": (lambda v: v == math.inf or _RATE[0](v), "is not positive; give inf to clip nothing"),
    **dict.fromkeys(("bias", "gated", "scale_embeddings", "tie"), _FLAG),
    **dict.fromkeys(("floor_rate", "weight_decay"), _AT_LEAST_ZERO),
    "norm": (lambda v: v in NORMS, f"is unknown; choose one of {', '.join(NORMS)}"),
    "activation": (lambda v: v in ACTIVATIONS, f"is unknown; choose one of {', '.join(ACTIVATIONS)}"),
    "schedule": (lambda v: v in SCHEDULES, f"is unknown; choose one of {', '.join(SCHEDULES)}"),
}

_LAYER = ("d_model", "num_heads", "d_ff", "dropout", "norm", "norm_eps", "activation", "gated", "bias")
_EMBEDDING = ("d_model", "max_len", "dropout", "scale_embeddings", "pad_id", "source_vocab")
_SCHEDULE = ("d_model", "schedule", "warmup", "peak_rate", "floor_rate", "total_steps")
_SPECIAL = ("source_vocab", "target_vocab", "pad_id", "bos_id", "eos_id")
_MODEL = (*_LAYER, "num_encoder_layers", "num_decoder_layers", *_EMBEDDING, "tie", "seed", *_SPECIAL)

_ADAM = ("beta1", "beta2", "adam_eps")

# The fields that each operation reads.
FIELDS: dict[str, tuple[str, ...]] = {
    "attention": (),
    "qkv_projection": ("d_model", "bias"),
    "multi_head_attention": ("d_model", "num_heads", "dropout", "bias"),
    "feed_forward": ("d_model", "d_ff", "activation", "gated", "bias"),
    "token_embedding": ("d_model", "pad_id", "source_vocab"),
    "positional_encoding": ("d_model", "max_len"),
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
    "trainer": (*_SCHEDULE, "clip_norm", "label_smoothing", "seed"),
}


def check_config(operation: str, config: Config) -> None:
    """Refuse the first field of the config that makes no sense for the operation, alone or with others."""
    fields = FIELDS[operation]
    for field in fields:
        value = getattr(config, field)
        accepted, rule = _RULES[field]
        if not accepted(value):
            raise ValueError(f"{field}={value!r} {rule}")
    if "num_heads" in fields and config.d_model % config.num_heads:
        raise ValueError(
            f"num_heads={config.num_heads} does not divide d_model={config.d_model}; "
            f"choose a divisor of {config.d_model}"
        )
    if "eos_id" in fields:
        _check_special_ids(config)
    if "source_vocab" in fields:
        _check_id_fits(config, "pad_id", "source_vocab")


def _check_special_ids(config: Config) -> None:
    """Padding, start and end differ and lie in the vocabulary of the target."""
    special = {"pad_id": config.pad_id, "bos_id": config.bos_id, "eos_id": config.eos_id}
    if len(set(special.values())) < 3:
        shown = ", ".join(f"{name}={value}" for name, value in special.items())
        raise ValueError(f"{shown} are not three different ids; give each its own")
    for name in special:
        _check_id_fits(config, name, "target_vocab")


def _check_id_fits(config: Config, name: str, vocabulary: str) -> None:
    value, size = getattr(config, name), getattr(config, vocabulary)
    if value >= size:
        raise ValueError(f"{name}={value} is outside {vocabulary}={size}; give an id below {size}")
