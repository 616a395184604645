"""What whoever writes a property imports: the decorators. `attest.checks` has the assertions."""

from attest.judging.property import given, stateful, verifies

__all__ = ["given", "stateful", "verifies"]
