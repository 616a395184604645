"""A case: sizes, a regime and a seed. It prints as one line, reads back, and makes its arrays on the CPU."""

from __future__ import annotations

import ast
import math
import re
from dataclasses import Field, dataclass, field, fields, replace
from typing import TYPE_CHECKING, Any, ClassVar, Self

import numpy as np
from hypothesis import strategies as st

from attest.contract import Array, float_dtype

if TYPE_CHECKING:
    from attest.boundary import JudgedImplementation

REGIMES = ("unit", "init", "saturated", "tiny", "large", "offset")
SCALE = {"unit": 1.0, "init": 1.0, "saturated": 1.0, "tiny": 1e-3, "large": 30.0, "offset": 1.0}
OFFSET = 20.0

_kinds: dict[str, type[Case]] = {}


# A line leaves out such a field while it has its default: it is not drawn, and most cases keep it.
UNSAID = {"unsaid": True}


@dataclass(frozen=True, kw_only=True)
class Case:
    """Base of every case: fields are numbers and words only, so that a line holds all of it."""

    kind: ClassVar[str] = ""
    lengths: ClassVar[tuple[str, ...]] = ()  # fields that a shape policy keeps at or above its minimum

    regime: str = "unit"
    dtype: str = "float32"
    seed: int = 0
    smallest: int = field(default=1, metadata=UNSAID)  # of any batch or length that is made from this case

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        _kinds[cls.kind] = cls

    def __str__(self) -> str:
        body = " ".join(f"{f.name}={getattr(self, f.name)}" for f in fields(self) if self._says(f))
        return f"{self.kind}[{body}]"

    def _says(self, field: Field[Any]) -> bool:
        return not field.metadata.get("unsaid") or getattr(self, field.name) != field.default

    def but(self, **changes: Any) -> Self:
        """A copy with some fields changed."""
        return replace(self, **changes)

    @property
    def regimes(self) -> tuple[str, ...]:
        """What the evidence counts this case under."""
        sizes = [f"{name}=1" for name in self.lengths if getattr(self, name) == 1]
        return (self.regime, self.dtype, *sizes)

    def fitted(self, impl: JudgedImplementation) -> Self:
        """This case in a dtype the implementation offers and within its shape policy."""
        changes: dict[str, Any] = {}
        if self.dtype not in impl.dtypes or impl.policy.one_config:
            changes["dtype"] = impl.dtypes[0]
        smallest = impl.policy.min_size
        if smallest != self.smallest:
            changes["smallest"] = smallest
        changes |= {n: smallest for n in self.lengths if 0 < getattr(self, n) < smallest}
        return self.but(**changes) if changes else self

    def rng(self, *salt: int) -> np.random.Generator:
        """A generator of this case's seed; a salt makes another stream."""
        return np.random.default_rng([self.seed, *salt])

    def draw(self, rng: np.random.Generator, *shape: int, regime: str | None = None) -> Array:
        """Values of the regime's scale in the boundary's dtype."""
        regime = self.regime if regime is None else regime
        values = rng.standard_normal(shape) * SCALE[regime]
        return (values + OFFSET if regime == "offset" else values).astype(float_dtype(self.dtype))

    def in_range(self, value: float) -> float:
        """A large number as this dtype can hold it: float16 ends at 65504."""
        return min(value, 1e4) if self.dtype == "float16" and math.isfinite(value) else value

    @property
    def sharp(self) -> bool:
        """Whether the literal tolerance of the acceptance criteria applies."""
        return self.regime in ("init", "unit")


def seeds() -> st.SearchStrategy[int]:
    """Seeds of arrays; small ones first when shrinking."""
    return st.integers(0, 2**16 - 1)


def dtypes() -> st.SearchStrategy[str]:
    """What equality is judged in; mapped into what the implementation offers."""
    return st.sampled_from(("float32", "float64"))


def regimes() -> st.SearchStrategy[str]:
    """The input regimes, the mild one first."""
    return st.sampled_from(REGIMES)


def parse_value(text: str) -> Any:
    """A case, a number or a word, as `print_drawn` wrote it."""
    match = re.fullmatch(r"(\w+)\[(.*)\]", text)
    if not match:
        return _literal(text)
    kind, body = match.groups()
    if kind not in _kinds:
        raise ValueError(f"case kind={kind!r} is unknown; one of {', '.join(sorted(filter(None, _kinds)))}")
    pairs = dict(part.partition("=")[::2] for part in body.split())
    known = [f.name for f in fields(_kinds[kind])]
    if unknown := [name for name in pairs if name not in known]:
        raise ValueError(f"{kind}[{unknown[0]}=...] is unknown; a case of this kind has {', '.join(known)}")
    values = {name: _literal(value) for name, value in pairs.items()}
    for given in fields(_kinds[kind]):
        if given.name in values and isinstance(given.default, str) != isinstance(values[given.name], str):
            what = "a word" if isinstance(given.default, str) else "a number"
            raise ValueError(f"{kind}[{given.name}={pairs[given.name]}] is not {what}; paste the whole line")
    return _kinds[kind](**values)


def _literal(text: str) -> Any:
    if text in ("nan", "inf", "-inf"):
        return float(text)
    try:
        return ast.literal_eval(text)
    except (ValueError, SyntaxError):
        return text
