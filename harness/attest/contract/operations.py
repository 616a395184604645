"""The operations of the contract and the milestone of each."""

from __future__ import annotations

from typing import Any

OPERATIONS: dict[str, str] = {
    "attention": "M1",
    "qkv_projection": "M1",
    "length_mask": "M1",
    "padding_mask": "M1",
    "causal_mask": "M1",
    "multi_head_attention": "M2",
    "feed_forward": "M3",
    "token_embedding": "M3",
    "positional_encoding": "M3",
    "input_embedding": "M3",
    "layer_norm": "M4",
    "encoder_layer": "M4",
    "decoder_layer": "M4",
    "encoder": "M4",
    "decoder": "M4",
    "transformer": "M5",
    "loss": "M5",
    "learning_rate": "M5",
    "clip_gradients": "M5",
    "optimizer": "M5",
    "trainer": "M5",
    "generate": "M6",
    "next_token_distribution": "M6",
}

FUNCTIONS = frozenset({"length_mask", "padding_mask", "causal_mask", "next_token_distribution"})


def register_operation(record: Any) -> None:
    """Add an operation of a plugin; ValueError where its name is taken or no name."""
    name = record.name
    if not (isinstance(name, str) and name.isidentifier()):
        raise ValueError(f"name={name!r} cannot name an operation; use letters, digits and underscores")
    if name in OPERATIONS:
        raise ValueError(f"name={name!r} is an operation already; choose another name")
    OPERATIONS[name] = record.milestone
