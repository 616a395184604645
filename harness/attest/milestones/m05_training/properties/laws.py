"""M5: which criterion checks the general laws for the loss."""

from __future__ import annotations

from attest.judging.laws import (
    FORMULA,
    GRADIENTS,
    MEMORY_LAYOUT,
    ROW_ALONE,
    SIDE_EFFECTS,
    declare_law,
    law_is_exempt,
)

declare_law(FORMULA, "M5.3", "loss")
declare_law(GRADIENTS, "M5.3a", "loss")
declare_law(SIDE_EFFECTS, "M5.14", "loss")
law_is_exempt(ROW_ALONE, "loss", reason="the loss is a mean over all rows; M5.3 judges how batches are split")
law_is_exempt(MEMORY_LAYOUT, "loss", reason="no criterion of M5 asks it")
