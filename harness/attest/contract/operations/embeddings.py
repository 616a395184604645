"""M3: the feed-forward layer, tokens and positions."""

from __future__ import annotations

from attest.contract import parameters
from attest.contract.operation import Form, Operation, floats, ids, register_operation

FEED_FORWARD = register_operation(
    Operation(
        name="feed_forward",
        form=Form.COMPONENT,
        milestone="M3",
        takes={"x": floats("B T D")},
        gives={"output": "B T D"},
        reads=frozenset({"d_model", "d_ff", "activation", "gated", "dropout", "bias"}),
        parameters=parameters.feed_forward,
    )
)

TOKEN_EMBEDDING = register_operation(
    Operation(
        name="token_embedding",
        form=Form.COMPONENT,
        milestone="M3",
        note="not scaled",
        takes={"ids": ids("B T", "source_vocab")},
        gives={"output": "B T D"},
        reads=frozenset({"d_model", "source_vocab", "pad_id"}),
        parameters=parameters.embedding,
        tables=frozenset({"weight"}),
    )
)

POSITIONAL_ENCODING = register_operation(
    Operation(
        name="positional_encoding",
        form=Form.COMPONENT,
        milestone="M3",
        note="x + positions",
        takes={"x": floats("B T D")},
        gives={"output": "B T D"},
        reads=frozenset({"d_model", "max_len", "positions"}),
        parameters=parameters.positions,
    )
)

INPUT_EMBEDDING = register_operation(
    Operation(
        name="input_embedding",
        form=Form.COMPONENT,
        milestone="M3",
        note="dropout(scaled tokens + positions)",
        takes={"ids": ids("B T", "source_vocab")},
        gives={"output": "B T D"},
        reads=frozenset({"d_model", "source_vocab", "pad_id", "max_len", "dropout", "scale_embeddings"}),
        parameters=parameters.embedding,
        tables=frozenset({"weight"}),
    )
)
