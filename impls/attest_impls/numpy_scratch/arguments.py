"""Refusing what makes no sense, before anything is computed: `name=value rule; remedy`."""

from __future__ import annotations

import math
import numbers
from collections.abc import Sequence
from typing import Any

import numpy as np

from attest.contract import Array, Config

DTYPES = ("float32", "float64")
POSITIONS = ("sinusoidal", "learned", "rotary", "alibi", "relative", "none")


def require(condition: bool, name: str, value: object, rule: str, remedy: str) -> None:
    """Raise ValueError in the one form all refusals share. Not an assert: `python -O` must refuse as well."""
    if not condition:
        raise ValueError(f"{name}={value!r} {rule}; {remedy}")


def is_integer(value: object) -> bool:
    """True for 3 and np.int64(3); False for 3.0 and True."""
    return isinstance(value, numbers.Integral) and not isinstance(value, bool)


def is_number(value: object) -> bool:
    """True for a real, finite number that is not a bool."""
    return isinstance(value, numbers.Real) and not isinstance(value, bool) and math.isfinite(value)


def compute_dtype(config: Config) -> np.dtype[Any]:
    """The numpy dtype of a config; what this implementation does not compute in is an option it lacks."""
    if config.dtype not in DTYPES:
        raise NotImplementedError(f"dtype={config.dtype!r} is not offered; choose one of {DTYPES}")
    if config.device != "cpu":
        raise NotImplementedError(f"device={config.device!r} is not offered; choose 'cpu'")
    return np.dtype(config.dtype)


def positive_sizes(config: Config, *names: str) -> None:
    """Each named field is an integer of at least 1. `d_ff` may be None."""
    for name in names:
        value = getattr(config, name)
        if name == "d_ff" and value is None:
            continue
        require(is_integer(value) and value > 0, name, value, "is not a positive integer", "give 1 or more")


def heads(config: Config) -> None:
    """num_heads is a positive divisor of d_model."""
    positive_sizes(config, "d_model", "num_heads")
    d, h = config.d_model, config.num_heads
    require(d % h == 0, "num_heads", h, f"does not divide d_model={d}", f"choose a divisor of {d}")


def attention_heads(config: Config) -> None:
    """What self-attention reads: heads that may share keys, have a width of their own, see a window."""
    positive_sizes(config, "d_model", "num_heads")
    d, h, g = config.d_model, config.num_heads, config.kv_heads
    for name in ("num_kv_heads", "head_width", "window"):
        if getattr(config, name) is not None:
            positive_sizes(config, name)
    divides = config.head_width is not None or d % h == 0
    require(divides, "num_heads", h, f"does not divide d_model={d}", f"choose a divisor of {d}")
    require(h % g == 0, "num_kv_heads", g, f"does not divide num_heads={h}", f"choose a divisor of {h}")
    one_of("positions", config.positions, POSITIONS)
    for name, remedy in (
        ("attention_scale", "give None for 1 / sqrt(d)"),
        ("score_cap", "give None for none"),
    ):
        value = getattr(config, name)
        good = value is None or (is_number(value) and value > 0)
        require(good, name, value, "is not a positive number", remedy)
    one_of("window_sides", config.window_sides, ("before", "both"))
    require(isinstance(config.sinks, bool), "sinks", config.sinks, "is neither True nor False", "try False")
    rotary(config, config.d_head if config.positions == "rotary" else None)
    positive_sizes(config, "relative_buckets", "relative_distance")
    if config.positions == "relative":
        relative(config)
    layer_norm(config)
    rate("dropout", config.dropout)


