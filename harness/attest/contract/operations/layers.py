"""M4: the norm, the layers and the stacks. M9: the norm of today's models."""

from __future__ import annotations

from attest.contract import parameters
from attest.contract.operation import Form, Operation, floats, mask, register_operation
from attest.contract.operations.embeddings import FEED_FORWARD

LAYER = FEED_FORWARD.reads | {"num_heads", "norm", "norm_eps"}
ENCODES = {"x": floats("B T D"), "mask": mask("B T T")}
DECODES = {
    "x": floats("B T D"),
    "memory": floats("B S D", some=True),
    "mask": mask("B T T"),
    "memory_mask": mask("B T S"),
}

LAYER_NORM = register_operation(
    Operation(
        name="layer_norm",
        form=Form.COMPONENT,
        milestone="M4",
        takes={"x": floats("B T D")},
        gives={"output": "B T D"},
        reads=frozenset({"d_model", "norm_eps"}),
        parameters=parameters.norm,
    )
)

RMS_NORM = register_operation(
    Operation(
        name="rms_norm",
        form=Form.COMPONENT,
        milestone="M9",
        takes={"x": floats("B T D")},
        gives={"output": "B T D"},
        reads=frozenset({"d_model", "norm_eps"}),
        parameters=lambda config: {"weight": (config.d_model,)},
    )
)

ENCODER_LAYER = register_operation(
    Operation(
        name="encoder_layer",
        form=Form.COMPONENT,
        milestone="M4",
        takes=ENCODES,
        gives={"output": "B T D"},
        reads=LAYER,
        parameters=parameters.encoder_layer,
        streams=("x",),
    )
)

DECODER_LAYER = register_operation(
    Operation(
        name="decoder_layer",
        form=Form.COMPONENT,
        milestone="M4",
        note="causal; `mask` on top of it",
        takes=DECODES,
        gives={"output": "B T D"},
        reads=LAYER,
        parameters=parameters.decoder_layer,
        streams=("x", "memory"),
    )
)

ENCODER = register_operation(
    Operation(
        name="encoder",
        form=Form.COMPONENT,
        milestone="M4",
        takes=ENCODES,
        gives={"output": "B T D"},
        reads=LAYER | {"num_encoder_layers"},
        parameters=parameters.encoder,
        streams=("x",),
    )
)

DECODER = register_operation(
    Operation(
        name="decoder",
        form=Form.COMPONENT,
        milestone="M4",
        note="causal; `mask` on top of it",
        takes=DECODES,
        gives={"output": "B T D"},
        reads=LAYER | {"num_decoder_layers"},
        parameters=parameters.decoder,
        streams=("x", "memory"),
    )
)
