"""Cases of optimisers: named arrays of one and two axes, and gradients that change from step to step."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from hypothesis import strategies as st

from attest.contract import Array, Config, float_dtype
from attest.judging.cases import Case, dtypes, seeds

STEPS = 20
SHAPES = {
    "encoder.0.feed_forward.inner.weight": (5, 3),
    "encoder.0.feed_forward.inner.bias": (5,),
    "encoder.0.norm0.weight": (3,),
    "encoder.0.norm0.bias": (3,),
    "source_embedding.weight": (7, 3),
}
# Arrays longer than 256, one beside the other.
LONG_SHAPES = {"weight": (260, 3), "bias": (260,)}


@dataclass(frozen=True, kw_only=True)
class UpdateCase(Case):
    """Twenty steps with gradients from 1e-6 to 10, some of them exactly zero, and changing rates."""

    kind: ClassVar[str] = "update"

    momentum: float = 0.9
    beta1: float = 0.9
    beta2: float = 0.98
    eps: float = 1e-9
    decay: float = 0.01
    count: int = STEPS
    layers: int = 0  # further ones, each with a long matrix and a long vector

    @property
    def shapes(self) -> dict[str, tuple[int, ...]]:
        """Of the parameters by name."""
        further = {
            f"decoder.{i}.feed_forward.inner.{name}": shape
            for i in range(self.layers)
            for name, shape in LONG_SHAPES.items()
        }
        return {**SHAPES, **further}

    @property
    def config(self) -> Config:
        return Config(
            momentum=self.momentum,
            beta1=self.beta1,
            beta2=self.beta2,
            adam_eps=self.eps,
            weight_decay=self.decay,
            dtype=self.dtype,
        )

    @property
    def rates(self) -> list[float]:
        """Up, then down, as a schedule goes."""
        return [float(r) for r in 10.0 ** self.rng(2).uniform(-3, -1, self.count)]

    def parameters(self, salt: int = 1) -> dict[str, Array]:
        """Away from zero, so that a decay shows."""
        rng = self.rng(salt)
        drawn = {name: rng.uniform(0.5, 2.0, shape) for name, shape in self.shapes.items()}
        return {
            name: (value * rng.choice((-1.0, 1.0), value.shape)).astype(float_dtype(self.dtype))
            for name, value in drawn.items()
        }

    def gradients(self, step: int) -> dict[str, Array]:
        """Each number has a size of its own; every third step the last array has none."""
        rng, sizes = self.rng(3, step), self.rng(4)
        made = {}
        for name, shape in self.shapes.items():
            size = 10.0 ** sizes.uniform(-6, 1, shape)
            made[name] = (size * rng.standard_normal(shape)).astype(float_dtype(self.dtype))
        if step % 3 == 2:
            made["source_embedding.weight"] = np.zeros_like(made["source_embedding.weight"])
        return made


def update_cases() -> st.SearchStrategy[UpdateCase]:
    """Constants that are usual, and others that show where each of them enters."""
    return st.builds(
        UpdateCase,
        momentum=st.sampled_from((0.9, 0.5, 0.0)),
        beta1=st.sampled_from((0.9, 0.5)),
        beta2=st.sampled_from((0.98, 0.999, 0.9)),
        eps=st.sampled_from((1e-9, 1e-8, 1e-3)),
        decay=st.sampled_from((0.01, 0.1, 0.5)),
        dtype=dtypes(),
        seed=seeds(),
    )


# 25 arrays for 40 steps: after as many the correction 1 - 0.999^t is 0.04, far from 1.
LARGE_UPDATE = UpdateCase(beta2=0.999, count=40, layers=10, seed=1)
