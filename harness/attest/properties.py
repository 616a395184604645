"""The decorators that an author of properties imports. `attest.checks` has the assertions."""

from attest.judging.property import given, stateful, verifies

__all__ = ["given", "stateful", "verifies"]
