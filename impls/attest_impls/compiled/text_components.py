"""The parts of decoder-only models behind the contract, each a graph of its own.

Every graph sees one form of its inputs: contiguous, with positions, and a mask in its full shape (B, T, T)
that holds everything which may not be seen. Only relative positions need to know beside it whether what
follows is hidden.
"""

from __future__ import annotations

from typing import Any

from torch import Tensor

from attest_impls.eager.language_model import CausalLayer, Layer, counted, sight
from attest_impls.eager.masks import causal_mask
from attest_impls.eager.training import TextLoss

from .component import CompiledComponent, CrossEntropy, full_mask
from .private_torch import mark_static
from .text_attention import TextAttentionAlone


class Turning(CompiledComponent):
    """Rotary positions. The width of a head is a constant of the graph."""

    def formed(self, x: Tensor, positions: Tensor) -> dict[str, Tensor]:
        mark_static(x, -1)
        return {"x": x, "positions": positions}


class TextAttentionComponent(CompiledComponent):
    """Self-attention by itself."""

    def formed(
        self, x: Tensor, mask: Tensor | None = None, positions: Tensor | None = None, causal: bool = False
    ) -> dict[str, Any]:
        T = x.shape[1]
        allowed = full_mask(mask, x, T)
        if causal:
            allowed = allowed & causal_mask(T, T, x.device)
        places = counted(x).expand(x.shape[:2]).contiguous() if positions is None else positions
        return {
            "x": x,
            "mask": allowed,
            "positions": places,
            "causal": causal and self.module.relative is not None,
        }

    @staticmethod
    def graph(module: TextAttentionAlone, x: Tensor, mask: Tensor, positions: Tensor, causal: bool) -> Tensor:
        # `causal` is False unless positions are relative, so that most have one graph for both.
        return module.seeing(x, sight(module.config, module.relative, positions, positions, mask, causal))


class CausalLayerComponent(TextAttentionComponent):
    """A layer by itself."""

    module: CausalLayer

    def formed(  # type: ignore[override]
        self, x: Tensor, mask: Tensor | None = None, positions: Tensor | None = None
    ) -> dict[str, Any]:
        given = super().formed(x, mask, positions, causal=True)
        return {name: value for name, value in given.items() if name != "causal"}

    @staticmethod
    def graph(module: CausalLayer, x: Tensor, mask: Tensor, positions: Tensor) -> Tensor:
        seen = sight(module.config, module.relative, positions, positions, mask, causal=True)
        return Layer.forward(module, x, seen)


class TextCrossEntropy(CrossEntropy):
    """The loss of a language model: logits at each token against the token that follows."""

    module: TextLoss

    def formed(self, logits: Tensor, ids: Tensor) -> dict[str, Tensor]:  # type: ignore[override]
        return super().formed(logits=logits[:, :-1].contiguous(), labels=ids[:, 1:].contiguous())
