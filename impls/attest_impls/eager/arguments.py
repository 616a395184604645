"""What is refused before anything is computed. Messages read `name=value rule; remedy`.

Shapes: B batch, T queries, S keys, D width.
"""

import math
from collections.abc import Callable
from numbers import Integral, Real
from typing import Any

import torch
from torch import Tensor

from attest.contract import Config

ACTIVATIONS = ("relu", "gelu")
NORMS = ("post", "pre")
SCHEDULES = ("inverse_sqrt", "cosine")


def _whole(value: Any, least: int) -> bool:
    return isinstance(value, Integral) and not isinstance(value, bool) and value >= least


def _number(value: Any) -> bool:
    return isinstance(value, Real) and not isinstance(value, bool) and math.isfinite(value)


Rule = tuple[Callable[[Any], bool], str]

_SIZE: Rule = (lambda v: _whole(v, 1), "is not a positive integer; give 1 or more")
_INDEX: Rule = (lambda v: _whole(v, 0), "is not an index; give an integer from 0")
_SHARE: Rule = (lambda v: _number(v) and 0 <= v < 1, "is outside [0, 1); give a share below one")
_RATE: Rule = (lambda v: _number(v) and v > 0, "is not a positive number; give one, such as 1e-3")
_FLAG: Rule = (lambda v: isinstance(v, bool), "is neither True nor False; give one of them")

_SIZES = (
    *("d_model", "num_heads", "inner_width", "num_encoder_layers", "num_decoder_layers"),
    *("source_vocab", "target_vocab", "max_len", "total_steps"),
)
_RULES: dict[str, Rule] = {
    **dict.fromkeys(_SIZES, _SIZE),
    **dict.fromkeys(("pad_id", "bos_id", "eos_id", "warmup", "seed"), _INDEX),
    **dict.fromkeys(("dropout", "label_smoothing"), _SHARE),
    **dict.fromkeys(("norm_eps", "peak_rate"), _RATE),
    "clip_norm": (lambda v: v == math.inf or _RATE[0](v), "is not positive; give inf to clip nothing"),
    **dict.fromkeys(("bias", "scale_embeddings", "tie"), _FLAG),
    "floor_rate": (lambda v: _number(v) and v >= 0, "is negative or not a number; give 0 or more"),
    "norm": (lambda v: v in NORMS, f"is unknown; choose one of {', '.join(NORMS)}"),
    "activation": (lambda v: v in ACTIVATIONS, f"is unknown; choose one of {', '.join(ACTIVATIONS)}"),
    "schedule": (lambda v: v in SCHEDULES, f"is unknown; choose one of {', '.join(SCHEDULES)}"),
}

LAYER = ("d_model", "num_heads", "inner_width", "dropout", "norm", "norm_eps", "activation", "bias")
EMBEDDING = ("d_model", "max_len", "dropout", "scale_embeddings", "pad_id")
SCHEDULE = ("d_model", "schedule", "warmup", "peak_rate", "floor_rate", "total_steps")
MODEL = (*LAYER, "num_encoder_layers", "num_decoder_layers", *EMBEDDING, "tie", "seed")
TRAINING = (*SCHEDULE, "clip_norm", "label_smoothing", "seed")
IDS = ("source_vocab", "target_vocab", "pad_id", "bos_id", "eos_id")


def check_config(config: Config, *fields: str) -> None:
    """Refuse the first of these fields that makes no sense, alone or with the others."""
    for field in fields:
        name = "d_ff" if field == "inner_width" else field
        value = config.d_ff if field == "inner_width" and config.d_ff is not None else getattr(config, field)
        accepted, rule = _RULES[field]
        if not accepted(value):
            raise ValueError(f"{name}={value!r} {rule}")
    if "num_heads" in fields and config.d_model % config.num_heads:
        raise ValueError(
            f"num_heads={config.num_heads} does not divide d_model={config.d_model}; "
            f"choose a divisor of {config.d_model}"
        )


def check_special_ids(config: Config) -> None:
    """Padding, start and end differ and lie in the vocabularies."""
    check_config(config, *IDS)
    special = {"pad_id": config.pad_id, "bos_id": config.bos_id, "eos_id": config.eos_id}
    if len(set(special.values())) < 3:
        shown = ", ".join(f"{name}={value}" for name, value in special.items())
        raise ValueError(f"{shown} are not three different ids; give each its own")
    for name, value in special.items():
        check_id_fits(name, value, "target_vocab", config.target_vocab)
    check_id_fits("pad_id", config.pad_id, "source_vocab", config.source_vocab)


def check_id_fits(name: str, value: int, vocabulary: str, size: int) -> None:
    if value >= size:
        raise ValueError(f"{name}={value} is outside {vocabulary}={size}; give an id below {size}")


