"""Cases of norms, encoder and decoder layers, and stacks of them.

Shapes: x (B, T, D), memory (B, S, D), mask to (B, T, T), memory_mask to (B, T, S); N layers in a stack.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar, Self

import numpy as np
from hypothesis import strategies as st

from attest.boundary import JudgedImplementation
from attest.checks.arrays import expect_shape
from attest.contract import Array, Config
from attest.judging.cases import OperationCase, dtypes, seeds
from attest.judging.cases import regimes as any_regime
from attest.judging.regimes import hiding_mask

LAYERS = ("encoder_layer", "decoder_layer")
STACKS = ("encoder", "decoder")
PARTS = (*LAYERS, *STACKS)
MASKS = ("none", "padding", "keys", "pairs", "shared")
KEY_MASKS = ("padding", "keys")  # hide positions, whose own outputs are then unspecified
# Tried in order where the drawn options are not offered: a layer with one activation, or with biases only,
# is judged on what it has.
FALLBACKS: tuple[dict[str, Any], ...] = (
    {"activation": "relu"},
    {"activation": "gelu"},
    {"bias": True},
    {"bias": True, "activation": "relu"},
    {"bias": True, "activation": "gelu"},
)


@dataclass(frozen=True, kw_only=True)
class LayerCase(OperationCase):
    """Masks: none, padding (right, per row), keys (per row), pairs (per query and key), shared (T, S)."""

    kind: ClassVar[str] = "layer"
    lengths: ClassVar[tuple[str, ...]] = ("B", "T", "S")
    masks: ClassVar[tuple[str, ...]] = ("mask", "memory_mask")
    settings: ClassVar[Mapping[str, str]] = {
        "D": "d_model",
        "H": "num_heads",
        "F": "d_ff",
        "norm": "norm",
        "activation": "activation",
        "bias": "bias",
    }

    stands_for: ClassVar[Mapping[str, str]] = {"N": "num_encoder_layers"}

    part: str = "encoder_layer"
    B: int = 1
    T: int = 1
    S: int = 1
    D: int = 4
    H: int = 1
    F: int = 4
    N: int = 1
    norm: str = "post"
    activation: str = "relu"
    bias: bool = True
    mask: str = "none"
    memory_mask: str = "none"

    @property
    def narrowed(self) -> dict[str, Any]:
        """One config per norm."""
        return {"D": 8, "H": 2, "F": 16, "N": 2, "activation": "relu", "bias": True}

    @property
    def fallbacks(self) -> tuple[dict[str, Any], ...]:
        """Bias and activation are options: where one is refused as not there, the other is judged."""
        return FALLBACKS

    @property
    def operation(self) -> str:
        return self.part

    def or_else(self, impl: JudgedImplementation, part: str) -> Self:
        """The same case of another part where this one is not offered."""
        return self if impl.offers(self.part) else self.but(part=part).offered(impl)

    @property
    def decodes(self) -> bool:
        """Whether the part reads a memory and hides the future."""
        return self.part.startswith("decoder")

    @property
    def depth(self) -> int:
        """Layers passed through."""
        return self.N if self.part in STACKS else 1

    @property
    def prefixes(self) -> tuple[str, ...]:
        """What the names of each layer's parameters begin with."""
        return tuple(f"{i}." for i in range(self.N)) if self.part in STACKS else ("",)

    @property
    def config(self) -> Config:
        """The other stack has another depth. The dropout rate is that of M3.7a, so that a compiled
        implementation needs one graph for both.
        """
        own, other = ("decoder", "encoder") if self.decodes else ("encoder", "decoder")
        depths: dict[str, Any] = {f"num_{own}_layers": self.N, f"num_{other}_layers": self.N + 1}
        return super().config.but(dropout=0.4, **depths)

    def mask_of(self, name: str) -> Array | None:
        if getattr(self, name) == "none":
            return None
        return self.allowed if name == "mask" else self.memory_allowed

    @cached_property
    def allowed(self) -> Array:
        """The mask as it is passed; every query sees at least one position."""
        return self._form(self.mask, self.T, 3, causal=self.decodes)

    @cached_property
    def memory_allowed(self) -> Array:
        """The memory's mask as it is passed; every query sees at least one position."""
        return self._form(self.memory_mask, self.S, 4, causal=False)

    def _form(self, form: str, keys: int, salt: int, *, causal: bool) -> Array:
        rng = self.rng(salt)
        if form == "padding":
            lengths = rng.integers(min(self.least, keys), keys + 1, self.B)
            padding: Array = (np.arange(keys) < lengths[:, None])[:, None, :]
            return padding
        shapes = {
            "keys": (self.B, 1, keys),
            "pairs": (self.B, self.T, keys),
            "shared": (self.T, keys),
        }
        if form not in shapes:
            return np.ones((self.B, 1, keys), bool)
        return hiding_mask(rng, shapes[form], self.reach(shapes[form][-2], keys, causal=causal))

    def reach(self, queries: int, keys: int, *, causal: bool) -> Any:
        """The last key that each of so many rows of a mask may see. In a decoder the first position sees
        itself alone, so a mask over keys shows it.
        """
        return np.minimum(np.arange(queries), keys - 1) if causal else keys - 1

    @cached_property
    def visible(self) -> Array:
        """(B, T, T): which position of x a position may read, the future hidden in a decoder."""
        seen = np.broadcast_to(self.allowed, (self.B, self.T, self.T)).copy()
        return seen & np.tri(self.T, dtype=bool) if self.decodes else seen

    @cached_property
    def memory_visible(self) -> Array:
        """(B, T, S)."""
        return np.broadcast_to(self.memory_allowed, (self.B, self.T, self.S)).copy()

    @cached_property
    def real(self) -> Array:
        """(B, T): positions whose output is specified; hidden keys are padding."""
        if self.mask in KEY_MASKS:
            return np.broadcast_to(self.allowed[:, 0, :], (self.B, self.T)).copy()
        return np.ones((self.B, self.T), bool)

    def silencing(self, *ends: str) -> dict[str, Array]:
        """The parameters with zeros under every name that ends so."""
        return {n: np.zeros_like(v) if n.endswith(ends) else v for n, v in self.parameters.items()}

    def specified(self, seen: Array, other: Array) -> Array:
        """Padded positions are open."""
        expect_shape(seen, other.shape, "output")
        chosen: Array = np.where(self.real[..., None], seen, other)
        return chosen

    def cotangents(self) -> dict[str, Array]:
        """Random ones; zero where the output is unspecified."""
        random = super().cotangents()["output"]
        return {"output": random * self.real[..., None].astype(random.dtype)}


