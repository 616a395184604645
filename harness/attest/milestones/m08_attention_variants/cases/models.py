"""Cases of language models with windows, with documents side by side, and in batches.

Shapes: ids (B, T), lengths (B, N), logits (B, T, V); W window, L layers.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar, Self

import numpy as np
from hypothesis import strategies as st

from attest.boundary import JudgedImplementation
from attest.contract import Array
from attest.judging.cases import dtypes, picks, seeds
from attest.milestones.m08_attention_variants.cases.asked import IfOffered
from attest.milestones.m09_models_of_today.cases.language_models import LanguageModelCase
from attest.outcomes import Expected, NotClaimed
from attest.reference.oracle import bounded_gradients, expected

PACKED = "packed"
LONGEST = 8  # tokens of a document among several, so that a long row holds more than 16


@dataclass(frozen=True, kw_only=True)
class TextCase(IfOffered, LanguageModelCase):
    """A language model whose tokens are drawn apart from its ids."""

    kind: ClassVar[str] = ""

    @property
    def real_ids(self) -> Array:
        """Every id but padding."""
        return np.array([i for i in range(self.V) if i != self.config.pad_id])

    def tokens(self, turn: int, count: int) -> Array:
        """(B, count): no padding."""
        chosen: Array = self.real_ids[self.rng(5, turn).integers(0, self.V - 1, (self.B, count))]
        return chosen

    def another(self, ids: Array) -> Array:
        """For each id the next one that is no padding."""
        following: Array = self.real_ids[(np.searchsorted(self.real_ids, ids) + 1) % (self.V - 1)]
        return following


@dataclass(frozen=True, kw_only=True)
class WindowCase(TextCase):
    """A script has words: s3 steps by three tokens, b2 takes two back, r reverses the rows."""

    kind: ClassVar[str] = "window"

    script: str = ""

    @property
    def W(self) -> int:  # noqa: N802
        """The window."""
        return int(self.config.window or self.T)

    @property
    def reach(self) -> int:
        """How far back the last layer sees through those before it."""
        return self.N * (self.W - 1)

    @property
    def regimes(self) -> tuple[str, ...]:
        return (*super().regimes, f"window {self.W}", "goes back" if "b" in self.script else "goes on")


@st.composite
def window_cases(draw: st.DrawFn, *, scripted: bool = False) -> WindowCase:
    """Windows of 1 to 4, one to three layers, twice as long as they reach."""
    W, N = draw(st.sampled_from(((2, 2), (3, 2), (2, 3), (4, 1), (3, 1), (1, 2))))
    H = draw(st.sampled_from((2, 1, 4)))
    case = WindowCase(
        B=draw(st.sampled_from((1, 2, 3))),
        T=N * (W - 1) + draw(st.sampled_from((3, 2, 5))),
        D=4 * H * draw(st.sampled_from((1, 2))),
        H=H,
        d_ff=draw(st.sampled_from((8, 5))),
        N=N,
        V=draw(st.sampled_from((9, 7, 16))),
        pick=draw(picks()),
        wants=f"window:{W}",
        dtype=draw(dtypes()),
        seed=draw(seeds()),
    )
    return case.but(script=draw(scripts(W))) if scripted else case


@st.composite
def wide_window_cases(draw: st.DrawFn) -> WindowCase:
    """Windows beyond the slots that a cache may have been given, filled at once and then crossed."""
    W = draw(st.sampled_from((129, 66)))
    scripts = (f"s{W - 1}.s1.s1.s2.s9", f"s{W + 5}.s1.s7", f"s{W}.r.s1.s3", f"s{W - 3}.s9.s1")
    return WindowCase(
        B=draw(st.sampled_from((1, 2))),
        T=2,
        D=8,
        H=2,
        d_ff=8,
        N=1,
        V=9,
        room=256,
        script=draw(st.sampled_from(scripts)),
        pick=draw(picks()),
        wants=f"window:{W}",
        dtype=draw(dtypes()),
        seed=draw(seeds()),
    )


@st.composite
def scripts(draw: st.DrawFn, W: int) -> str:
    """To W - 1, W, W + 1 or 3 W tokens at once or one by one, then on across the end of the window."""
    first = draw(st.sampled_from((W - 1, W, W + 1, 3 * W)))
    on = (f"s{W}", f"s{W + 1}", f"s{2 * W}")
    words = [f"s{first}"] if draw(st.booleans()) else ["s1"] * first
    for _ in range(draw(st.integers(1, 4))):
        words.append(draw(st.sampled_from((*on, "s1", "s2", "b1.s1", f"b{W}.s{W + 1}", "r.s1"))))
    return ".".join(word for word in words if word != "s0") or "s1"


@dataclass(frozen=True, kw_only=True)
class PackedCase(TextCase):
    """Documents side by side. `cut`: how rows are divided; behind the last document there may be padding.

    gaps: before some documents there is one of length 0, which is none.
    """

    kind: ClassVar[str] = "packed"

    cut: str = "some"

    def fitted(self, impl: JudgedImplementation) -> Self:
        if PACKED not in impl.claims.padding:
            raise NotClaimed("packed documents are not claimed; declare padding = (..., 'packed')")
        return super().fitted(impl)

    @property
    def regimes(self) -> tuple[str, ...]:
        return (*super().regimes, f"documents {self.cut}")

    @cached_property
    def lengths_of(self) -> Array:
        """(B, N): the documents of each row; 0 where there is none."""
        rows = [self._lengths(row) for row in range(self.B)]
        widest = max([1, *map(len, rows)])
        return np.array([row + [0] * (widest - len(row)) for row in rows], np.int64)

    def _lengths(self, row: int) -> list[int]:
        """Of one row; they fill it unless it is padded."""
        rng = self.rng(6, row)
        room = int(rng.integers(0, self.T)) if self.cut == "padded" else self.T
        longest = {"ones": 1, "one": room}.get(self.cut, max(1, min(self.T // 2, LONGEST)))
        shortest = longest if self.cut == "one" else 1
        lengths: list[int] = []
        while (left := room - sum(lengths)) > 0:
            lengths += [0] * (self.cut == "gaps" and int(rng.integers(0, 2)))
            lengths.append(int(rng.integers(shortest, min(longest, left) + 1)))
        return lengths

    @cached_property
    def ids(self) -> Array:
        """Real tokens in documents, padding behind them."""
        shown = np.arange(self.T) < self.lengths_of.sum(1, keepdims=True)
        return np.where(shown, self.tokens(0, self.T), self.config.pad_id)

    @cached_property
    def packing(self) -> dict[str, Any]:
        """Inputs of `packed`."""
        return {"ids": self.ids, "lengths": self.lengths_of}

    @property
    def documents(self) -> list[tuple[int, slice]]:
        """Row and place of each document."""
        found = []
        for row, lengths in enumerate(self.lengths_of):
            ends = np.cumsum(lengths)
            found += [(row, slice(int(e - n), int(e))) for n, e in zip(lengths, ends) if n]
        return found

    @cached_property
    def wanted(self) -> dict[str, Expected]:
        """The reference's logits and loss of the packed rows."""
        return expected("packed", self.config, self.parameters, self.packing)

    def packed_gradients(self) -> dict[str, Expected]:
        """The reference's gradients of the loss."""
        return bounded_gradients("packed", self.config, self.parameters, self.packing, self.loss_cotangent)

    @property
    def loss_cotangent(self) -> dict[str, Array]:
        return {"loss": np.asarray(1.0, self.draw(self.rng(), 1).dtype)}


@st.composite
def packed_cases(draw: st.DrawFn, *, window: int = 0) -> PackedCase:
    """Two and three documents in a row, documents of one token, one document, rows of padding.

    With a window they are long enough for it to hide something.
    """
    H = draw(st.sampled_from((2, 1, 4)))
    return PackedCase(
        B=draw(st.sampled_from((2, 1, 3))),
        T=draw(st.sampled_from((9, 11, 8) if window else (7, 5, 8, 11, 2, 1))),
        D=4 * H * draw(st.sampled_from((1, 2))),
        H=H,
        d_ff=draw(st.sampled_from((8, 5))),
        N=draw(st.sampled_from((1, 2))),
        V=draw(st.sampled_from((9, 7, 16))),
        cut=draw(st.sampled_from(("some", "one") if window else ("some", "padded", "ones", "one", "gaps"))),
        pick=draw(picks()),
        wants=f"window:{window}" if window else "",
        dtype=draw(dtypes()),
        seed=draw(seeds()),
    )