def check_width(name: str, x: Tensor, width: int) -> None:
    """A floating (B, T, D) tensor of this width."""
    _check_floating(name, x)
    if x.ndim != 3 or x.shape[-1] != width:
        raise ValueError(f"{name} shape={tuple(x.shape)} is not (B, T, {width}); the last axis is d_model")


def check_attention(q: Tensor, k: Tensor, v: Tensor) -> None:
    """Queries, keys and values that belong together. Nothing is broadcast in silence."""
    for name, x in (("q", q), ("k", k), ("v", v)):
        _check_floating(name, x)
        if x.ndim < 2 or x.ndim != q.ndim:
            raise ValueError(f"{name} shape={tuple(x.shape)} is not (..., T, d) with the rank of q={q.ndim}")
        if x.shape[:-2] != q.shape[:-2]:
            raise ValueError(
                f"{name} shape={tuple(x.shape)} has another batch than q={tuple(q.shape)}; match them"
            )
    if q.shape[-1] != k.shape[-1] or not q.shape[-1]:
        raise ValueError(f"k width={k.shape[-1]} is not the width of q={q.shape[-1]}; give both d_k features")
    if k.shape[-2] != v.shape[-2]:
        raise ValueError(
            f"v length={v.shape[-2]} is not the length of k={k.shape[-2]}; give one value per key"
        )
    check_some("k", k.shape[-2])


def check_some(name: str, length: int) -> None:
    if not length:
        raise ValueError(f"{name} length=0 leaves nothing to attend to; give at least one key")


def check_same_batch(name: str, x: Tensor, other_name: str, other: Tensor) -> None:
    if x.shape[0] != other.shape[0]:
        raise ValueError(
            f"{name} batch={x.shape[0]} is not that of {other_name}={other.shape[0]}; match them"
        )


def check_broadcasts(mask: Tensor, scores: tuple[int, ...]) -> None:
    """A boolean mask that broadcasts to the scores without enlarging them."""
    _check_boolean(mask)
    pairs = zip(reversed(mask.shape), reversed(scores), strict=False)
    if mask.ndim > len(scores) or any(m not in (1, s) for m, s in pairs):
        raise ValueError(f"mask shape={tuple(mask.shape)} does not broadcast to {scores}; give (..., T, S)")


def check_mask(name: str, mask: Tensor, batch: int, queries: int, keys: int) -> None:
    """The forms used above plain attention: (T, S) or (B or 1, T or 1, S), with no head axis."""
    _check_boolean(mask, name)
    shape = tuple(mask.shape)
    flat = shape == (queries, keys)
    batched = mask.ndim == 3 and shape[0] in (1, batch) and shape[1] in (1, queries) and shape[2] == keys
    if not flat and not batched:
        raise ValueError(
            f"{name} shape={shape} fits neither ({queries}, {keys}) nor "
            f"({batch} or 1, {queries} or 1, {keys}); key padding is (B, 1, S)"
        )


def check_ids(name: str, ids: Tensor, vocab: int, max_len: int | None = None) -> None:
    """Whole numbers (B, T) inside the vocabulary, not too long. Torch would let some negatives wrap."""
    if ids.dtype not in (torch.int64, torch.int32) or ids.ndim != 2:
        raise ValueError(
            f"{name} shape={tuple(ids.shape)} dtype={ids.dtype} is not int64 (B, T); give token ids"
        )
    if not ids.shape[0]:
        raise ValueError(f"{name} shape={tuple(ids.shape)} has no rows; give at least one sequence")
    check_length(name, ids.shape[1], max_len)
    if torch.compiler.is_compiling() or not ids.numel():
        return
    low, high = int(ids.min()), int(ids.max())
    if low < 0 or high >= vocab:
        bad = low if low < 0 else high
        raise ValueError(
            f"{name} id={bad} is outside the vocabulary of {vocab}; give ids from 0 to {vocab - 1}"
        )


def check_length(name: str, length: int, max_len: int | None) -> None:
    if length == 0:
        raise ValueError(f"{name} length=0 is empty; give at least one position")
    if max_len is not None and length > max_len:
        raise ValueError(f"{name} length={length} is beyond max_len={max_len}; shorten it or raise max_len")


def _check_floating(name: str, x: Tensor) -> None:
    if not torch.is_tensor(x) or not x.is_floating_point():
        kind = x.dtype if torch.is_tensor(x) else type(x).__name__
        raise ValueError(f"{name} dtype={kind} is not floating; give real numbers")


def _check_boolean(mask: Tensor, name: str = "mask") -> None:
    if not torch.is_tensor(mask) or mask.dtype != torch.bool:
        kind = mask.dtype if torch.is_tensor(mask) else type(mask).__name__
        raise ValueError(f"{name} dtype={kind} is not bool; give True where a query may attend")
