"""Which inputs are refused, before anything is computed. Messages read `name=value rule; remedy`.

A component calls `check_inputs` with the name of its operation and what it was given. Behind it nothing is
checked again.

Shapes: B batch, T queries, S keys, D width, V vocabulary.
"""

import math
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from attest.contract import Config

from .checks import (
    check_boolean,
    check_broadcasts,
    check_floating,
    check_fresh,
    check_ids,
    check_length,
    check_mask,
    check_past,
    check_positions,
    check_row_numbers,
    check_rows,
    check_same_batch,
    check_sampling,
    check_some,
    check_width,
)
from .masks import padding_mask
from .settings import is_number, is_whole, rotated_width

METHODS = ("greedy", "beam", "sample")


def check_inputs(operation: str, config: Config, **inputs: Any) -> None:
    """Refuse what the operation cannot take. The inputs have the names of the contract."""
    _CHECKS[operation](config, **inputs)


def _attention(
    _: Config, q: Tensor, k: Tensor, v: Tensor, mask: Tensor | None = None, causal: bool = False
) -> None:
    """Queries, keys and values that belong together. Nothing is broadcast in silence."""
    for name, x in (("q", q), ("k", k), ("v", v)):
        check_floating(name, x)
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
    if mask is not None:
        check_broadcasts(mask, (*q.shape[:-1], k.shape[-2]))


def _linear_attention(
    config: Config, q: Tensor, k: Tensor, v: Tensor, mask: Tensor | None = None, causal: bool = False
) -> None:
    """A mask hides keys from all queries: it has no rows of its own."""
    _four_axes(config, q, k, v)
    if mask is not None:
        check_boolean("mask", mask)
        B, S = k.shape[0], k.shape[2]
        if tuple(mask.shape) not in ((1, S), (1, 1, S), (B, 1, S)):
            raise ValueError(
                f"mask shape={tuple(mask.shape)} is not ({B} or 1, 1, {S}); give one entry per key"
            )


def _block_sparse_attention(
    config: Config, q: Tensor, k: Tensor, v: Tensor, blocks: Tensor, causal: bool = False
) -> None:
    _four_axes(config, q, k, v)
    check_boolean("blocks", blocks)
    H, rows, columns = q.shape[1], *(math.ceil(x.shape[2] / config.block) for x in (q, k))
    if tuple(blocks.shape) not in ((H, rows, columns), (1, rows, columns)):
        raise ValueError(
            f"blocks shape={tuple(blocks.shape)} is not ({H} or 1, {rows}, {columns}); "
            f"give one entry per {config.block} queries and {config.block} keys"
        )


def _four_axes(config: Config, q: Tensor, k: Tensor, v: Tensor) -> None:
    _attention(config, q, k, v)
    if q.ndim != 4:
        raise ValueError(f"q shape={tuple(q.shape)} is not (B, H, T, d); give four axes")


def _vectors(config: Config, x: Tensor) -> None:
    check_width("x", x, config.d_model)


def _numbers(_: Config, x: Tensor) -> None:
    """Of any width, but of one at least."""
    check_floating("x", x)
    if x.ndim != 3 or not x.shape[-1]:
        raise ValueError(f"x shape={tuple(x.shape)} is not (B, T, width); give three axes and some features")


def _positions(config: Config, x: Tensor) -> None:
    check_width("x", x, config.d_model)
    check_length("x", x.shape[1], _last(config))


def _last(config: Config) -> int | None:
    """The number of positions of a table; None where positions go on for ever."""
    return config.max_len if config.ends_at_max_len else None


def _rotary(config: Config, x: Tensor, positions: Tensor) -> None:
    check_floating("x", x)
    if x.ndim != 4:
        raise ValueError(f"x shape={tuple(x.shape)} is not (B, H, T, d); give four axes")
    rotated_width(x.shape[-1], config.rotary_fraction)
    check_positions("positions", positions, (x.shape[0], x.shape[2]))


def _relative_bias(config: Config, positions: Tensor, key_positions: Tensor, causal: bool = False) -> None:
    for name, given in (("positions", positions), ("key_positions", key_positions)):
        if given.ndim != 2:
            raise ValueError(f"{name} shape={tuple(given.shape)} is not (B, length); give one row per text")
        check_positions(name, given, (positions.shape[0], given.shape[1]))


def _self_attention(
    config: Config,
    x: Tensor,
    mask: Tensor | None = None,
    positions: Tensor | None = None,
    causal: bool = False,
) -> None:
    _encoder(config, x, mask)
    if positions is not None:
        check_positions("positions", positions, (x.shape[0], x.shape[1]))


