"""What is asked of one argument: its type, its shape, its values. Messages read `name=value rule; remedy`.

Shapes: B batch, T queries, S keys, D width, V vocabulary.
"""

from typing import Any

import torch
from torch import Tensor

from .settings import is_number, is_whole


def check_sampling(temperature: float = 1.0, top_k: int | None = None, top_p: float | None = None) -> None:
    if not is_number(temperature) or temperature < 0:
        raise ValueError(f"temperature={temperature!r} is not a finite number from 0; give 0 for greedy")
    if top_k is not None and not is_whole(top_k, 1):
        raise ValueError(f"top_k={top_k!r} is not a positive integer; give None to keep all tokens")
    if top_p is not None and not (is_number(top_p) and 0 < top_p <= 1):
        raise ValueError(f"top_p={top_p!r} is outside (0, 1]; give None to keep all tokens")


def check_lengths(lengths: Tensor, size: int) -> None:
    """Of `length_mask`."""
    if lengths.ndim != 1 or lengths.is_floating_point() or lengths.dtype == torch.bool:
        raise ValueError(f"lengths shape={tuple(lengths.shape)} is not (B,) of integers; give one per row")
    if lengths.numel() and (int(lengths.min()) < 0 or int(lengths.max()) > size):
        raise ValueError(
            f"lengths={lengths.tolist()} leave [0, size={size}]; give the size of the longest row"
        )


def check_rows_of_ids(ids: Tensor) -> None:
    """Of `padding_mask`."""
    if ids.ndim != 2:
        raise ValueError(f"ids shape={tuple(ids.shape)} is not (B, S); give one row of ids per sequence")


def check_sizes(T: int, S: int) -> None:
    """Of `causal_mask`."""
    if T < 0 or S < 0:
        raise ValueError(f"T={T}, S={S} are not both lengths; give 0 or more")


def check_masking(ids: Tensor, mask_id: Any, vocabulary: Any, special: Tensor, rate: Any) -> None:
    """Of `mask_tokens`."""
    if not is_whole(vocabulary, 1):
        raise ValueError(f"vocabulary={vocabulary!r} is not a positive integer; give the number of ids")
    if not is_whole(mask_id, 0) or mask_id >= vocabulary:
        raise ValueError(f"mask_id={mask_id!r} is no id; give one from 0 to {vocabulary - 1}")
    if not (is_number(rate) and 0 <= rate <= 1):
        raise ValueError(f"rate={rate!r} is outside [0, 1]; give the share of tokens to choose")
    check_rows_of_ids(ids)
    for name, given in (("ids", ids), ("special", special)):
        if given.numel() and (int(given.min()) < 0 or int(given.max()) >= vocabulary):
            raise ValueError(f"{name}={given.tolist()} leave the vocabulary of {vocabulary}; give its ids")


def check_heads(num_heads: Any) -> None:
    """Of `alibi_slopes`."""
    if not is_whole(num_heads, 1):
        raise ValueError(f"num_heads={num_heads!r} is not a positive integer; give 1 or more")


def check_buckets(offsets: Tensor, buckets: Any, distance: Any, causal: bool = False) -> None:
    """Of `relative_buckets`. Near distances have a bucket each, half of those of their side."""
    if offsets.is_floating_point() or offsets.dtype == torch.bool:
        raise ValueError(f"offsets dtype={offsets.dtype} is not whole; give key minus query positions")
    for name, value in (("buckets", buckets), ("distance", distance)):
        if not is_whole(value, 1):
            raise ValueError(f"{name}={value!r} is not a positive integer; give 1 or more")
    sides = 1 if causal else 2
    near = buckets // sides // 2
    if not near:
        raise ValueError(f"buckets={buckets} leaves no near distance a bucket; give {2 * sides} or more")
    if distance <= near:
        raise ValueError(f"distance={distance} is not above the {near} near ones; give more")


def check_ids(name: str, ids: Tensor, vocab: int, max_len: int | None = None) -> None:
    """Whole numbers (B, T) inside the vocabulary, not too long. Torch would let some negatives wrap."""
    if ids.dtype not in (torch.int64, torch.int32) or ids.ndim != 2:
        raise ValueError(
            f"{name} shape={tuple(ids.shape)} dtype={ids.dtype} is not int64 (B, T); give token ids"
        )
    if not ids.shape[0]:
        raise ValueError(f"{name} shape={tuple(ids.shape)} has no rows; give at least one sequence")
    check_length(name, ids.shape[1], max_len)
    low, high = int(ids.min()), int(ids.max())
    if low < 0 or high >= vocab:
        bad = low if low < 0 else high
        raise ValueError(
            f"{name} id={bad} is outside the vocabulary of {vocab}; give ids from 0 to {vocab - 1}"
        )


