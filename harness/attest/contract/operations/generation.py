"""M6: generation with a model."""

from __future__ import annotations

from attest.contract import parameters
from attest.contract.operation import Form, Kind, Operation, Port, floats, register_operation
from attest.contract.operations.training import MODEL, SIZES, SOURCE, TABLES

NUMBER = Port("", Kind.NUMBER)
SETTING = Port("", Kind.NUMBER, optional=True)

GENERATE = register_operation(
    Operation(
        name="generate",
        form=Form.GENERATOR,
        milestone="M6",
        note="see Generator",
        takes={
            "source": SOURCE,
            "max_len": NUMBER,
            "width": SETTING,
            "num_results": SETTING,
            "alpha": SETTING,
            "method": SETTING,
            "temperature": SETTING,
            "top_k": SETTING,
            "top_p": SETTING,
            "seed": SETTING,
        },
        gives={"tokens": "B K L", "scores": "B K"},
        reads=MODEL,
        sizes=SIZES,
        parameters=parameters.transformer,
        tables=TABLES,
    )
)

NEXT_TOKEN_DISTRIBUTION = register_operation(
    Operation(
        name="next_token_distribution",
        form=Form.FUNCTION,
        milestone="M6",
        takes={"logits": floats("B V"), "temperature": SETTING, "top_k": SETTING, "top_p": SETTING},
        gives={"output": "B V"},
    )
)
