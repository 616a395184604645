"""M9: what a masked language model is given to fill in, and how far it is from that."""

from __future__ import annotations

from attest.contract.operation import Form, Kind, Operation, Port, floats, ids, register_operation

NUMBER = Port("", Kind.NUMBER)

MASK_TOKENS = register_operation(
    Operation(
        name="mask_tokens",
        form=Form.FUNCTION,
        milestone="M9",
        note="new ids, and 1 where a token was chosen; `rate` is 0.15 unless given",
        takes={
            "ids": ids("B T"),
            "mask_id": NUMBER,
            "vocabulary": NUMBER,
            "special": ids("K"),
            "seed": NUMBER,
            "rate": Port("", Kind.NUMBER, optional=True),
        },
        gives={"masked": "2 B T"},
    )
)

MASKED_LANGUAGE_MODEL_LOSS = register_operation(
    Operation(
        name="masked_language_model_loss",
        form=Form.COMPONENT,
        milestone="M9",
        note="of the tokens that were chosen; masked and chosen are from mask_tokens",
        takes={
            "logits": floats("B T V"),
            "ids": ids("B T", "V"),
            "masked": ids("B T", "V"),
            "chosen": ids("B T"),
        },
        gives={"loss": ""},
        reads=frozenset({"label_smoothing", "pad_id"}),
        sizes={},
    )
)
