"""From an operation's name and keyword inputs to the formula that computes it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from attest.contract import operation_of
from attest.reference.formulas import Formulas
from attest.reference.scope import Scope
from attest.reference.tape import Var

Inputs = Mapping[str, Any]  # Vars where floating, arrays and flags otherwise
Outputs = dict[str, Var]


def run(formulas: Formulas, operation: str, p: Scope, inputs: Inputs) -> Outputs:
    """The named outputs of one operation."""
    formula = _RUN.get(operation) or operation_of(operation).formula
    if formula is None:
        raise ValueError(f"operation={operation!r} has no formula; give its record one")
    return dict(formula(formulas, p, inputs))


def _attention(f: Formulas, p: Scope, x: Inputs) -> Outputs:
    return f.attention(x["q"], x["k"], x["v"], x.get("mask"), bool(x.get("causal", False)))


def _multi_head(f: Formulas, p: Scope, x: Inputs) -> Outputs:
    return f.multi_head_attention(x["query"], x["key_value"], p, x.get("mask"))


def _decoder_layer(f: Formulas, p: Scope, x: Inputs) -> Outputs:
    return {"output": f.decoder_layer(x["x"], x["memory"], x.get("mask"), x.get("memory_mask"), p)}


def _decoder(f: Formulas, p: Scope, x: Inputs) -> Outputs:
    return {"output": f.decoder(x["x"], x["memory"], x.get("mask"), x.get("memory_mask"), p)}


def _loss(f: Formulas, p: Scope, x: Inputs) -> Outputs:
    return {"loss": f.loss(x["logits"], x["labels"], f.config.label_smoothing)}


_RUN: Mapping[str, Callable[[Formulas, Scope, Inputs], Outputs]] = {
    "attention": _attention,
    "qkv_projection": lambda f, p, x: f.qkv_projection(x["x"], p),
    "multi_head_attention": _multi_head,
    "feed_forward": lambda f, p, x: {"output": f.feed_forward(x["x"], p)},
    "token_embedding": lambda f, p, x: {"output": f.embed(x["ids"], p["weight"])},
    "positional_encoding": lambda f, p, x: {"output": f.add_positions(x["x"])},
    "input_embedding": lambda f, p, x: {"output": f.input_embedding(x["ids"], p["weight"])},
    "layer_norm": lambda f, p, x: {"output": f.layer_norm(x["x"], p)},
    "encoder_layer": lambda f, p, x: {"output": f.encoder_layer(x["x"], x.get("mask"), p)},
    "encoder": lambda f, p, x: {"output": f.encoder(x["x"], x.get("mask"), p)},
    "decoder_layer": _decoder_layer,
    "decoder": _decoder,
    "transformer": lambda f, p, x: {"logits": f.transformer(x["source"], x["target"], p)},
    "encode": lambda f, p, x: {"memory": f.encode(x["source"], p)},
    "decode": lambda f, p, x: {"logits": f.decode(x["target"], x["memory"], x["source"], p)},
    "loss": _loss,
}