def check_labels(labels: Tensor, shape: torch.Size, classes: int) -> None:
    """Of a batch: one for each place of `shape`. A negative one would count from the last class."""
    if labels.dtype != torch.int64 or labels.shape != shape:
        seen = f"shape={tuple(labels.shape)} dtype={labels.dtype}"
        raise ValueError(f"labels {seen} are not int64 {tuple(shape)}; give one for each")
    low, high = int(labels.min()), int(labels.max())
    if low < 0 or high >= classes:
        bad = low if low < 0 else high
        raise ValueError(f"label={bad} is outside the {classes} classes; give 0 to {classes - 1}")


def check_width(name: str, x: Tensor, width: int) -> None:
    """A floating (B, T, D) tensor of this width."""
    check_floating(name, x)
    if x.ndim != 3 or x.shape[-1] != width:
        raise ValueError(f"{name} shape={tuple(x.shape)} is not (B, T, {width}); the last axis is d_model")


def check_length(name: str, length: int, max_len: int | None) -> None:
    if length == 0:
        raise ValueError(f"{name} length=0 is empty; give at least one position")
    if max_len is not None and length > max_len:
        raise ValueError(f"{name} length={length} is beyond max_len={max_len}; shorten it or raise max_len")


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
    check_boolean("mask", mask)
    pairs = zip(reversed(mask.shape), reversed(scores), strict=False)
    if mask.ndim > len(scores) or any(m not in (1, s) for m, s in pairs):
        raise ValueError(f"mask shape={tuple(mask.shape)} does not broadcast to {scores}; give (..., T, S)")


def check_mask(name: str, mask: Tensor | None, x: Tensor, keys: int) -> None:
    """The forms used above plain attention: (T, S) or (B or 1, T or 1, S), with no head axis."""
    if mask is None:
        return
    check_boolean(name, mask)
    batch, queries = x.shape[:2]
    shape = tuple(mask.shape)
    flat = shape == (queries, keys)
    batched = mask.ndim == 3 and shape[0] in (1, batch) and shape[1] in (1, queries) and shape[2] == keys
    if not flat and not batched:
        raise ValueError(
            f"{name} shape={shape} fits neither ({queries}, {keys}) nor "
            f"({batch} or 1, {queries} or 1, {keys}); key padding is (B, 1, S)"
        )


def check_fresh(state: Any) -> None:
    """A state of this implementation that no call has taken yet."""
    if getattr(state, "spent", True):
        raise ValueError(f"state={state!r:.40} is used up; go on with the one that step or reorder returned")


def check_past(state: Any) -> None:
    if not hasattr(state, "positions_of"):
        raise ValueError(
            f"state={state!r:.40} is none of this model; give what start, step or reorder returned"
        )


def check_rows(state: Any, tokens: Tensor) -> None:
    if tokens.shape[0] != state.rows:
        raise ValueError(f"tokens rows={tokens.shape[0]} are not the state's {state.rows}; give one row each")


def check_row_numbers(state: Any, rows: Tensor) -> None:
    whole = rows.dtype == torch.int64 and rows.ndim == 1 and len(rows) > 0
    if not whole or int(rows.min()) < 0 or int(rows.max()) >= state.rows:
        shown = rows.tolist()
        raise ValueError(f"rows={shown} are not row numbers below {state.rows}; give one axis of integers")


def check_positions(name: str, positions: Tensor, shape: tuple[int, int]) -> None:
    if positions.dtype != torch.int64 or tuple(positions.shape) != shape:
        found = f"{name} shape={tuple(positions.shape)} dtype={positions.dtype}"
        raise ValueError(f"{found} is not int64 {shape}; give each token its position")
    if positions.numel() and int(positions.min()) < 0:
        raise ValueError(f"{name}={int(positions.min())} is negative; positions count from 0")


def check_floating(name: str, x: Tensor) -> None:
    if not torch.is_tensor(x) or not x.is_floating_point():
        kind = x.dtype if torch.is_tensor(x) else type(x).__name__
        raise ValueError(f"{name} dtype={kind} is not floating; give real numbers")


def check_boolean(name: str, mask: Tensor) -> None:
    if not torch.is_tensor(mask) or mask.dtype != torch.bool:
        kind = mask.dtype if torch.is_tensor(mask) else type(mask).__name__
        raise ValueError(f"{name} dtype={kind} is not bool; give True where a query may attend")
