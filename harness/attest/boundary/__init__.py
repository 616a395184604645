"""What stands between the harness and an implementation."""

from attest.boundary.arrays import aligned, array_of, arrays_of, fresh, guarded, kind_of, quiet
from attest.boundary.calls import Call
from attest.boundary.component import Boundary
from attest.boundary.implementation import Subject

__all__ = [
    "Boundary",
    "Call",
    "Subject",
    "aligned",
    "array_of",
    "arrays_of",
    "fresh",
    "guarded",
    "kind_of",
    "quiet",
]
