"""The Transformer, written once, in methods small enough that a defect replaces exactly one of them."""

from __future__ import annotations

from attest.reference.attention import HeadByHead
from attest.reference.cache import CacheFormulas
from attest.reference.sampling import SamplingFormulas
from attest.reference.training import TrainingFormulas


class Formulas(TrainingFormulas, CacheFormulas, SamplingFormulas):
    """What `ReferenceImplementation` computes; defects are subclasses that override one method."""


class OracleFormulas(HeadByHead, Formulas):
    """What the oracle computes: the same, with heads as a plain loop."""