def _heads(config: Config, query: Tensor, key_value: Tensor, mask: Tensor | None = None) -> None:
    check_width("query", query, config.d_model)
    check_width("key_value", key_value, config.d_model)
    check_same_batch("key_value", key_value, "query", query)
    check_some("key_value", key_value.shape[1])
    check_mask("mask", mask, query, key_value.shape[1])


def _encoder(config: Config, x: Tensor, mask: Tensor | None = None) -> None:
    check_width("x", x, config.d_model)
    check_some("x", x.shape[1])
    check_mask("mask", mask, x, x.shape[1])


def _decoder(
    config: Config, x: Tensor, memory: Tensor, mask: Tensor | None = None, memory_mask: Tensor | None = None
) -> None:
    _encoder(config, x, mask)
    check_width("memory", memory, config.d_model)
    check_same_batch("memory", memory, "x", x)
    check_some("memory", memory.shape[1])
    check_mask("memory_mask", memory_mask, x, memory.shape[1])


def _encode(config: Config, source: Tensor) -> None:
    check_ids("source", source, config.source_vocab, _last(config))


def _transformer(config: Config, source: Tensor, target: Tensor) -> None:
    check_ids("source", source, config.source_vocab, _last(config))
    check_ids("target", target, config.target_vocab, _last(config))
    check_same_batch("target", target, "source", source)


def _decode(config: Config, target: Tensor, memory: Tensor, source: Tensor) -> None:
    _transformer(config, source, target)
    check_width("memory", memory, config.d_model)
    if memory.shape[:2] != source.shape:
        shape = tuple(memory.shape)
        raise ValueError(f"memory shape={shape} is not that of source={tuple(source.shape)}; encode it")


def _step(config: Config, state: Any, tokens: Tensor) -> None:
    check_fresh(state)
    check_ids("tokens", tokens, config.target_vocab)
    check_rows(state, tokens)
    asked = state.length + tokens.shape[1]
    if asked > state.capacity:
        raise ValueError(
            f"tokens length={asked} is beyond the {state.capacity} allocated; stop or raise max_len"
        )


def _encoder_model(config: Config, ids: Tensor, segments: Tensor | None = None) -> None:
    check_ids("ids", ids, config.source_vocab, _last(config))
    if segments is None:
        return
    if not config.segments or segments.shape != ids.shape:
        shapes = f"segments shape={tuple(segments.shape)}, ids shape={tuple(ids.shape)}"
        raise ValueError(f"{shapes} with segments={config.segments} do not fit; give one kind per token")
    check_ids("segments", segments, config.segments)


def _language_model(config: Config, ids: Tensor) -> None:
    check_ids("ids", ids, config.target_vocab, _last(config))


def _read(config: Config, state: Any, tokens: Tensor) -> None:
    """Of a language model: what comes next in each row."""
    check_past(state)
    check_ids("tokens", tokens, config.target_vocab)
    check_rows(state, tokens)
    real = padding_mask(tokens, config.pad_id)[:, 0]
    longest = int(state.positions_of(real).max()) + 1
    if config.ends_at_max_len and longest > config.max_len:
        raise ValueError(f"tokens length={longest} is beyond max_len={config.max_len}; stop or raise max_len")


def _packed(config: Config, ids: Tensor, lengths: Tensor) -> None:
    """Documents side by side: each fits the positions, and together they fit their row."""
    check_ids("ids", ids, config.target_vocab)
    shape = tuple(lengths.shape)
    if lengths.dtype != torch.int64 or len(shape) != 2 or shape[0] != ids.shape[0] or not shape[1]:
        raise ValueError(f"lengths shape={shape} is not int64 ({ids.shape[0]}, documents); give a row each")
    if int(lengths.min()) < 0 or int(lengths.sum(1).max()) > ids.shape[1]:
        raise ValueError(
            f"lengths={lengths.tolist()} do not fit rows of {ids.shape[1]} ids; give 0 to leave out"
        )
    if config.ends_at_max_len and int(lengths.max()) > config.max_len:
        raise ValueError(f"lengths={int(lengths.max())} is beyond max_len={config.max_len}; raise max_len")


def _rows(_: Config, rows: Any) -> None:
    if not is_whole(rows, 1):
        raise ValueError(f"rows={rows!r} is not a positive integer; give the number of texts")


def _pick(_: Config, state: Any, rows: Tensor) -> None:
    check_past(state)
    check_row_numbers(state, rows)


def _rewind(_: Config, state: Any, count: Any) -> None:
    check_past(state)
    if not is_whole(count, 0) or count > state.length:
        raise ValueError(f"count={count!r} is not among the {state.length} tokens read; take back fewer")


def _reorder(_: Config, state: Any, rows: Tensor) -> None:
    check_fresh(state)
    check_row_numbers(state, rows)


