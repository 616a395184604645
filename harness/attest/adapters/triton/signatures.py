"""What a file of Triton kernels says for compilation ahead of time: the list ATTEST_AOT at its top level.

    ATTEST_AOT = [
        {
            "kernel": add,                                           # a function under @triton.jit
            "arguments": {"X": "*fp32", "Y": "*fp32", "n": "i32"},   # the types of what is given at a launch
            "constants": {"BLOCK": 128},                             # the values of its tl.constexpr
            "name": "add in float32",                                # may be left out, as what follows
            "num_warps": 4,
            "num_stages": 2,
        },
    ]

A pointer is taken to be a multiple of 16 bytes, as torch allocates; a whole number where it says "i32:16".
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from types import ModuleType
from typing import Any

from attest.registry import UsageError
from attest.spelling import nearest

LIST = "ATTEST_AOT"
SCALARS = (
    *("i1", "i8", "i16", "i32", "i64", "u8", "u16", "u32", "u64"),
    *("fp16", "bf16", "fp32", "fp64", "fp8e5", "fp8e4nv"),
)
ALIGNED = ":16"
REQUIRED = ("kernel", "arguments", "constants")
OPTIONS = {"num_warps": (1, 2, 4, 8, 16, 32), "num_stages": tuple(range(1, 9))}


@dataclass(frozen=True)
class Signature:
    """One kernel with the types and constants that it is compiled for."""

    name: str
    kernel: Any
    arguments: Mapping[str, str]
    constants: Mapping[str, Any]
    options: Mapping[str, int] = field(default_factory=dict)

    @property
    def aligned(self) -> list[str]:
        """Arguments that are multiples of 16."""
        return [n for n, kind in self.arguments.items() if kind.startswith("*") or kind.endswith(ALIGNED)]

    @property
    def types(self) -> dict[str, str]:
        """What Triton wants to know of each parameter, in their order."""
        plain = {n: kind.removesuffix(ALIGNED) for n, kind in self.arguments.items()}
        return {n: plain.get(n, "constexpr") for n in self.kernel.arg_names}


def signatures_in(module: ModuleType, file: str) -> list[Signature]:
    """The signatures that a file declares; UsageError with one sentence where they make no sense."""
    declared = getattr(module, LIST, None)
    if not isinstance(declared, list | tuple) or not declared:
        raise UsageError(
            f"{file} declares no kernel; give it {LIST}, a list of dictionaries with {', '.join(REQUIRED)}"
        )
    found = [_signature(entry, f"{file}: {LIST}[{place}]") for place, entry in enumerate(declared)]
    names = [signature.name for signature in found]
    for name in names:
        if names.count(name) > 1:
            raise UsageError(f"{file}: two entries of {LIST} are named {name!r}; give each its own 'name'")
    return found


def _signature(entry: Any, where: str) -> Signature:
    if not isinstance(entry, Mapping):
        raise UsageError(f"{where} is a {type(entry).__name__}; give a dictionary with {', '.join(REQUIRED)}")
    for key in entry:
        if key not in (*REQUIRED, "name", *OPTIONS):
            raise UsageError(f"{where} has {key!r}; {nearest(str(key), (*REQUIRED, 'name', *OPTIONS))}")
    for key in REQUIRED:
        if key not in entry:
            raise UsageError(f"{where} has no {key!r}; a signature needs {', '.join(REQUIRED)}")
    kernel = _checked_kernel(entry["kernel"], where)
    arguments, constants = dict(entry["arguments"]), dict(entry["constants"])
    _check_parameters(kernel.arg_names, arguments, constants, where)
    for name, kind in arguments.items():
        _check_type(name, kind, where)
    options = {n: entry[n] for n in OPTIONS if n in entry}
    for name, value in options.items():
        if value not in OPTIONS[name]:
            raise UsageError(f"{where} has {name}={value!r}; use one of {', '.join(map(str, OPTIONS[name]))}")
    return Signature(str(entry.get("name", kernel.__name__)), kernel, arguments, constants, options)


def _checked_kernel(kernel: Any, where: str) -> Any:
    from triton.runtime.interpreter import InterpretedFunction
    from triton.runtime.jit import JITFunction

    while not isinstance(kernel, JITFunction | InterpretedFunction) and hasattr(kernel, "fn"):
        kernel = kernel.fn  # below autotune and heuristics, whose choices are constants here
    if isinstance(kernel, InterpretedFunction):
        raise UsageError(
            f"{where}: its file sets TRITON_INTERPRET, so nothing can be compiled; set it outside of the file"
        )
    if not isinstance(kernel, JITFunction):
        raise UsageError(f"{where}: kernel={kernel!r} is no kernel; give a function under @triton.jit")
    return kernel


def _check_parameters(
    names: list[str], arguments: Mapping[str, Any], constants: Mapping[str, Any], where: str
) -> None:
    for name in (*arguments, *constants):
        if name not in names:
            raise UsageError(f"{where} names {name!r}, no parameter of the kernel; {nearest(name, names)}")
    for name in names:
        if (name in arguments) == (name in constants):
            how = "twice" if name in arguments else "not at all"
            raise UsageError(f"{where} has {name!r} {how}; put it into 'arguments' or into 'constants'")


def _check_type(name: str, kind: Any, where: str) -> None:
    plain = str(kind).removesuffix(ALIGNED).removeprefix("*")
    if not isinstance(kind, str) or plain not in SCALARS:
        raise UsageError(
            f"{where}: argument {name!r} has the type {kind!r}; use one of {', '.join(SCALARS)}, "
            "with * in front for a pointer to it"
        )