@st.composite
def layer_cases(
    draw: st.DrawFn,
    *,
    parts: tuple[str, ...] = PARTS,
    norms: tuple[str, ...] = ("post", "pre"),
    masks: tuple[str, ...] = MASKS,
    memory_masks: tuple[str, ...] | None = None,
    regimes: tuple[str, ...] | None = None,
    min_width: int = 2,
    min_length: int = 1,
    max_length: int = 7,
    max_depth: int = 3,
    biases: tuple[bool, ...] = (True, False),
) -> LayerCase:
    """Small cases; T equals S, and B equals H, as often as not."""
    H = draw(st.integers(1, 4))
    least = -(-min_width // H)
    T = draw(st.integers(min_length, max_length))
    return LayerCase(
        part=draw(st.sampled_from(parts)),
        # B == H on purpose: a mask (B, T, S) put on the axis of the heads fits there and nowhere else.
        B=draw(st.sampled_from((2, 1, 3, H))),
        T=T,
        S=draw(st.one_of(st.just(T), st.integers(min_length, max_length))),
        D=H * draw(st.integers(least, least + 2)),
        H=H,
        F=draw(st.sampled_from((8, 3, 12))),
        N=draw(st.integers(1, max_depth)),
        norm=draw(st.sampled_from(norms)),
        activation=draw(st.sampled_from(("relu", "gelu"))),
        bias=draw(st.sampled_from(biases)),
        mask=draw(st.sampled_from(masks)),
        memory_mask=draw(st.sampled_from(memory_masks or masks)),
        regime=draw(any_regime() if regimes is None else st.sampled_from(regimes)),
        dtype=draw(dtypes()),
        seed=draw(seeds()),
    )


@dataclass(frozen=True, kw_only=True)
class AnyNormCase(OperationCase):
    """What a case of any norm over the features has: a width and an eps."""

    lengths: ClassVar[tuple[str, ...]] = ("B", "T")
    settings: ClassVar[Mapping[str, str]] = {"D": "d_model", "eps": "norm_eps"}

    B: int = 1
    T: int = 1
    D: int = 4
    eps: float = 1e-5

    @property
    def narrowed(self) -> dict[str, Any]:
        return {"D": 8, "eps": 1e-5}

    @property
    def fallbacks(self) -> tuple[dict[str, Any], ...]:
        """Another eps is an option."""
        return ({"eps": 1e-5},)

    @property
    def x(self) -> Array:
        """The input."""
        return self.inputs["x"]  # type: ignore[no-any-return]


@dataclass(frozen=True, kw_only=True)
class NormCase(AnyNormCase):
    """Inputs of a layer norm: the regime's spread around `centre`."""

    kind: ClassVar[str] = "norm"
    operates: ClassVar[str] = "layer_norm"

    centre: float = 0.0

    def settled(self) -> Self:
        """Around 0 in half precision: at 100 a bfloat16 keeps one bit of a unit difference."""
        return self.but(centre=0.0) if self.dtype in ("bfloat16", "float16") else self

    @cached_property
    def inputs(self) -> dict[str, Any]:
        """Values of the regime's spread, shifted by the centre."""
        drawn = super().inputs["x"]
        return {"x": (drawn + self.centre).astype(drawn.dtype)}


def norm_cases(*, min_width: int = 1) -> st.SearchStrategy[NormCase]:
    """Widths from 1, means up to 10,000 times the spread, spreads down to the root of eps."""
    return st.builds(
        NormCase,
        B=st.integers(1, 3),
        T=st.integers(1, 5),
        D=st.integers(min_width, 12),
        centre=st.sampled_from((0.0, 100.0, -10_000.0)),
        eps=st.sampled_from((1e-5, 1e-3, 1e-6)),
        regime=any_regime(),
        dtype=dtypes(),
        seed=seeds(),
    )
