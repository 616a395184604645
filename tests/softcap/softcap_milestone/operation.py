"""The record of the operation and its formula."""

import numpy as np

from attest.contract import Form, Operation
from attest.contract.operation import floats
from attest.reference import ops

CAP = 5.0


def softcap(formulas, parameters, inputs):
    """cap * tanh(x / cap), with its slope 1 - tanh^2 for gradients and error bounds."""
    x = inputs["x"]
    bent = np.tanh(x.value / CAP)
    return {"output": ops.elementwise(x, CAP * bent, 1 - bent * bent)}


SOFTCAP = Operation(
    name="softcap",
    form=Form.COMPONENT,
    milestone="M20",
    note="bent towards a cap of 5",
    takes={"x": floats("B T D")},
    gives={"output": "B T D"},
    reads=frozenset({"d_model"}),
    formula=softcap,
)
