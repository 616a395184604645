"""M7 and M8: attention of a sequence to itself, with the positions and heads of today."""

from __future__ import annotations

from attest.contract import parameters
from attest.contract.operation import Form, Kind, Operation, Port, floats, mask, register_operation
from attest.contract.operations.attention import FLAG, MULTI_HEAD_ATTENTION
from attest.contract.operations.positions import RELATIVE_FIELDS, ROTARY_FIELDS

HEAD_OPTIONS = (
    ROTARY_FIELDS
    | RELATIVE_FIELDS
    | {
        "positions",
        "num_kv_heads",
        "head_width",
        "window",
        "window_sides",
        "attention_scale",
        "score_cap",
        "sinks",
        "qk_norm",
        "qkv_bias",
    }
)

SELF_ATTENTION = register_operation(
    Operation(
        name="self_attention",
        form=Form.COMPONENT,
        milestone="M7",
        note="positions count from 0 unless given",
        takes={
            "x": floats("B T D", some=True),
            "mask": mask("B T T"),
            "positions": Port("B T", Kind.IDS, optional=True),
            "causal": FLAG,
        },
        gives={"output": "B T D"},
        may_give={"weights": "B H T T"},
        reads=MULTI_HEAD_ATTENTION.reads | HEAD_OPTIONS | {"norm_eps"},
        sizes={"D": "d_model", "H": "num_heads"},
        parameters=parameters.self_attention,
        streams=("x",),
    )
)
