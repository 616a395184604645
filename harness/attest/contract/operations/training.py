"""M5: the model, the loss and what trains it."""

from __future__ import annotations

from attest.contract import parameters
from attest.contract.operation import Form, Kind, Method, Operation, Port, floats, ids, register_operation
from attest.contract.operations.layers import LAYER

SPECIAL = frozenset({"pad_id", "bos_id", "eos_id"})
STACKS = frozenset({"num_encoder_layers", "num_decoder_layers"})
VOCABULARIES = frozenset({"source_vocab", "target_vocab"})
# What a model in the manner of T5 chooses: relative positions, RMSNorm, unscaled scores, one table.
OF_T5 = frozenset(
    {"positions", "relative_buckets", "relative_distance", "norm_kind", "head_width", "attention_scale"}
) | {"share_embeddings", "projection_scale"}
MODEL = LAYER | STACKS | VOCABULARIES | SPECIAL | OF_T5 | {"max_len", "scale_embeddings", "tie"}
SCHEDULE = frozenset({"d_model", "schedule", "warmup", "peak_rate", "floor_rate", "total_steps"})
SIZES = {"D": "d_model", "V": "target_vocab"}
TABLES = frozenset({"source_embedding.weight", "target_embedding.weight", "embedding.weight"})
SOURCE = ids("B S", "source_vocab", some=True)
TARGET = ids("B T", "target_vocab")

TRANSFORMER = register_operation(
    Operation(
        name="transformer",
        form=Form.MODEL,
        milestone="M5",
        takes={"source": SOURCE, "target": TARGET},
        gives={"logits": "B T V"},
        reads=MODEL,
        sizes=SIZES,
        parameters=parameters.transformer,
        tables=TABLES,
        methods={
            "encode": Method(takes={"source": SOURCE}, gives={"memory": "B S D"}),
            "decode": Method(
                takes={"target": TARGET, "memory": floats("B S D"), "source": SOURCE},
                gives={"logits": "B T V"},
            ),
            "attention_maps": Method(
                takes={"source": SOURCE, "target": TARGET},
                gives={"encoder": "L B H S S", "decoder": "N B H T T", "cross": "N B H T S"},
            ),
        },
        streams=("target", "source"),
    )
)

LOSS = register_operation(
    Operation(
        name="loss",
        form=Form.COMPONENT,
        milestone="M5",
        takes={"logits": floats("B T V"), "labels": ids("B T", "V")},
        gives={"loss": ""},
        reads=frozenset({"label_smoothing", "pad_id"}),
        sizes={},
    )
)

LEARNING_RATE = register_operation(
    Operation(
        name="learning_rate",
        form=Form.SCHEDULE,
        milestone="M5",
        note="a plain number; steps count from 1",
        takes={"step": Port("", Kind.NUMBER)},
        gives={"rate": ""},
        reads=SCHEDULE,
    )
)

CLIP_GRADIENTS = register_operation(
    Operation(
        name="clip_gradients",
        form=Form.CLIPPING,
        milestone="M5",
        note="a mapping of the same names",
        takes={"gradients": Port("", Kind.ARRAYS)},
        reads=frozenset({"clip_norm"}),
    )
)

OPTIMIZER = register_operation(
    Operation(
        name="optimizer",
        form=Form.OPTIMIZER,
        milestone="M5",
        note="see Optimizer",
        reads=MODEL,
        sizes=SIZES,
        parameters=parameters.transformer,
        tables=TABLES,
    )
)

TRAINER = register_operation(
    Operation(
        name="trainer",
        form=Form.TRAINER,
        milestone="M5",
        note="see Trainer",
        reads=MODEL | SCHEDULE | {"clip_norm", "label_smoothing"},
        sizes=SIZES,
        parameters=parameters.transformer,
        tables=TABLES,
    )
)
