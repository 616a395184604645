"""M8: attention in blocks of keys, with a kernel in place of the softmax, and between chosen blocks."""

from __future__ import annotations

from attest.contract.operation import Form, Kind, Operation, Port, floats, mask, register_operation
from attest.contract.operations.attention import ATTENTION, FLAG

HEADS = {"q": floats("B H T d"), "k": floats("B H S d", some=True), "v": floats("B H S d_v")}

CHUNKED_ATTENTION = register_operation(
    Operation(
        name="chunked_attention",
        form=Form.COMPONENT,
        milestone="M8",
        note="log_sum_exp of the scaled scores that a query sees, -inf where it sees none",
        takes=ATTENTION.takes,
        gives={"output": "... T d_v", "log_sum_exp": "... T"},
        reads=frozenset({"chunk"}),
        sizes={},
    )
)

LINEAR_ATTENTION = register_operation(
    Operation(
        name="linear_attention",
        form=Form.COMPONENT,
        milestone="M8",
        note="the kernel is elu + 1; `mask` hides keys, from every query alike",
        takes={**HEADS, "mask": mask("B 1 S"), "causal": FLAG},
        gives={"output": "B H T d_v"},
        sizes={},
    )
)

BLOCK_SPARSE_ATTENTION = register_operation(
    Operation(
        name="block_sparse_attention",
        form=Form.COMPONENT,
        milestone="M8",
        note="`blocks` (H or 1, blocks of T, blocks of S): True where a block of queries sees one of keys",
        takes={**HEADS, "blocks": Port("H T S", Kind.MASK, per="block"), "causal": FLAG},
        gives={"output": "B H T d_v"},
        reads=frozenset({"block"}),
        sizes={},
    )
)
