"""Cases of attention between blocks. Shapes: q (B, H, T, d), k and v (B, H, S, d), blocks (H or 1, M, N)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar

import numpy as np
from hypothesis import strategies as st

from attest.contract import Array
from attest.judging.cases import regimes
from attest.milestones.m08_attention_variants.cases.heads_apart import HeadsApartCase, sizes

PATTERNS = ("local", "strided", "global", "mixed", "random", "all")
BLOCKS = (2, 3, 1, 4, 5, 16)


@dataclass(frozen=True, kw_only=True)
class BlockCase(HeadsApartCase):
    """`pattern` says which blocks a block sees; `per_head` that the heads differ.

    local: its own and the one before it, for some heads the one behind it too; strided: every second or
    third, counted from its own; global: one that all see, and one that sees all; mixed: local and global;
    random: half of them, so that some see none. No pattern but strided is its own transpose.
    """

    kind: ClassVar[str] = "blocks"
    operates: ClassVar[str] = "block_sparse_attention"
    settings: ClassVar[Mapping[str, str]] = {"block": "block"}

    block: int = 2
    pattern: str = "local"
    per_head: bool = True

    @property
    def narrowed(self) -> dict[str, Any]:
        return {"block": 3}

    @property
    def regimes(self) -> tuple[str, ...]:
        short = "last block short" if self.T % self.block or self.S % self.block else "whole blocks"
        heads = "a pattern for each head" if self.per_head else "one pattern"
        return (*super().regimes, self.pattern, short, heads)

    @property
    def hides(self) -> bool:
        return self.pattern != "all"

    @cached_property
    def blocks(self) -> Array:
        """(H or 1, M, N). Heads differ by how far their pattern reaches, or by chance."""
        M, N = -(-self.T // self.block), -(-self.S // self.block)
        rng = self.rng(2)
        heads = range(self.H if self.per_head else 1)
        return np.stack([self._pattern(np.arange(M)[:, None], np.arange(N)[None, :], h, rng) for h in heads])

    def _pattern(self, rows: Array, keys: Array, head: int, rng: np.random.Generator) -> Array:
        back = rows - keys
        near, first = (back <= 1) & (back >= -(head % 2)), (rows == 1 + head) | (keys == head % 2)
        made = {
            "local": near,
            "strided": back % (2 + head % 2) == 0,
            "global": first,
            "mixed": near | first,
            "random": rng.random((rows.size, keys.size)) < 0.5,
        }
        everything = np.ones((rows.size, keys.size), bool)
        return np.asarray(made.get(self.pattern, everything) & everything)

    def mask_of(self, name: str) -> Array | None:
        return self.blocks

    @cached_property
    def visible(self) -> Array:
        """Each block written out position by position."""
        seen = np.zeros((self.H, self.T, self.S), bool)
        for h, m, n in zip(*np.nonzero(np.broadcast_to(self.blocks, (self.H, *self.blocks.shape[1:])))):
            rows, keys = (slice(i * self.block, (i + 1) * self.block) for i in (m, n))
            seen[h, rows, keys] = True
        return np.broadcast_to(seen & self.triangle, (self.B, self.H, self.T, self.S))


@st.composite
def block_cases(
    draw: st.DrawFn, *, causal: bool | None = None, patterns: tuple[str, ...] = PATTERNS, longest: int = 11
) -> BlockCase:
    """Blocks that divide the lengths and blocks that do not, patterns for each head and for all."""
    fields: dict[str, Any] = draw(sizes(causal=causal, longest=longest))
    return BlockCase(
        **fields,
        block=draw(st.sampled_from(BLOCKS)),
        pattern=draw(st.sampled_from(patterns)),
        per_head=draw(st.booleans()),
        regime=draw(regimes()),
    )