def rotary(config: Config, width: int | None = None) -> None:
    """A base, a pairing, and a part of the head that consists of pairs."""
    base, fraction = config.rotary_base, config.rotary_fraction
    require(is_number(base) and base > 0, "rotary_base", base, "is not a positive number", "try 10000")
    one_of("rotary_pairing", config.rotary_pairing, ("halves", "interleaved"))
    inside = is_number(fraction) and 0 < fraction <= 1
    require(inside, "rotary_fraction", fraction, "is outside (0, 1]", "give 1 for the whole head")
    scaling(config)
    if width is not None:
        turned = round(width * fraction)
        even = turned > 0 and turned % 2 == 0 and math.isclose(turned, width * fraction)
        rule = f"of a head of width {width} is no even number of features"
        require(even, "rotary_fraction", fraction, rule, "choose another width or fraction")


def scaling(config: Config) -> None:
    """A rule for angles, its factor, and turns of slow and fast pairs in their order."""
    one_of("rotary_scaling", config.rotary_scaling, ("none", "linear", "yarn", "llama3"))
    positive_sizes(config, "rotary_original")
    factor, slow, fast = config.rotary_factor, config.rotary_slow_turns, config.rotary_fast_turns
    good = is_number(factor) and factor >= 1
    require(good, "rotary_factor", factor, "is not a number from 1", "give 1 to scale nothing")
    for name, turns in (("rotary_slow_turns", slow), ("rotary_fast_turns", fast)):
        require(is_number(turns) and turns > 0, name, turns, "is not a positive number", "give some turns")
    by_turns = config.rotary_scaling in ("yarn", "llama3")
    rule = f"is not below rotary_fast_turns={fast}"
    require(not by_turns or slow < fast, "rotary_slow_turns", slow, rule, "give less")
    base, remedy = config.rotary_base, "yarn takes its logarithm"
    require(config.rotary_scaling != "yarn" or base > 1, "rotary_base", base, "is not above 1", remedy)


