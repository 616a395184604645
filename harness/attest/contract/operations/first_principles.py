"""M10: the layers, optimisers and initialisations that a Transformer is made of, each by itself."""

from __future__ import annotations

from attest.contract import parameters
from attest.contract.operation import Form, Kind, Operation, Port, floats, ids, register_operation

NUMBER = Port("", Kind.NUMBER)
ADAM = frozenset({"beta1", "beta2", "adam_eps"})

LINEAR = register_operation(
    Operation(
        name="linear",
        form=Form.COMPONENT,
        milestone="M10",
        note="F is d_ff",
        takes={"x": floats("B T D")},
        gives={"output": "B T F"},
        reads=frozenset({"d_model", "d_ff", "bias"}),
        parameters=parameters.linear,
    )
)

ACTIVATION = register_operation(
    Operation(
        name="activation",
        form=Form.COMPONENT,
        milestone="M10",
        note="that of the config",
        takes={"x": floats("B T d")},
        gives={"output": "B T d"},
        reads=frozenset({"activation"}),
        sizes={},
    )
)

SOFTMAX = register_operation(
    Operation(
        name="softmax",
        form=Form.COMPONENT,
        milestone="M10",
        note="over the last axis",
        takes={"x": floats("B T S")},
        gives={"output": "B T S"},
        sizes={},
    )
)

CROSS_ENTROPY = register_operation(
    Operation(
        name="cross_entropy",
        form=Form.COMPONENT,
        milestone="M10",
        note="the mean over all positions; nothing is padding",
        takes={"logits": floats("B T V", some=True), "labels": ids("B T", "V", some=True)},
        gives={"loss": ""},
        sizes={},
    )
)

SGD = register_operation(Operation(name="sgd", form=Form.UPDATE, milestone="M10", note="see Optimizer"))

MOMENTUM = register_operation(
    Operation(
        name="momentum",
        form=Form.UPDATE,
        milestone="M10",
        note="see Optimizer",
        reads=frozenset({"momentum"}),
    )
)

PLAIN_ADAM = register_operation(
    Operation(name="adam", form=Form.UPDATE, milestone="M10", note="see Optimizer", reads=ADAM)
)

ADAMW = register_operation(
    Operation(
        name="adamw",
        form=Form.UPDATE,
        milestone="M10",
        note="see Optimizer; matrices decay",
        reads=ADAM | {"weight_decay"},
    )
)

XAVIER = register_operation(
    Operation(
        name="xavier",
        form=Form.FUNCTION,
        milestone="M10",
        note="uniform",
        takes={"outputs": NUMBER, "inputs": NUMBER, "seed": NUMBER},
        gives={"output": "O I"},
    )
)

HE = register_operation(
    Operation(
        name="he",
        form=Form.FUNCTION,
        milestone="M10",
        note="normal",
        takes={"outputs": NUMBER, "inputs": NUMBER, "seed": NUMBER},
        gives={"output": "O I"},
    )
)

TOKENIZE = register_operation(
    Operation(
        name="tokenize",
        form=Form.FUNCTION,
        milestone="M10",
        note="of the 20 in contract/vocabulary.py",
        takes={"text": NUMBER},
        gives={"ids": "T"},
    )
)

DETOKENIZE = register_operation(
    Operation(
        name="detokenize",
        form=Form.FUNCTION,
        milestone="M10",
        note="the text, as a str",
        takes={"ids": ids("T")},
    )
)

SPLIT_EXAMPLES = register_operation(
    Operation(
        name="split_examples",
        form=Form.FUNCTION,
        milestone="M10",
        note="0 train, 1 validation, 2 test",
        takes={"examples": ids("N L"), "seed": NUMBER},
        gives={"part": "N"},
    )
)

CONFUSION_MATRIX = register_operation(
    Operation(
        name="confusion_matrix",
        form=Form.FUNCTION,
        milestone="M10",
        note="rows wanted, columns written",
        takes={"wanted": ids("N"), "written": ids("N"), "classes": NUMBER},
        gives={"counts": "C C"},
    )
)
