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
from attest.registry import class_name, printable
from attest.sealed.wire import HALF

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


def reading(label: str, look: Callable[[], Any]) -> Any:
    """What `look` sees of what the implementation gave, which may do anything when it is looked at."""
    try:
        return look()
    except (NotOffered, NotRun, Violation, MemoryError):
        raise
    except Exception as error:
        raise Violation(f"reading what {label} returned raised {error_sentence(error)}") from error


def arrays_of(result: Any, label: str) -> dict[str, Array]:
    """Check that a result is a mapping of arrays and copy it."""

    def look() -> dict[str, Array]:
        if not isinstance(result, Mapping):
            raise Violation(f"{label} returned {kind_of(result)}; return a mapping of names to numpy arrays")
        return Named(label, {str(n): _copy(x, f"{label}[{str(n)[:40]!r}]") for n, x in result.items()})

    found: dict[str, Array] = reading(label, look)
    return found


def array_of(value: Any, label: str) -> Array:
    """Check that a value is a numpy array of a dtype that crosses the boundary, and copy it."""
    found: Array = reading(label, lambda: _copy(value, label))
    return found


def _copy(value: Any, label: str) -> Array:
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
    if value.nbytes > HALF:  # strides of 0 promise any size; a sealed process has no room for it either
        raise MemoryError
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
        raise Violation(f"{label} raised {error_sentence(error)}", raised=class_name(type(error))) from error


def error_sentence(error: BaseException) -> str:
    """An exception as a failure quotes it: its class and the beginning of its text."""
    name, text = printable(class_name(type(error)))[:100], text_of(error)
    return f"{name}: {text}" if text else name


def text_of(error: BaseException) -> str:
    """The beginning of what an exception says, with nothing that a terminal or a file cannot take."""
    try:
        return printable(" ".join(str(error).split())[:300])
    except Exception:
        return "its text cannot be read"


def kind_of(value: Any) -> str:
    """What something is, as a failure names it."""
    module = type.__dict__["__module__"].__get__(type(value))
    name = printable(f"{module}.{class_name(type(value))}".removeprefix("builtins."))[:200]
    return "None" if value is None else f"a {name}"
