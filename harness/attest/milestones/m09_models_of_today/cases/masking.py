"""Cases of tokens that are chosen and hidden, and of the loss over them. Shapes: ids (B, T)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar

import numpy as np
from hypothesis import strategies as st

from attest.boundary import JudgedImplementation
from attest.checks.arrays import expect_shape
from attest.contract import Array
from attest.judging.cases import Case, dtypes, seeds
from attest.milestones.m09_models_of_today.cases.losses import TextLossCase
from attest.outcomes import Violation

MANY = 1 << 16  # tokens of a case that counts shares


@dataclass(frozen=True, kw_only=True)
class MaskingCase(Case):
    """Ids of which a share is special; the special ids and the mask stand anywhere in the vocabulary."""

    kind: ClassVar[str] = "masking"

    B: int = 2
    T: int = 8
    V: int = 12
    specials: int = 3
    rate: float = 0.15

    @cached_property
    def _order(self) -> Array:
        return self.rng(1).permutation(self.V)

    @property
    def mask_id(self) -> int:
        return int(self._order[0])

    @property
    def special(self) -> Array:
        """(K,): padding, BOS and EOS, as it were; the mask is not among them."""
        special: Array = self._order[1 : 1 + self.specials].astype(np.int64)
        return special

    @property
    def ordinary(self) -> Array:
        """The ids that may be chosen and drawn."""
        return np.sort(self._order[1 + self.specials :])

    @cached_property
    def ids(self) -> Array:
        """(B, T): a quarter special, a few masks already there, the others ordinary."""
        rng = self.rng(2)
        ids = rng.choice(self.ordinary, (self.B, self.T))
        never = np.append(self.special, self.mask_id)
        chosen: Array = np.where(rng.random(ids.shape) < 0.25, rng.choice(never, ids.shape), ids)
        return chosen.astype(np.int64)

    @property
    def eligible(self) -> Array:
        """(B, T)."""
        return np.isin(self.ids, self.ordinary)

    def masked(self, impl: JudgedImplementation, *, seed: int = 0) -> tuple[Array, Array]:
        """The new ids (B, T) and where a token was chosen, once they are such."""
        arguments = (self.ids, self.mask_id, self.V, self.special, self.seed + seed)
        # The rate of 0.15 is the default: it is not said, so that the default is judged.
        given = arguments if self.rate == 0.15 else (*arguments, self.rate)
        found = impl.call("mask_tokens", *given)
        expect_shape(found, (2, self.B, self.T), "what mask_tokens returns")
        if not np.issubdtype(found.dtype, np.integer):
            raise Violation(f"mask_tokens returned {found.dtype}, should be whole numbers")
        if not np.isin(found[1], (0, 1)).all():
            raise Violation(f"mask_tokens marked tokens by {np.unique(found[1]).tolist()}, should be 0 and 1")
        return found[0], found[1] == 1


def masking_cases(*, rates: tuple[float, ...] = (0.15, 0.0, 0.5, 1.0)) -> st.SearchStrategy[MaskingCase]:
    """From one token to many, with a single ordinary id or with none special."""
    return st.builds(
        MaskingCase,
        B=st.sampled_from((3, 1, 17)),
        T=st.sampled_from((8, 1, 33)),
        V=st.sampled_from((12, 5, 40)),
        specials=st.sampled_from((3, 1, 0)),
        rate=st.sampled_from(rates),
        seed=seeds(),
    )


@dataclass(frozen=True, kw_only=True)
class MaskedLossCase(TextLossCase):
    """Logits, ids, what they became and which were chosen; `share` of the tokens are."""

    kind: ClassVar[str] = "masked_language_model_loss"
    operates: ClassVar[str] = "masked_language_model_loss"
    stands_for: ClassVar[Mapping[str, str]] = {"V": "source_vocab"}

    share: float = 0.5

    @property
    def mask_id(self) -> int:
        return 4 if self.pad_id != 4 else 3

    @cached_property
    def marks(self) -> Array:
        """(B, T): 1 with the share; padding as well, which must not count."""
        rng = self.rng(5)
        chosen: Array = (rng.random((self.B, self.T)) < self.share).astype(np.int64)
        return chosen

    @cached_property
    def masked(self) -> Array:
        """(B, T): a third of the chosen each is hidden, another id, and left."""
        fate = self.rng(6).integers(0, 3, self.ids.shape)
        another = (self.ids + 1) % self.V
        become = np.where(fate == 0, self.mask_id, np.where(fate == 1, another, self.ids))
        return np.where(self.marks == 1, become, self.ids)

    @cached_property
    def inputs(self) -> dict[str, Any]:
        return {**super().inputs, "masked": self.masked, "chosen": self.marks}

    @property
    def asked(self) -> Array:
        """(B, T): what counts."""
        asked: Array = (self.marks == 1) & (self.ids != self.pad_id)
        return asked

    def rows(self, part: slice) -> dict[str, Array]:
        """The inputs of some rows."""
        return {name: x[part] for name, x in self.inputs.items()}


@st.composite
def masked_loss_cases(
    draw: st.DrawFn, *, shares: tuple[float, ...] = (0.5, 0.15, 1.0), min_rows: int = 1
) -> MaskedLossCase:
    """V equal to T or B as often as not: what is flattened wrongly then still has the right shape."""
    T = draw(st.sampled_from((6, 1, 4, 7)))
    return MaskedLossCase(
        B=max(min_rows, draw(st.sampled_from((3, 2, 1, T)))),
        T=T,
        V=draw(st.sampled_from((max(T, 6), 7, 11))),
        pad_id=draw(st.sampled_from((0, 4, 2))),
        share=draw(st.sampled_from(shares)),
        smoothing=draw(st.sampled_from((0.0, 0.1))),
        regime=draw(st.sampled_from(("unit", "large", "tiny", "offset"))),
        dtype=draw(dtypes()),
        seed=draw(seeds()),
    )
