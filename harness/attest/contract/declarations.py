"""What an implementation may declare beside its operations."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol, runtime_checkable


@dataclass(frozen=True)
class KnownFailure:
    """A criterion an implementation is known to fail. `witness` is one case, as the report prints it."""

    criterion: str
    reason: str
    link: str
    witness: str


@dataclass(frozen=True)
class ShapePolicy:
    """How drawn cases are narrowed for an implementation that pays for every new shape.

    `min_size`: no batch, length or head count below it. `one_config`: each operation keeps to a small fixed
    set of configs instead of a drawn one. `always_mask`: an all-True mask in place of none.
    """

    min_size: int = 1
    one_config: bool = False
    always_mask: bool = False

    def sentence(self) -> str:
        """As the report prints it; empty where nothing is narrowed."""
        asked = {
            f"no batch, length or head count below {self.min_size}": self.min_size > 1,
            "few fixed configs per operation, one dtype and at most one more for gradients": self.one_config,
            "an all-True mask in place of none": self.always_mask,
        }
        return "; ".join(rule for rule, holds in asked.items() if holds)


@runtime_checkable
class Implementation(Protocol):
    """Only `name` is required. The operations are attributes of this object; so are these declarations.

    description       one line
    dtypes            what it computes in, of float32, float64, bfloat16, float16; default ("float32",)
    devices           default ("cpu",)
    known_failures    a sequence of KnownFailure
    shape_policy      a ShapePolicy
    wider_bounds      operation -> factor above 1 by which its bounds are widened; the report says so
    compiled          True if its components run compiled code; see CompiledComponent
    padding           where ids may hold padding, of none, right, left; packed: has LanguageModel.packed
    backends          names of ways to compute; every criterion runs on each, as config.options says
    packages          installed packages that hold what is judged; the report names their versions
    batch_invariant   True if a row gives the same bits in batches of any size
    """

    name: str
