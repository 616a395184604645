"""Triton kernels without a GPU: its interpreter, repaired, and compilation ahead of time.

`repair_if_interpreted` is what the harness calls after an implementation is loaded. An implementation that
imports Triton later than that calls it itself, before its first kernel runs.
"""

from __future__ import annotations

from attest.machine import interprets_triton


def repair_if_interpreted() -> None:
    """Repair Triton's interpreter where TRITON_INTERPRET asks for it; WrongVersion with another Triton."""
    if interprets_triton():
        from attest.adapters.triton.interpreter import repair

        repair()