def _loss(_: Config, logits: Tensor, labels: Tensor) -> None:
    _check_scored("labels", logits, labels)


def _text_loss(_: Config, logits: Tensor, ids: Tensor) -> None:
    _check_scored("ids", logits, ids)


def _masked_loss(_: Config, logits: Tensor, ids: Tensor, masked: Tensor, chosen: Tensor) -> None:
    _check_scored("ids", logits, ids)
    _check_scored("masked", logits, masked)
    if chosen.shape != ids.shape:
        raise ValueError(f"chosen shape={tuple(chosen.shape)} is not that of ids; give one mark per id")


def _check_scored(name: str, logits: Tensor, ids: Tensor) -> None:
    """Ids (B, T) of the classes that logits (B, T, V) speak of."""
    if logits.ndim != 3 or logits.shape[:2] != ids.shape:
        shapes = f"logits shape={tuple(logits.shape)}, {name} shape={tuple(ids.shape)}"
        raise ValueError(f"{shapes} are not (B, T, V) and (B, T); give one id per row of logits")
    check_ids(name, ids, logits.shape[-1])


def _generate(config: Config, source: Tensor, max_len: int, **request: Any) -> None:
    _check_request(config, max_len, **request)
    check_ids("source", source, config.source_vocab, _last(config))


def _complete(config: Config, prompt: Tensor, max_len: int, **request: Any) -> None:
    """The last token that is written is not read: it needs no position."""
    _check_request(config, max_len, **request)
    check_ids("prompt", prompt, config.target_vocab, _last(config))
    longest = int(padding_mask(prompt, config.pad_id).sum(-1).max())
    if config.ends_at_max_len and longest + max_len - 1 > config.max_len:
        raise ValueError(
            f"max_len={max_len} behind a prompt of {longest} tokens is beyond the {config.max_len} positions "
            "of the model; ask for fewer tokens"
        )


def _check_request(
    config: Config,
    max_len: int,
    width: int = 4,
    num_results: int = 1,
    alpha: float = 0.6,
    method: str = "beam",
    seed: int = 0,
    **sampling: Any,
) -> None:
    for name, value in (("max_len", max_len), ("width", width), ("num_results", num_results)):
        if not is_whole(value, 1):
            raise ValueError(f"{name}={value!r} is not a positive integer; give 1 or more")
    if max_len > config.max_len:
        raise ValueError(
            f"max_len={max_len} is beyond the {config.max_len} positions of the model; ask for fewer tokens"
        )
    if method not in METHODS:
        raise ValueError(f"method={method!r} is unknown; choose one of {', '.join(METHODS)}")
    most = width if method == "beam" else 1
    if num_results > most:
        raise ValueError(
            f"num_results={num_results} is above the {most} that {method} keeps; raise width={width}"
        )
    if not is_number(alpha):
        raise ValueError(f"alpha={alpha!r} is not a finite number; give 0 for no length penalty")
    if not is_whole(seed, 0):
        raise ValueError(f"seed={seed!r} is not an integer from 0; give one")
    check_sampling(**sampling)


_CHECKS: dict[str, Callable[..., None]] = {
    "attention": _attention,
    "qkv_projection": _vectors,
    "multi_head_attention": _heads,
    "feed_forward": _vectors,
    "token_embedding": lambda config, ids: check_ids("ids", ids, config.source_vocab),
    "positional_encoding": _positions,
    "input_embedding": lambda config, ids: check_ids("ids", ids, config.source_vocab, config.max_len),
    "layer_norm": _vectors,
    "rms_norm": _vectors,
    "encoder_layer": _encoder,
    "decoder_layer": _decoder,
    "encoder": _encoder,
    "decoder": _decoder,
    "transformer": _transformer,
    "encode": _encode,
    "decode": _decode,
    "transformer.step": _step,
    "transformer.reorder": _reorder,
    "loss": _loss,
    "linear": _vectors,
    "activation": _numbers,
    "softmax": _numbers,
    "cross_entropy": _loss,
    "generate": _generate,
    "rotary": _rotary,
    "relative_bias": _relative_bias,
    "chunked_attention": _attention,
    "linear_attention": _linear_attention,
    "block_sparse_attention": _block_sparse_attention,
    "self_attention": _self_attention,
    "causal_layer": _self_attention,
    "language_model": _language_model,
    "language_model.packed": _packed,
    "language_model.start": _rows,
    "language_model.step": _read,
    "language_model.reorder": _pick,
    "language_model.rewind": _rewind,
    "complete": _complete,
    "language_model_loss": _text_loss,
    "masked_language_model_loss": _masked_loss,
    "masked_language_model": _encoder_model,
    "classifier": _encoder_model,
}
