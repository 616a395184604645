"""Cases of criteria that speak of several operations: what is not offered is not claimed there."""

from __future__ import annotations

from typing import Self

from attest.boundary import JudgedImplementation
from attest.judging.cases import OperationCase
from attest.outcomes import NotClaimed


class IfOffered(OperationCase):
    """A case that is not asked of an implementation without its operation.

    Where a criterion is about that operation alone, its `needs` say so before a case is drawn.
    """

    def fitted(self, impl: JudgedImplementation) -> Self:
        if not impl.offers(self.operation):
            raise NotClaimed(f"{self.operation} is not offered")
        return super().fitted(impl)
