"""M1 and M2: attention, the projections, the masks, several heads."""

from __future__ import annotations

from attest.contract import parameters
from attest.contract.operation import Form, Kind, Operation, Port, floats, ids, mask, register_operation

NUMBER = Port("", Kind.NUMBER)
FLAG = Port("", Kind.FLAG, optional=True)

ATTENTION = register_operation(
    Operation(
        name="attention",
        form=Form.COMPONENT,
        milestone="M1",
        takes={
            "q": floats("... T d"),
            "k": floats("... S d", some=True),
            "v": floats("... S d_v"),
            "mask": mask("... T S"),
            "causal": FLAG,
        },
        gives={"output": "... T d_v"},
        may_give={"weights": "... T S"},
        reads=frozenset({"dropout"}),
        sizes={},
    )
)

QKV_PROJECTION = register_operation(
    Operation(
        name="qkv_projection",
        form=Form.COMPONENT,
        milestone="M1",
        takes={"x": floats("B T D")},
        gives={"q": "B T D", "k": "B T D", "v": "B T D"},
        reads=frozenset({"d_model", "bias"}),
        parameters=parameters.projections,
    )
)

LENGTH_MASK = register_operation(
    Operation(
        name="length_mask",
        form=Form.FUNCTION,
        milestone="M1",
        takes={"lengths": ids("B"), "size": NUMBER},
        gives={"output": "B 1 S"},
    )
)

PADDING_MASK = register_operation(
    Operation(
        name="padding_mask",
        form=Form.FUNCTION,
        milestone="M1",
        takes={"ids": ids("B S"), "pad_id": NUMBER},
        gives={"output": "B 1 S"},
    )
)

CAUSAL_MASK = register_operation(
    Operation(
        name="causal_mask",
        form=Form.FUNCTION,
        milestone="M1",
        note="aligned at the bottom right",
        takes={"T": NUMBER, "S": NUMBER},
        gives={"output": "T S"},
    )
)

MULTI_HEAD_ATTENTION = register_operation(
    Operation(
        name="multi_head_attention",
        form=Form.COMPONENT,
        milestone="M2",
        takes={"query": floats("B T D"), "key_value": floats("B S D", some=True), "mask": mask("B T S")},
        gives={"output": "B T D"},
        may_give={"weights": "B H T S"},
        reads=frozenset({"d_model", "num_heads", "dropout", "bias"}),
        sizes={"D": "d_model", "H": "num_heads"},
        parameters=parameters.multi_head,
    )
)
