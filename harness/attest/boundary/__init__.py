"""What stands between the harness and an implementation."""

from attest.boundary.arrays import aligned, array_of, arrays_of, fresh, guarded, kind_of, quiet, reading
from attest.boundary.component import JudgedComponent
from attest.boundary.implementation import JudgedImplementation

__all__ = [
    "JudgedComponent",
    "JudgedImplementation",
    "aligned",
    "array_of",
    "arrays_of",
    "fresh",
    "guarded",
    "kind_of",
    "quiet",
    "reading",
]
