"""M5: which criterion checks the general laws for the loss."""

from __future__ import annotations

from attest.judging.laws import (
    ANY_LENGTH,
    DTYPE,
    FORMULA,
    GRADIENTS,
    MEMORY_LAYOUT,
    REFUSALS,
    ROW_ALONE,
    SIDE_EFFECTS,
    STATE,
    declare_law,
    law_is_exempt,
)

declare_law(FORMULA, "M5.3", "loss")
declare_law(ANY_LENGTH, "M5.3", "loss")  # rows and columns of padding are appended for the same component
declare_law(GRADIENTS, "M5.3a", "loss")
declare_law(SIDE_EFFECTS, "M5.14", "loss")
declare_law(MEMORY_LAYOUT, "M5.3", "loss")
declare_law(REFUSALS, "M5.12c", "loss")
law_is_exempt(ROW_ALONE, "loss", reason="the loss is a mean over all rows; M5.3 judges how batches are split")
law_is_exempt(DTYPE, "loss", reason="it is one number, whose digits M5.3 judges in each dtype")
law_is_exempt(STATE, "loss", reason="it has no parameters and no mode")
