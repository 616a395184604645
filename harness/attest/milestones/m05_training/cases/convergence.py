"""The smallest thing that a model can learn from its prompt."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Self

import numpy as np

from attest.boundary import JudgedImplementation
from attest.contract import Array, Config
from attest.judging.architectures import ArchitectureCase
from attest.trained.tasks import BOS, EOS, PAD

# Few enough that one batch holds all of them: the loss is exact, not an estimate.
SYMBOLS = 8
TINY = Config(
    d_model=32,
    num_heads=2,
    d_ff=64,
    num_encoder_layers=1,
    num_decoder_layers=1,
    source_vocab=SYMBOLS + 3,
    target_vocab=SYMBOLS + 3,
    max_len=128,
    dropout=0.0,
    warmup=40,
)


@dataclass(frozen=True, kw_only=True)
class OneSymbolCase(ArchitectureCase):
    """Every prompt of one symbol, to be copied: without reading it a model loses ln 8 on the first token."""

    kind: ClassVar[str] = "one_symbol"
    lengths: ClassVar[tuple[str, ...]] = ("S",)

    S: int = 1

    def fitted(self, impl: JudgedImplementation) -> Self:
        """In the dtype in which such an implementation trains in the other criteria."""
        case = super().fitted(impl)
        return case.but(dtype=impl.sharpest if case.fixed else impl.dtypes[0])

    @property
    def config(self) -> Config:
        return self.with_options(TINY.but(dtype=self.dtype))

    @property
    def batch(self) -> dict[str, Array]:
        symbols = np.arange(3, SYMBOLS + 3)[:, None]
        prompt = np.pad(symbols, ((0, 0), (0, self.S - 1)), constant_values=PAD)
        written = np.pad(symbols, ((0, 0), (1, 2)), constant_values=PAD)
        written[:, 0], written[:, 2] = BOS, EOS
        return self.architecture.reading(prompt, written)