def relative(config: Config) -> None:
    """Half of the buckets are for near distances, the others for what lies beyond them."""
    positive_sizes(config, "num_heads", "relative_buckets", "relative_distance")
    n, far = config.relative_buckets, config.relative_distance
    require(n >= 4, "relative_buckets", n, "is below 4", "give two or more for each side")
    rule = f"is not above half of relative_buckets={n}"
    require(far > n // 2, "relative_distance", far, rule, f"give {n // 2 + 1} or more")


def rate(name: str, value: float) -> None:
    """A probability below one: a rate of 1 would divide by zero, and NaN is no number."""
    require(is_number(value) and 0 <= value < 1, name, value, "is outside [0, 1)", "try 0.1")


def one_of(name: str, value: object, choices: Sequence[str]) -> None:
    require(value in choices, name, value, "is unknown", f"choose one of {', '.join(choices)}")


def special_ids(config: Config, vocab_name: str, names: Sequence[str]) -> None:
    """The named ids are distinct members of the vocabulary."""
    positive_sizes(config, vocab_name)
    vocab = getattr(config, vocab_name)
    seen: dict[int, str] = {}
    for name in names:
        value = getattr(config, name)
        inside = is_integer(value) and 0 <= value < vocab
        require(inside, name, value, f"is outside {vocab_name}={vocab}", f"choose one of 0 to {vocab - 1}")
        require(value not in seen, name, value, f"is {seen.get(value)} as well", "give each its own id")
        seen[value] = name


def layer_norm(config: Config) -> None:
    positive_sizes(config, "d_model")
    eps = config.norm_eps
    require(is_number(eps) and eps > 0, "norm_eps", eps, "is not a positive number", "try 1e-5")


def feed_forward(config: Config) -> None:
    positive_sizes(config, "d_model", "d_ff")
    one_of("activation", config.activation, ("relu", "gelu", "silu", "gelu_tanh"))
    require(isinstance(config.gated, bool), "gated", config.gated, "is neither True nor False", "try False")
    rate("dropout", config.dropout)


def input_embedding(config: Config, vocab_name: str, special: Sequence[str]) -> None:
    positive_sizes(config, "d_model", "max_len")
    special_ids(config, vocab_name, special)
    rate("dropout", config.dropout)


def block(config: Config) -> None:
    """What an encoder or decoder layer reads."""
    heads(config)
    feed_forward(config)
    layer_norm(config)
    one_of("norm", config.norm, ("post", "pre"))


def transformer(config: Config) -> None:
    block(config)
    positive_sizes(config, "num_encoder_layers", "num_decoder_layers")
    input_embedding(config, "source_vocab", ("pad_id",))
    input_embedding(config, "target_vocab", ("pad_id", "bos_id", "eos_id"))


def causal_layer(config: Config) -> None:
    attention_heads(config)
    feed_forward(config)
    one_of("norm", config.norm, ("post", "pre"))
    one_of("norm_kind", config.norm_kind, ("layer", "rms"))


def language_model(config: Config) -> None:
    causal_layer(config)
    positive_sizes(config, "num_decoder_layers", "max_len", "target_vocab")
    special = ("pad_id", "bos_id", "eos_id") if config.pad_id is not None else ("bos_id", "eos_id")
    special_ids(config, "target_vocab", special)
    scale = config.projection_scale
    require(is_number(scale) and scale > 0, "projection_scale", scale, "is not positive", "try 1")


def encoder_model(config: Config) -> None:
    """What models with an encoder alone read; windows and parallel sublayers are of decoders."""
    causal_layer(config.but(window=None, parallel=False))
    positive_sizes(config, "num_encoder_layers", "max_len")
    special_ids(config, "source_vocab", () if config.pad_id is None else ("pad_id",))
    kinds = config.segments
    require(is_integer(kinds) and kinds >= 0, "segments", kinds, "is no number of kinds", "give 0 for none")


def schedule(config: Config) -> None:
    one_of("schedule", config.schedule, ("inverse_sqrt", "cosine"))
    positive_sizes(config, "d_model")
    warmup, total = config.warmup, config.total_steps
    require(is_integer(warmup) and warmup >= 0, "warmup", warmup, "is not a number of steps", "try 4000")
    if config.schedule == "inverse_sqrt":
        return
    positive_sizes(config, "total_steps")
    require(total >= warmup, "total_steps", total, f"is less than warmup={warmup}", "choose more")
    peak, floor = config.peak_rate, config.floor_rate
    require(is_number(peak) and peak > 0, "peak_rate", peak, "is not positive", "try 1e-3")
    require(
        is_number(floor) and 0 <= floor <= peak,
        "floor_rate",
        floor,
        "is outside [0, peak_rate]",
        "try 0",
    )


def adam(config: Config) -> None:
    """Two rates of forgetting and a positive epsilon."""
    rate("beta1", config.beta1)
    rate("beta2", config.beta2)
    eps = config.adam_eps
    require(is_number(eps) and eps > 0, "adam_eps", eps, "is not a positive number", "try 1e-8")


def real_array(
    name: str, value: object, dtype: np.dtype[Any], *, rank: int | None = None, width: int | None = None
) -> Array:
    """A contiguous array of the compute dtype; rank and last axis as required."""
    array = np.asarray(value)
    require(array.dtype.kind == "f", f"{name}.dtype", str(array.dtype), "is not floating", f"give {dtype}")
    if rank is not None:
        require(array.ndim == rank, f"{name}.shape", array.shape, f"is not of rank {rank}", "reshape it")
    if width is not None:
        remedy = f"give (..., {width})"
        require(array.shape[-1] == width, f"{name}.shape", array.shape, f"does not end in {width}", remedy)
    return np.ascontiguousarray(array, dtype=dtype)


def id_array(name: str, value: object, vocab: int) -> Array:
    """ids (B, T) inside the vocabulary. A negative id would index from the end in silence."""
    ids = np.asarray(value)
    require(ids.dtype.kind in "iu", f"{name}.dtype", str(ids.dtype), "is not an integer type", "give int64")
    require(ids.ndim == 2, f"{name}.shape", ids.shape, "is not of rank 2", "give (B, T)")
    if ids.size:
        wrong = ids.min() if ids.min() < 0 else ids.max()
        remedy = f"give ids from 0 to {vocab - 1}"
        require(0 <= wrong < vocab, name, int(wrong), f"is outside the vocabulary of {vocab}", remedy)
    return ids


def labels(value: object, logits: Array) -> Array:
    """One class of logits (B, T, V) for each position: (B, T)."""
    ids = id_array("labels", value, logits.shape[-1])
    fits, remedy = ids.shape == logits.shape[:2], f"give {logits.shape[:2]}"
    require(fits, "labels.shape", ids.shape, f"does not fit logits {logits.shape}", remedy)
    return ids


def position_array(name: str, value: object, shape: tuple[int, int]) -> Array:
    """Whole numbers from 0 on, (B, T)."""
    positions = np.asarray(value)
    whole = positions.dtype.kind in "iu"
    require(whole, f"{name}.dtype", str(positions.dtype), "is not an integer type", "give int64")
    require(positions.shape == shape, f"{name}.shape", positions.shape, f"is not {shape}", "match them")
    require(not (positions < 0).any(), name, int(positions.min(initial=0)), "is negative", "count from 0")
    return positions


def length_within(name: str, length: int, max_len: int) -> None:
    require(length <= max_len, f"length of {name}", length, f"is beyond max_len={max_len}", "shorten it")


def same_batch(name: str, array: Array, batch: int) -> None:
    require(len(array) == batch, f"{name}.shape", array.shape, f"is not of batch {batch}", "match them")


def row_numbers(value: object, held: int) -> Array:
    """Numbers of rows of a state that has so many."""
    rows = np.asarray(value)
    good = rows.ndim == 1 and rows.dtype.kind in "iu" and len(rows) > 0
    require(good, "rows", rows.tolist(), "is not a list of row numbers", "give integers (B,)")
    inside = bool(((rows >= 0) & (rows < held)).all())
    require(inside, "rows", rows.tolist(), f"are not all within the state's {held} rows", "count from 0")
    return rows


def boolean(name: str, given: object) -> Array:
    mask: Array = np.asarray(given)
    require(mask.dtype == bool, f"{name}.dtype", str(mask.dtype), "is not bool", "True is 'may attend'")
    return mask


def broadcast_mask(given: object, shape: tuple[int, ...]) -> Array:
    """A mask for attention: whatever broadcasts to (..., T, S) without making it larger."""
    mask = boolean("mask", given)
    pairs = zip(reversed(mask.shape), reversed(shape))
    fits = mask.ndim <= len(shape) and all(m in (1, n) for m, n in pairs)
    require(fits, "mask.shape", mask.shape, f"does not broadcast to {shape}", "give (T, S) or (..., T, S)")
    return mask


def batch_mask(name: str, given: object, batch: int, queries: int, keys: int) -> Array | None:
    """A mask above attention, (T, S) or (B or 1, T or 1, S); the latter gets an axis of one for the heads."""
    if given is None:
        return None
    mask = boolean(name, given)
    plain = mask.shape == (queries, keys)
    batched = mask.ndim == 3 and mask.shape[0] in (1, batch) and mask.shape[1] in (1, queries)
    fits = plain or (batched and mask.shape[2] == keys)
    remedy = f"give ({queries}, {keys}) or ({batch} or 1, {queries} or 1, {keys})"
    require(fits, f"{name}.shape", mask.shape, f"does not fit {queries} queries and {keys} keys", remedy)
    return mask if plain else mask[:, None]


def keys(name: str, value: object, dtype: np.dtype[Any], width: int, batch: int | None = None) -> Array:
    """What is attended to: (B, S, D), of the queries' batch, with at least one key."""
    array = real_array(name, value, dtype, rank=3, width=width)
    if batch is not None:
        same_batch(name, array, batch)
    require(array.shape[1] > 0, f"{name}.shape", array.shape, "has no keys", "give at least one")
    return array
