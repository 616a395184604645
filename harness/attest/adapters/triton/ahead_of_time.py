"""Triton kernels compiled for a GPU that is not there, and what the machine code says about them."""

from __future__ import annotations

import io
import os
import re
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, redirect_stdout
from dataclasses import asdict, dataclass
from typing import Any

from attest.adapters.triton.signatures import Signature
from attest.adapters.triton.versions import require_triton

TARGETS = ("sm_80", "sm_86", "sm_89", "sm_90", "sm_100", "sm_120")
USUAL = ("sm_80", "sm_90")  # A100 and H100
WARP = 32
LONGEST = 160  # characters of a complaint
PRODUCT = re.compile(r"\b(?:mma\.sync|wgmma\.mma_async|tcgen05\.mma)\S*")
ATOMIC = re.compile(r"\b(?:atom|red)\.(?:\w+\.)*(?:global|shared|add|cas|exch|min|max|and|or|xor)")
USED = re.compile(r"Used (\d+) registers")
STACK = re.compile(r"(\d+) bytes stack frame, (\d+) bytes spill stores, (\d+) bytes spill loads")


@dataclass(frozen=True)
class Compiled:
    """One kernel for one target. Sizes in bytes; `shared` is for each block of threads."""

    name: str
    target: str
    registers: int = 0
    stack: int = 0
    spill_stores: int = 0
    spill_loads: int = 0
    shared: int = 0
    tf32: bool = False
    products: tuple[str, ...] = ()  # instructions of the tensor cores
    atomics: int = 0  # instructions in the code, each of which may run many times
    error: str = ""

    def as_json(self) -> dict[str, Any]:
        """For --json."""
        return {**asdict(self), "products": list(self.products)}


@dataclass(frozen=True)
class MachineCode:
    """What was compiled, with the code itself."""

    summary: Compiled
    ptx: str = ""
    cubin: bytes = b""


@contextmanager
def compiler() -> Iterator[None]:
    """While kernels are imported and compiled: no interpreter, and no cache that another version filled."""
    require_triton("compilation ahead of time")
    changed = {name: os.environ.get(name) for name in ("TRITON_INTERPRET", "TRITON_CACHE_DIR")}
    os.environ.pop("TRITON_INTERPRET", None)
    with tempfile.TemporaryDirectory() as cache:
        os.environ["TRITON_CACHE_DIR"] = cache
        try:
            yield
        finally:
            for name, value in changed.items():
                os.environ.pop(name, None)
                if value is not None:
                    os.environ[name] = value


def compiled(signature: Signature, target: str) -> MachineCode:
    """One kernel for one target; what the compiler refuses is the `error` of the summary."""
    import triton
    from triton.backends.compiler import GPUTarget
    from triton.compiler import ASTSource

    names = signature.kernel.arg_names
    source = ASTSource(
        fn=signature.kernel,
        signature=signature.types,
        constexprs={(names.index(n),): value for n, value in signature.constants.items()},
        attrs={(names.index(n),): [["tt.divisibility", 16]] for n in signature.aligned},
    )
    wanted = GPUTarget("cuda", int(target.removeprefix("sm_")), WARP)
    log = io.StringIO()
    try:
        with redirect_stdout(log), triton.knobs.nvidia.scope():
            triton.knobs.nvidia.dump_ptxas_log = True  # it says registers and spills
            made = triton.compile(source, target=wanted, options=dict(signature.options))
    except Exception as error:
        reason = _reason(error, log.getvalue())
        return MachineCode(Compiled(signature.name, target, error=reason))
    ptx = made.asm["ptx"]
    summary = read(signature.name, target, ptx, log.getvalue(), int(made.metadata.shared))
    return MachineCode(summary, ptx, made.asm["cubin"])


def read(name: str, target: str, ptx: str, log: str, shared: int) -> Compiled:
    """The summary of a kernel from its PTX and from what ptxas said."""
    stack, stores, loads = (sum(column) for column in zip(*_numbers(STACK, log))) if log else (0, 0, 0)
    products = tuple(sorted(set(PRODUCT.findall(ptx))))
    return Compiled(
        name,
        target,
        registers=max(row[0] for row in _numbers(USED, log)),
        stack=stack,
        spill_stores=stores,
        spill_loads=loads,
        shared=shared,
        tf32=any(".tf32" in product for product in products),
        products=products,
        atomics=len(ATOMIC.findall(ptx)),
    )


def _numbers(pattern: re.Pattern[str], text: str) -> Sequence[tuple[int, ...]]:
    found = [tuple(map(int, match.groups())) for match in pattern.finditer(text)]
    if not found:
        raise RuntimeError("ptxas did not say what the kernel uses")
    return found


def _reason(error: Exception, log: str) -> str:
    """The compiler's complaint in one line; what it is about comes last in Triton's own."""
    told = re.findall(r"ptxas\s+(?:fatal|error)\s*:?\s*(.*)", log) or str(error).strip().splitlines()[-1:]
    return f"{type(error).__name__}: {' '.join(' '.join(told).split())[:LONGEST]}"
