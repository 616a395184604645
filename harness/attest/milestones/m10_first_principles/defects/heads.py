"""Defects of backward passes through rotated and shared heads.

Shapes: x (B, H or G, T, d).
"""

from __future__ import annotations

from attest.judging.catalogue import defect
from attest.reference.parts.heads import MultiHead
from attest.reference.parts.relative_positions import Rotary
from attest.reference.tape import Array, Var, leaf, node


@defect("M10.2")
class rope_backward_not_transposed(Rotary):
    """Backward, gradients are turned forward once more instead of back."""

    def rotate_at(self, x: Var, positions: Array) -> Var:
        right = super().rotate_at(x, positions)

        def backward(g: Array) -> tuple[Array]:
            return (super(rope_backward_not_transposed, self).rotate_at(leaf(g), positions).value,)

        return node(right.value, (x,), backward)


@defect("M10.2")
class gqa_gradient_not_summed_over_group(MultiHead):
    """Backward, a shared key gets the gradient of one of the heads that read it."""

    def shared(self, x: Var) -> Var:
        heads = [self.group_of(h) for h in range(self.config.num_heads)]

        def backward(g: Array) -> tuple[Array]:
            found = g[:, : x.shape[1]] * 0.0
            for head, group in enumerate(heads):
                found[:, group] = g[:, head]
            return (found,)

        return node(x.value[:, heads], (x,), backward)
