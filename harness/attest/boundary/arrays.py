"""Arrays on their way in and out: aligned copies, checked results, exceptions as sentences."""

from __future__ import annotations

import contextlib
import io
import warnings
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import numpy as np

from attest.contract import Array
from attest.outcomes import NotOffered, NotRun, Violation
from attest.registry import printable

BOUNDARY_DTYPES = (np.dtype(np.float32), np.dtype(np.float64))


@contextlib.contextmanager
def quiet() -> Iterator[None]:
    """Hide an implementation's warnings and prints: they do not belong to the report."""
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        with contextlib.redirect_stdout(io.StringIO()):
            yield


def aligned(array: Array) -> Array:
    """A contiguous copy that starts at a multiple of 64 bytes, so that kernels take the same path."""
    # numpy aligns to 16 bytes. BLAS takes another path for another alignment, and results that must agree to
    # the bit would differ by where malloc put the array.
    space = np.empty(array.nbytes + 64, np.uint8)
    start = -space.ctypes.data % 64
    copy = space[start : start + array.nbytes].view(array.dtype).reshape(array.shape)
    copy[...] = array
    return copy


def fresh(inputs: Mapping[str, Any]) -> dict[str, Any]:
    """Aligned copies of the arrays among these inputs."""
    return {k: aligned(v) if isinstance(v, np.ndarray) else v for k, v in inputs.items()}


class Named(dict[str, Array]):
    """Arrays by name. Asking for one that was not returned is the implementation's failure."""

    def __init__(self, label: str, arrays: Mapping[str, Array]) -> None:
        super().__init__(arrays)
        self.label = label

    def __missing__(self, name: str) -> Array:
        names = ", ".join(shown[:40] for shown in sorted(self)[:20]) or "nothing"
        raise Violation(f"{self.label} returned {names}; return {name} too")


def arrays_of(result: Any, label: str) -> dict[str, Array]:
    """Check that a result is a mapping of arrays and copy it."""
    if not isinstance(result, Mapping):
        raise Violation(f"{label} returned {kind_of(result)}; return a mapping of names to numpy arrays")
    try:  # a mapping of the implementation's own may do anything when it is read
        return Named(label, {str(n): array_of(x, f"{label}[{str(n)[:40]!r}]") for n, x in result.items()})
    except (Violation, MemoryError):
        raise
    except Exception as error:
        raise Violation(f"reading what {label} returned raised {error_sentence(error)}") from error


def array_of(value: Any, label: str) -> Array:
    """Check that a value is a numpy array of a dtype that crosses the boundary, and copy it."""
    # A sum over all axes is a numpy scalar, where an array of rank 0 is meant.
    if isinstance(value, np.generic):
        value = np.asarray(value)
    if not issubclass(type(value), np.ndarray):
        raise Violation(f"{label} is {kind_of(value)}; return a numpy array")
    if type(value) is not np.ndarray:
        value = np.ndarray.view(value, np.ndarray)  # whatever a class of its own says of its dtype and shape
    if value.dtype.kind == "f" and value.dtype not in BOUNDARY_DTYPES:
        raise Violation(f"{label} has dtype {value.dtype}; return float32 or float64")
    if value.dtype.kind not in "fiub":
        raise Violation(f"{label} has dtype {value.dtype}; return an array of numbers")
    return np.array(value)


def guarded(label: str, call: Callable[[], Any]) -> Any:
    """Run a call of the implementation; its exceptions become sentences."""
    try:
        with quiet():
            return call()
    except (NotOffered, NotRun, Violation):
        raise
    except NotImplementedError as error:
        raise NotOffered(f"{label}: {text_of(error)}") from None
    except MemoryError:
        raise
    except Exception as error:
        raise Violation(f"{label} raised {error_sentence(error)}", raised=type(error).__name__) from error


def error_sentence(error: BaseException) -> str:
    """An exception as a failure quotes it: its class and the beginning of its text."""
    text = text_of(error)
    return f"{type(error).__name__}: {text}" if text else type(error).__name__


def text_of(error: BaseException) -> str:
    """The beginning of what an exception says, with nothing that a terminal or a file cannot take."""
    try:
        return printable(" ".join(str(error).split())[:300])
    except Exception:
        return "its text cannot be read"


def kind_of(value: Any) -> str:
    """What something is, as a failure names it."""
    name = f"{type(value).__module__}.{type(value).__name__}".removeprefix("builtins.")
    return "None" if value is None else f"a {name}"
