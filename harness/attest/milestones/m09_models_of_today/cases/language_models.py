"""Cases of the decoder-only model: ids in, logits of what follows each of them out.

Shapes: ids (B, T), logits (B, T, V).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar, Self

import numpy as np
from hypothesis import strategies as st

from attest.boundary import JudgedComponent, JudgedImplementation
from attest.contract import Array
from attest.judging.cases import dtypes, picks, seeds
from attest.judging.options import options_of
from attest.milestones.m09_models_of_today.cases.models import ModelCase

# LayerNorm, learned positions, GELU and biases; RMSNorm, rotary positions, a gate, fewer key heads of a width
# of their own and no biases.
OLDER = "positions:learned,norm:pre,activation:gelu_tanh"
NEWER = "positions:rotary,norm:pre,norm_kind:rms,activation:silu,gated:true,bias:false,scale_embeddings:false"
# B, T, H, d, d_ff, N and V: as many of them equal as can be, and no two equal.
COINCIDENT = ((4, 8, 2, 4, 8, 2, 8), (2, 4, 1, 4, 4, 1, 4), (3, 12, 3, 4, 12, 3, 12), (4, 4, 4, 4, 16, 2, 16))
APART = ((2, 7, 3, 4, 17, 1, 11), (3, 5, 2, 8, 13, 2, 19), (1, 11, 1, 12, 7, 3, 5), (5, 3, 4, 4, 23, 2, 13))
SPECIALS = ((0, 1, 2), (2, 0, 1), (3, 1, 0))  # pad, BOS, EOS


@dataclass(frozen=True, kw_only=True)
class LanguageModelCase(ModelCase):
    """Random weights and ids; every option comes from what is claimed, and so does where padding stands."""

    kind: ClassVar[str] = "language_model"
    lengths: ClassVar[tuple[str, ...]] = ("B", "T")
    operates: ClassVar[str] = "language_model"
    settings: ClassVar[Mapping[str, str]] = {
        "D": "d_model",
        "H": "num_heads",
        "d_ff": "d_ff",
        "N": "num_decoder_layers",
        "V": "target_vocab",
        "room": "max_len",
    }
    constants: ClassVar[Mapping[str, Any]] = {"dropout": 0.3}
    free: ClassVar[tuple[str, ...]] = options_of("language_model")

    special: int = 0
    padding: str = "none"

    @property
    def narrowed(self) -> dict[str, Any]:
        return {**super().narrowed, "N": 1, "special": 0}

    def fitted(self, impl: JudgedImplementation) -> Self:
        """Padding stands where the implementation takes it."""
        case = super().fitted(impl)
        return case if case.padding in impl.claims.padding else case.but(padding="none")

    def settled(self) -> Self:
        """Heads divide the width into parts that can be turned; the special ids lie in the vocabulary."""
        return self.but(
            D=max(4 * self.H, self.D - self.D % (4 * self.H)),
            V=max(self.V, 5),
            room=max(self.room, self.T),
        )

    @property
    def regimes(self) -> tuple[str, ...]:
        c = self.config
        kind = (c.positions, c.norm, c.norm_kind, "tied" if c.tie else "not tied")
        return (*super().regimes, *kind, f"padding {self.padding}")

    @property
    def config(self) -> Any:
        pad, bos, eos = SPECIALS[self.special]
        ids = {"pad_id": pad, "bos_id": bos, "eos_id": eos}
        return super().config.but(**ids, source_vocab=self.V)

    @cached_property
    def ids(self) -> Array:
        """(B, T); each row but the first has a length of its own where there is padding."""
        pad, rng = SPECIALS[self.special][0], self.rng(2)
        ids = np.array([i for i in range(self.V) if i != pad])[rng.integers(0, self.V - 1, (self.B, self.T))]
        lengths = rng.integers(1, self.T + 1, self.B)
        lengths[0] = self.T if self.B > 1 else lengths[0]
        shown = np.arange(self.T) < lengths[:, None]
        if self.padding == "none":
            return ids
        return np.where(shown[:, ::-1] if self.padding == "left" else shown, ids, pad)

    @cached_property
    def inputs(self) -> dict[str, Any]:
        return {"ids": self.ids}

    def changed_from(self, t: int) -> Array:
        """(B, T): the ids with another real one wherever one stands from place t on."""
        pad, changed = SPECIALS[self.special][0], self.ids.copy()
        later = changed[:, t:]
        following = (later + 1) % self.V
        following = np.where(following == pad, (following + 1) % self.V, following)
        later[...] = np.where(later == pad, pad, following)
        return changed

    def disturbed(self, name: str) -> dict[str, Array]:
        """The parameters with one array moved by about half its size."""
        value = self.parameters[name]
        size = 0.5 * float(np.abs(value).mean()) + 0.05
        noise = size * self.rng(6).standard_normal(value.shape)
        return {**self.parameters, name: (value + noise).astype(value.dtype)}

    @property
    def real(self) -> Array:
        """(B, T): where a token is no padding."""
        real: Array = self.ids != SPECIALS[self.special][0]
        return real

    def loaded_anew(self, impl: JudgedImplementation) -> JudgedComponent:
        """A component that has never read another length."""
        component = self.unloaded(impl)
        component.load(self.parameters)
        component.eval()
        return component


# Beyond tables of 512, 1000 and 1024 rows, in a model that is as small as can be.
LONG_TEXT = LanguageModelCase(
    T=1100, D=4, H=1, d_ff=4, V=5, room=1200, pick=1, wants="positions:learned", seed=1
)


@st.composite
def language_model_cases(
    draw: st.DrawFn,
    *,
    wants: tuple[str, ...] = ("",),
    paddings: tuple[str, ...] = ("none", "right", "left"),
    regimes: tuple[str, ...] = ("init", "unit", "saturated"),
    min_length: int = 1,
) -> LanguageModelCase:
    """Sizes that coincide and sizes of which no two are equal, in turn."""
    B, T, H, d, d_ff, N, V = draw(st.sampled_from((*COINCIDENT, *APART)))
    return LanguageModelCase(
        B=B,
        T=max(min_length, draw(st.sampled_from((T, T, T, 1)))),
        D=H * d,
        H=H,
        d_ff=d_ff,
        N=N,
        V=V,
        special=draw(st.integers(0, len(SPECIALS) - 1)),
        padding=draw(st.sampled_from(paddings)),
        regime=draw(st.sampled_from(regimes)),
        dtype=draw(dtypes()),
        seed=draw(seeds()),
        pick=draw(picks()),
        wants=draw(st.sampled_from(wants)),
    )
