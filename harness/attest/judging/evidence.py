"""Evidence stands in `attest.evidence`; this name is kept for plugins written before it moved."""

from attest.evidence import Evidence, collecting, current, note_case

__all__ = ["Evidence", "collecting", "current", "note_case"]
