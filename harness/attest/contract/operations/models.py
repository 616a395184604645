"""M9: the layer and the models of today."""

from __future__ import annotations

from attest.contract import parameters
from attest.contract.operation import (
    Form,
    Kind,
    Method,
    Operation,
    Port,
    floats,
    ids,
    mask,
    register_operation,
)
from attest.contract.operations.generation import GENERATE
from attest.contract.operations.layers import LAYER
from attest.contract.operations.self_attention import HEAD_OPTIONS
from attest.contract.operations.training import OPTIMIZER, SIZES, SPECIAL, TRAINER

CAUSAL_LAYER_READS = LAYER | HEAD_OPTIONS | {"norm_kind", "parallel"}
IDS = ids("B T", "target_vocab", some=True)
EMBEDS = frozenset({"max_len", "scale_embeddings", "embedding_norm"})
LANGUAGE_MODEL_READS = (
    CAUSAL_LAYER_READS
    | EMBEDS
    | SPECIAL
    | {"num_decoder_layers", "target_vocab", "tie", "head_bias", "projection_scale"}
)
LANGUAGE_MODEL_TABLES = frozenset({"embedding.weight"})

CAUSAL_LAYER = register_operation(
    Operation(
        name="causal_layer",
        form=Form.COMPONENT,
        milestone="M9",
        note="causal; `mask` on top of it",
        takes={
            "x": floats("B T D", some=True),
            "mask": mask("B T T"),
            "positions": Port("B T", Kind.IDS, optional=True),
        },
        gives={"output": "B T D"},
        reads=CAUSAL_LAYER_READS,
        parameters=parameters.causal_layer,
        streams=("x",),
    )
)

LANGUAGE_MODEL = register_operation(
    Operation(
        name="language_model",
        form=Form.MODEL,
        milestone="M9",
        note="see LanguageModel",
        takes={"ids": IDS},
        gives={"logits": "B T V"},
        reads=LANGUAGE_MODEL_READS,
        sizes=SIZES,
        parameters=parameters.language_model,
        tables=LANGUAGE_MODEL_TABLES,
        methods={
            "packed": Method(
                takes={"ids": IDS, "lengths": Port("B N", Kind.IDS)}, gives={"logits": "B T V", "loss": ""}
            )
        },
        streams=("ids",),
    )
)

ENCODER_IDS = ids("B T", "source_vocab", some=True)
SEGMENTS = Port("B T", Kind.IDS, optional=True, below="segments")
ENCODER_ONLY_READS = (
    (CAUSAL_LAYER_READS - {"window", "window_sides", "parallel"})
    | EMBEDS
    | {"num_encoder_layers", "source_vocab", "pad_id", "segments", "head_bias"}
)

MASKED_LANGUAGE_MODEL = register_operation(
    Operation(
        name="masked_language_model",
        form=Form.MODEL,
        milestone="M9",
        note="every token sees every real one",
        takes={"ids": ENCODER_IDS, "segments": SEGMENTS},
        gives={"logits": "B T V"},
        reads=ENCODER_ONLY_READS | {"mask_id", "tie", "projection_scale"},
        sizes={"D": "d_model", "V": "source_vocab"},
        parameters=parameters.masked_language_model,
        tables=frozenset({"embedding.weight"}),
        streams=("ids",),
    )
)

CLASSIFIER = register_operation(
    Operation(
        name="classifier",
        form=Form.MODEL,
        milestone="M9",
        note="of the real tokens pooled",
        takes={"ids": ENCODER_IDS, "segments": SEGMENTS},
        gives={"logits": "B C"},
        reads=ENCODER_ONLY_READS | {"pooling", "num_classes"},
        sizes={"D": "d_model", "C": "num_classes"},
        parameters=parameters.classifier,
        tables=frozenset({"embedding.weight"}),
        streams=("ids",),
    )
)

LANGUAGE_MODEL_LOSS = register_operation(
    Operation(
        name="language_model_loss",
        form=Form.COMPONENT,
        milestone="M9",
        note="of what follows each token",
        takes={"logits": floats("B T V"), "ids": ids("B T", "V")},
        gives={"loss": ""},
        reads=frozenset({"label_smoothing", "pad_id"}),
        sizes={},
    )
)

LANGUAGE_MODEL_OPTIMIZER = register_operation(
    Operation(
        name="language_model_optimizer",
        form=Form.OPTIMIZER,
        milestone="M9",
        note="see Optimizer",
        reads=LANGUAGE_MODEL_READS,
        sizes=SIZES,
        parameters=parameters.language_model,
        tables=LANGUAGE_MODEL_TABLES,
    )
)


def trainer_of(model: Operation, batch: str) -> Operation:
    """The record of what trains a model: it reads what the model reads, and what only training does."""
    return Operation(
        name=f"{model.name}_trainer",
        form=Form.TRAINER,
        milestone="M9",
        note=f"see Trainer; a batch is {batch}",
        reads=model.reads | (TRAINER.reads - OPTIMIZER.reads),
        sizes=model.sizes,
        parameters=model.parameters,
        tables=model.tables,
    )


LANGUAGE_MODEL_TRAINER = register_operation(trainer_of(LANGUAGE_MODEL, "`ids`"))
MASKED_LANGUAGE_MODEL_TRAINER = register_operation(trainer_of(MASKED_LANGUAGE_MODEL, "`ids` and `labels`"))
CLASSIFIER_TRAINER = register_operation(trainer_of(CLASSIFIER, "`ids` and `labels`"))

COMPLETE = register_operation(
    Operation(
        name="complete",
        form=Form.GENERATOR,
        milestone="M9",
        note="see Generator; new tokens only",
        takes={"prompt": IDS, **{name: port for name, port in GENERATE.takes.items() if name != "source"}},
        gives=GENERATE.gives,
        reads=LANGUAGE_MODEL_READS,
        sizes=SIZES,
        parameters=parameters.language_model,
        tables=LANGUAGE_MODEL_TABLES,
    )
)
