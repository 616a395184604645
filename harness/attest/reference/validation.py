"""What a component refuses: configs on construction, inputs before anything is computed.

Every message names the argument, its value, the rule and a remedy. The rules are methods, so that a defect
can leave one out.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import numpy as np

from attest.contract import Config
from attest.reference.tape import Array

_LAYER = frozenset({"d_model", "num_heads", "d_ff", "dropout", "norm", "activation"})
_MODEL = _LAYER | {
    "num_encoder_layers",
    "num_decoder_layers",
    "source_vocab",
    "target_vocab",
    "max_len",
    "special_ids",
    "label_smoothing",
    "training",
}
READS: Mapping[str, frozenset[str]] = {
    "attention": frozenset({"dropout"}),
    "qkv_projection": frozenset({"d_model"}),
    "multi_head_attention": frozenset({"d_model", "num_heads", "dropout"}),
    "feed_forward": frozenset({"d_model", "d_ff", "activation", "dropout"}),
    "token_embedding": frozenset({"d_model", "source_vocab"}),
    "positional_encoding": frozenset({"d_model", "max_len"}),
    "input_embedding": frozenset({"d_model", "source_vocab", "max_len", "dropout"}),
    "layer_norm": frozenset({"d_model"}),
    "encoder_layer": _LAYER,
    "decoder_layer": _LAYER,
    "encoder": _LAYER | {"num_encoder_layers"},
    "decoder": _LAYER | {"num_decoder_layers"},
    "transformer": _MODEL,
    "trainer": _MODEL,
    "generate": _MODEL,
    "optimizer": _MODEL,
    "loss": frozenset({"label_smoothing"}),
    "learning_rate": frozenset({"training", "d_model"}),
    "clip_gradients": frozenset({"training"}),
}
_SIZES = (
    "d_model",
    "num_encoder_layers",
    "num_decoder_layers",
    "source_vocab",
    "target_vocab",
    "max_len",
)
CHOICES = {"norm": ("post", "pre"), "activation": ("relu", "gelu")}


class ConfigRules:
    """Refuses a config that makes no sense for the operation that reads it."""

    config: Config
    reads: frozenset[str]

    def check_config(self) -> None:
        self.check_sizes()
        self.check_heads()
        self.check_inner_width()
        self.check_dropout()
        self.check_choices()
        self.check_special_ids()
        self.check_training()

    def check_sizes(self) -> None:
        for name in _SIZES:
            if name in self.reads:
                check_size(name, getattr(self.config, name))

    def check_heads(self) -> None:
        if "num_heads" not in self.reads:
            return
        heads, width = self.config.num_heads, self.config.d_model
        check_size("num_heads", heads)
        if width % heads:
            raise ValueError(
                f"num_heads={heads} does not divide d_model={width}; choose a divisor of {width}"
            )

    def check_inner_width(self) -> None:
        if "d_ff" in self.reads and self.config.d_ff is not None:
            check_size("d_ff", self.config.d_ff)

    def check_dropout(self) -> None:
        if "dropout" in self.reads:
            check_share("dropout", self.config.dropout)

    def check_choices(self) -> None:
        for name in sorted(self.reads & CHOICES.keys()):
            value = getattr(self.config, name)
            if value not in CHOICES[name]:
                raise ValueError(f"{name}={value!r} is not known; choose one of {', '.join(CHOICES[name])}")

    def check_special_ids(self) -> None:
        if "special_ids" not in self.reads:
            return
        c = self.config
        check_id("pad_id", c.pad_id, min(c.source_vocab, c.target_vocab))
        check_id("bos_id", c.bos_id, c.target_vocab)
        check_id("eos_id", c.eos_id, c.target_vocab)
        if len({c.pad_id, c.bos_id, c.eos_id}) < 3:
            raise ValueError(
                f"pad_id={c.pad_id}, bos_id={c.bos_id}, eos_id={c.eos_id} must differ; give each its own id"
            )

    def check_training(self) -> None:
        c = self.config
        if "label_smoothing" in self.reads:
            check_share("label_smoothing", c.label_smoothing)
        if "training" not in self.reads:
            return
        if c.schedule not in ("inverse_sqrt", "cosine"):
            raise ValueError(f"schedule={c.schedule!r} is not known; choose inverse_sqrt or cosine")
        if not _is_integer(c.warmup) or c.warmup < 0:
            raise ValueError(f"warmup={c.warmup!r} must be an integer of at least 0; give a number of steps")
        if not c.clip_norm > 0:
            raise ValueError(f"clip_norm={c.clip_norm!r} must be above 0; use inf to leave gradients alone")


class InputRules:
    """Refuses inputs of the wrong rank, width, batch, length or mask shape, and ids that do not exist."""

    config: Config
    operation: str

    def check_inputs(self, inputs: Mapping[str, Any]) -> None:
        """Dispatch on the operation."""
        if self.operation == "attention":
            self.check_attention(inputs)
        elif self.operation == "loss":
            self.check_loss(inputs["logits"], inputs["labels"])
        elif "query" in inputs:
            self.check_sequence("query", inputs["query"])
            self.check_memory("key_value", inputs["key_value"], inputs["query"])
            self.check_mask("mask", inputs.get("mask"), inputs["query"], inputs["key_value"])
        elif "x" in inputs:
            self.check_states(inputs)
        else:
            self.check_tokens(inputs)

    def check_attention(self, inputs: Mapping[str, Any]) -> None:
        q, k, v = inputs["q"], inputs["k"], inputs["v"]
        for name, x in (("q", q), ("k", k), ("v", v)):
            if x.ndim < 2 or x.ndim != q.ndim or x.shape[:-2] != q.shape[:-2]:
                raise ValueError(f"{name}={x.shape} needs rank and batch of q={q.shape}; reshape it")
        if k.shape[-1] != q.shape[-1] or not q.shape[-1]:
            raise ValueError(f"k={k.shape} must have the width of q={q.shape}; project both to one width")
        if v.shape[-2] != k.shape[-2]:
            raise ValueError(f"v={v.shape} must be as long as k={k.shape}; give one value per key")
        if not k.shape[-2]:
            raise ValueError(f"k={k.shape} holds no keys; give at least one")
        self.check_broadcast("mask", inputs.get("mask"), (*q.shape[:-1], k.shape[-2]))

    def check_broadcast(self, name: str, mask: Array | None, full: tuple[int, ...]) -> None:
        if mask is None:
            return
        check_mask_type(name, mask)
        if mask.ndim > len(full) or any(m not in (1, n) for m, n in zip(mask.shape[::-1], full[::-1])):
            raise ValueError(f"{name}={mask.shape} does not broadcast to {full}; use True = may attend there")

    def check_states(self, inputs: Mapping[str, Any]) -> None:
        x = inputs["x"]
        self.check_sequence("x", x)
        if self.operation == "positional_encoding":
            self.check_length("x", x.shape[1])
        self.check_mask("mask", inputs.get("mask"), x, x)
        if "memory" in inputs:
            self.check_memory("memory", inputs["memory"], x)
            self.check_mask("memory_mask", inputs.get("memory_mask"), x, inputs["memory"])

    def check_sequence(self, name: str, x: Array) -> None:
        if x.ndim != 3 or x.shape[-1] != self.config.d_model:
            raise ValueError(f"{name}={x.shape} must be (batch, length, {self.config.d_model}); reshape it")

    def check_memory(self, name: str, memory: Array, x: Array) -> None:
        self.check_sequence(name, memory)
        if memory.shape[0] != x.shape[0]:
            raise ValueError(
                f"{name}={memory.shape} must have batch {x.shape[0]}; give one row per query row"
            )
        if not memory.shape[1]:
            raise ValueError(f"{name}={memory.shape} holds no keys; give at least one")

    def check_mask(self, name: str, mask: Array | None, x: Array, keys: Array) -> None:
        """(T, S) or (B or 1, T or 1, S); a mask over heads or over a bare key axis is refused."""
        if mask is None:
            return
        check_mask_type(name, mask)
        B, T, S = x.shape[0], x.shape[1], keys.shape[1]
        right = (
            mask.shape == (T, S) if mask.ndim == 2 else mask.ndim == 3 and self._fits(mask.shape, (B, T, S))
        )
        if not right:
            raise ValueError(
                f"{name}={mask.shape} must be ({T}, {S}) or ({B} or 1, {T} or 1, {S}); "
                "add the missing axes with length 1"
            )

    @staticmethod
    def _fits(shape: tuple[int, ...], full: tuple[int, int, int]) -> bool:
        return shape[0] in (1, full[0]) and shape[1] in (1, full[1]) and shape[2] == full[2]

    def check_tokens(self, inputs: Mapping[str, Any]) -> None:
        vocabularies = {"target": self.config.target_vocab}
        for name in ("ids", "source", "target"):
            if name in inputs:
                ids = inputs[name]
                self.check_ids(name, ids, vocabularies.get(name, self.config.source_vocab))
                if self.operation != "token_embedding":
                    self.check_length(name, ids.shape[1])
        if "source" in inputs and not inputs["source"].shape[1]:
            raise ValueError(f"source={inputs['source'].shape} is empty; give at least one token")
        self.check_rows(inputs)

    def check_rows(self, inputs: Mapping[str, Any]) -> None:
        rows = {name: x.shape[0] for name, x in inputs.items()}
        if len(set(rows.values())) > 1:
            raise ValueError(f"batch={rows} must agree; give every input the same number of rows")

    def check_ids(self, name: str, ids: Array, size: int) -> None:
        if ids.ndim != 2 or not np.issubdtype(ids.dtype, np.integer):
            raise ValueError(
                f"{name}={ids.shape} {ids.dtype} must be integers (batch, length); reshape or cast"
            )
        outside = ids[(ids < 0) | (ids >= size)]
        if outside.size:
            raise ValueError(
                f"{name}={int(outside[0])} is outside the vocabulary; use ids from 0 to {size - 1}"
            )

    def check_length(self, name: str, length: int) -> None:
        limit = self.config.max_len
        if length > limit:
            raise ValueError(f"{name} length={length} exceeds max_len={limit}; shorten it or raise max_len")

    def check_loss(self, logits: Array, labels: Array) -> None:
        if logits.ndim != 3 or labels.shape != logits.shape[:2]:
            raise ValueError(f"labels={labels.shape} must match logits={logits.shape} but for its last axis")
        self.check_ids("labels", labels, logits.shape[-1])


def _is_integer(value: Any) -> bool:
    return isinstance(value, int | np.integer) and not isinstance(value, bool)


def check_size(name: str, value: Any) -> None:
    if not _is_integer(value) or value < 1:
        raise ValueError(f"{name}={value!r} must be an integer of at least 1; give a whole number")


def check_share(name: str, value: Any) -> None:
    number = isinstance(value, int | float | np.floating) and not isinstance(value, bool)
    if not number or math.isnan(value) or not 0 <= value < 1:
        raise ValueError(f"{name}={value!r} must be at least 0 and below 1; use 0 to switch it off")


def check_id(name: str, value: Any, size: int) -> None:
    if not _is_integer(value) or not 0 <= value < size:
        raise ValueError(f"{name}={value!r} is outside the vocabulary; use an id from 0 to {size - 1}")


def check_mask_type(name: str, mask: Array) -> None:
    if mask.dtype != np.bool_ and not np.issubdtype(mask.dtype, np.integer):
        raise ValueError(f"{name} has dtype {mask.dtype}; give booleans, True = may attend")
