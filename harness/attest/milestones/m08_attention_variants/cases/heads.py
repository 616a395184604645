"""Cases of self-attention whose heads share keys, have a width of their own or look back a few positions.

Shapes: x (B, T, D), H query heads, G key heads, d width of a head, W window.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Self

import numpy as np
from hypothesis import strategies as st

from attest.boundary import JudgedComponent, JudgedImplementation
from attest.contract import Array
from attest.judging.cases import REGIMES, dtypes, picks, seeds
from attest.judging.options import written_options
from attest.milestones.m07_positions.cases.rotary import fitting_width
from attest.milestones.m07_positions.cases.self_attention import MASKS, OPTIONS, SelfAttentionCase
from attest.milestones.m08_attention_variants.cases.asked import IfOffered

SHARED = ((6, 2), (4, 2), (6, 3), (8, 2), (8, 4), (9, 3), (4, 1), (3, 1), (5, 5))  # H and G
LENGTHS = (5, 7, 3, 2, 8, 11)
# Where every config costs a build: one key head, several and all; windows within most lengths and beyond all.
FEW = {"num_kv_heads": (1, 2, 4), "head_width": (4, 6), "window": (1, 3, 16)}
FREE = (*OPTIONS, "positions", "head_width", "window", "attention_scale", "score_cap")


@dataclass(frozen=True, kw_only=True)
class HeadsCase(IfOffered, SelfAttentionCase):
    """Options from what is claimed; `wants` names those that the criterion is about."""

    kind: ClassVar[str] = "shared_heads"
    free: ClassVar[tuple[str, ...]] = FREE

    @property
    def narrowed(self) -> dict[str, Any]:
        return {**super().narrowed, "H": 4, "wants": _fewer(self.wants, self.T)}

    def settled(self) -> Self:
        """With widths that rotary positions can turn."""
        chosen = self.chosen
        if chosen.get("positions") == "rotary" and "head_width" in chosen:
            width = fitting_width(chosen["head_width"], self.config.rotary_fraction)
            return self.but(options=written_options({**chosen, "head_width": width}))
        return super().settled()

    def enlarged(self, width: int) -> Self:
        """The heads keep their number, so that the key heads still divide it."""
        return super().enlarged(width).but(H=self.H).settled()

    @property
    def regimes(self) -> tuple[str, ...]:
        c = self.config
        shared = "one key head" if c.kv_heads == 1 else "own keys" if c.kv_heads == c.num_heads else "grouped"
        seen = "no window" if c.window is None else "window < T" if c.window < self.T else "window >= T"
        own = "own width" if c.head_width else "width D / H"
        return (*super().regimes, shared, seen, own)

    @property
    def W(self) -> int:  # noqa: N802
        """The window; as long as the sequence where there is none."""
        return self.T if self.config.window is None else self.config.window

    def with_option(self, **changes: Any) -> Self:
        """The same case with other options; its parameters may have other shapes."""
        kept = {name: value for name, value in self.chosen.items() if name not in changes}
        return self.but(options=written_options({**kept, **changes}))

    def rows_of(self, head: int) -> slice:
        """The rows of a map that belong to one head."""
        d = self.config.d_head
        return slice(head * d, (head + 1) * d)

    def repeated(self) -> dict[str, Array]:
        """Parameters of as many key heads as query heads: those of each group, one after the other."""
        c, made = self.config, dict(self.parameters)
        times = c.num_heads // c.kv_heads
        for name in ("key.weight", "value.weight", "key.bias", "value.bias"):
            if name in made:
                heads = made[name].reshape(c.kv_heads, c.d_head, *made[name].shape[1:])
                made[name] = np.repeat(heads, times, axis=0).reshape(-1, *made[name].shape[1:])
        return made

    def constant_values(self) -> dict[str, Array]:
        """Parameters whose scores and sinks are zero and whose values, for an x of ones, are one."""
        made = {name: np.zeros_like(x) for name, x in self.parameters.items()}
        made["value.weight"][:, 0] = 1.0  # a bias is not everybody's
        made["output.weight"][:] = 1.0 / made["output.weight"].shape[1]
        return made

    def watching(self, head: int) -> dict[str, Array]:
        """Parameters with which the output is what one head brings back."""
        made = dict(self.parameters)
        kept = np.zeros_like(made["output.weight"])
        kept[:, self.rows_of(head)] = self.parameters["output.weight"][:, self.rows_of(head)]
        return {**made, "output.weight": kept}


def called(impl: JudgedImplementation, case: HeadsCase, parameters: Mapping[str, Array]) -> Array:
    """The output with these parameters."""
    component: JudgedComponent = case.loaded(impl, parameters)
    return component(**case.inputs)["output"]


@st.composite
def heads_cases(
    draw: st.DrawFn,
    *,
    grouped: bool = False,
    own_width: bool = False,
    window: tuple[str, ...] = (),
    masks: tuple[str, ...] = MASKS,
    at: tuple[str, ...] = ("counted", "shifted", "gaps"),
    regimes: tuple[str, ...] = REGIMES,
    wants: str = "",
    causal: bool | None = None,
) -> HeadsCase:
    """G strictly between 1 and H in most cases; windows of 1, 2, 3 and around the length."""
    T = draw(st.sampled_from(LENGTHS))
    H, G = draw(st.sampled_from(SHARED)) if grouped else (draw(st.sampled_from((2, 3, 4, 1, T))), None)
    wanted = [wants] if wants else []
    wanted += [f"num_kv_heads:{G}"] if grouped else []
    wanted += [f"head_width:{draw(st.sampled_from((4, 6, 2, 8, 3, 5, 10, T)))}"] if own_width else []
    wanted += [f"window:{_window(draw(st.sampled_from(window)), T)}"] if window else []
    return HeadsCase(
        B=draw(st.sampled_from((2, 1, 3, T, H))) if T * H < 40 else 2,
        H=H,
        T=T,
        d=draw(st.sampled_from((4, 2, 3, 5, 8))),
        bias=draw(st.booleans()),
        mask=draw(st.sampled_from(masks)),
        causal=draw(st.booleans()) if causal is None else causal,
        at=draw(st.sampled_from(at)),
        pick=draw(picks()),
        wants=",".join(wanted),
        regime=draw(st.sampled_from(regimes)),
        dtype=draw(dtypes()),
        seed=draw(seeds()),
    )


def _fewer(wants: str, T: int) -> str:
    """The same options with numbers from FEW: the largest that is reached, of a window beyond T the last."""
    told = []
    for word in filter(None, wants.split(",")):
        name, _, value = word.partition(":")
        if name in FEW:
            size, few = int(value), FEW[name]
            beyond = name == "window" and size >= T
            value = str(max(n for n in few if beyond or n <= max(size, few[0])))
        told.append(f"{name}:{value}")
    return ",".join(told)


def _window(word: str, T: int) -> int:
    return max(1, T + int(word[1:] or 0)) if word.startswith("T") else int(word)
