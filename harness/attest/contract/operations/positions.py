"""M7: positions of today, each by itself."""

from __future__ import annotations

from attest.contract import parameters
from attest.contract.operation import Form, Kind, Operation, Port, floats, ids, register_operation

NUMBER = Port("", Kind.NUMBER)
FLAG = Port("", Kind.FLAG, optional=True)
POSITIONS = ids("B T")  # from 0 on, without a limit
SCALING_FIELDS = frozenset(
    {"rotary_scaling", "rotary_factor", "rotary_original", "rotary_slow_turns", "rotary_fast_turns"}
)
ROTARY_FIELDS = frozenset({"rotary_base", "rotary_pairing", "rotary_fraction"}) | SCALING_FIELDS
RELATIVE_FIELDS = frozenset({"relative_buckets", "relative_distance"})

ROTARY = register_operation(
    Operation(
        name="rotary",
        form=Form.COMPONENT,
        milestone="M7",
        note="pairs of features turned by their angle",
        takes={"x": floats("B H T d"), "positions": POSITIONS},
        gives={"output": "B H T d"},
        reads=ROTARY_FIELDS,
        sizes={},
    )
)

ALIBI_SLOPES = register_operation(
    Operation(
        name="alibi_slopes",
        form=Form.FUNCTION,
        milestone="M7",
        note="positive; the bias is -slope times the distance",
        takes={"num_heads": NUMBER},
        gives={"output": "H"},
    )
)

RELATIVE_BUCKETS = register_operation(
    Operation(
        name="relative_buckets",
        form=Form.FUNCTION,
        milestone="M7",
        note="of key minus query positions",
        takes={"offsets": ids("T S"), "buckets": NUMBER, "distance": NUMBER, "causal": FLAG},
        gives={"output": "T S"},
    )
)

RELATIVE_BIAS = register_operation(
    Operation(
        name="relative_bias",
        form=Form.COMPONENT,
        milestone="M7",
        note="added to the scores",
        takes={"positions": POSITIONS, "key_positions": ids("B S"), "causal": FLAG},
        gives={"output": "B H T S"},
        reads=RELATIVE_FIELDS | {"num_heads"},
        sizes={"H": "num_heads"},
        parameters=parameters.relative,
    )
)
