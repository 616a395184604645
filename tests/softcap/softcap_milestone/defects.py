"""Defects of soft capping: the reference with one class exchanged."""

import numpy as np

from attest.judging.catalogue import defect
from attest.reference import ops
from attest.reference.component import ReferenceComponent
from softcap_milestone.operation import CAP


class Otherwise(ReferenceComponent):
    """The reference, but for soft capping."""

    def outputs(self, operation, p, inputs):
        if operation != "softcap":
            return super().outputs(operation, p, inputs)
        x = inputs["x"]
        return {"output": ops.elementwise(x, self.capped(x.value), np.ones_like(x.value))}


@defect("M20.1")
class cuts_off_at_the_cap(Otherwise):
    """Values beyond the cap are cut off instead of bent."""

    def capped(self, x):
        return np.clip(x, -CAP, CAP)


@defect("M20.2", "M20.1")
class no_cap_at_all(Otherwise):
    """The input is returned as it is."""

    def capped(self, x):
        return x
