"""Triton's interpreter as a GPU computes: what it ignores or gets wrong is put right here.

Read in Triton 3.7.1 (triton/runtime/interpreter.py), and each repair is tested:

* `tl.dot` of float32 in TF32, its default, is computed there in full precision;
* `tl.dot` of bfloat16 multiplies the bits as integers there, and so do `+`, `*` and `<`;
* float32 becomes bfloat16 by truncation there, and integers do by their bits;
* libdevice is missing there;
* the minimum and maximum of a number and nan are nan there, and the number on a GPU;
* what a kernel reads or writes outside of the tensors that it was given passes there unseen.

Not repaired: 8-bit floats and inline assembly.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any

import numpy as np
import triton.language as tl
from triton._C.libtriton import ir
from triton.language.extra import libdevice as called
from triton.language.extra.cuda import libdevice as compiled
from triton.runtime import interpreter
from triton.runtime.interpreter import GridExecutor, InterpreterBuilder, ReduceOps, TensorHandle

from attest.adapters.triton.libdevice import apply
from attest.adapters.triton.memory import Memory, tensors_in
from attest.adapters.triton.narrow_floats import as_tf32, rounded, truncated, widened
from attest.adapters.triton.versions import require_triton

_repaired: list[bool] = []
_memory = Memory()


def repair() -> None:
    """Put the interpreter of this process right, once."""
    require_triton("the repaired interpreter")
    if _repaired:
        return
    _repaired.append(True)
    _repair_products()
    _repair_bfloat16()
    _repair_libdevice()
    InterpreterBuilder.create_minnumf = lambda self, a, b: self.binary_op(a, b, np.fmin)
    InterpreterBuilder.create_maxnumf = lambda self, a, b: self.binary_op(a, b, np.fmax)
    _watch_memory()


def run_programs_in_random_order(seed: int) -> None:
    """From now on the programs of a grid run in a random order, another at every launch.

    A GPU promises no order: what depends on it, such as a sum by atomic additions, then differs between runs.
    """
    order = np.random.default_rng(seed)
    dimensions, place = InterpreterBuilder.set_grid_dim, InterpreterBuilder.set_grid_idx

    def set_grid_dim(self: Any, nx: int, ny: int, nz: int) -> None:
        dimensions(self, nx, ny, nz)
        self.places = order.permutation(nx * ny * nz)

    def set_grid_idx(self: Any, x: int, y: int, z: int) -> None:
        _, ny, nz = self.grid_dim
        shuffled = np.unravel_index(self.places[(x * ny + y) * nz + z], self.grid_dim)
        place(self, *(int(i) for i in shuffled))

    InterpreterBuilder.set_grid_dim, InterpreterBuilder.set_grid_idx = set_grid_dim, set_grid_idx


def _is_bfloat16(x: Any) -> bool:
    return isinstance(x, TensorHandle) and x.dtype.scalar == tl.bfloat16


def _wide(x: Any) -> Any:
    return TensorHandle(widened(x.data), tl.float32) if _is_bfloat16(x) else x


def _narrow(x: Any) -> Any:
    """bfloat16 again; what a comparison gave stays as it is."""
    return TensorHandle(x.data if x.data.dtype == bool else rounded(x.data), tl.bfloat16)


def _repair_products() -> None:
    plain = InterpreterBuilder.create_dot

    def create_dot(self: Any, a: Any, b: Any, d: Any, input_precision: Any, imprecise: Any) -> Any:
        if input_precision == ir.INPUT_PRECISION.TF32 and a.dtype.scalar == tl.float32:
            a, b = (TensorHandle(as_tf32(x.data), tl.float32) for x in (a, b))
        return plain(self, _wide(a), _wide(b), d, input_precision, imprecise)

    InterpreterBuilder.create_dot = create_dot


def _repair_bfloat16() -> None:
    # The operations of these take handles first and what they do last.
    for name in ("unary_op", "binary_op", "ternary_op"):
        setattr(InterpreterBuilder, name, _in_float32(getattr(InterpreterBuilder, name)))
    InterpreterBuilder.create_fma = _in_float32(InterpreterBuilder.create_fma)
    InterpreterBuilder.create_erf = _in_float32(InterpreterBuilder.create_erf)
    InterpreterBuilder.create_rsqrt = _in_float32(InterpreterBuilder.create_rsqrt)
    InterpreterBuilder.get_bf16 = lambda self, x: TensorHandle(rounded(np.array([x])), tl.bfloat16)
    _repair_casts()
    atomic = InterpreterBuilder.create_atomic_rmw

    def create_atomic_rmw(self: Any, operation: Any, pointers: Any, value: Any, *others: Any) -> Any:
        if _is_bfloat16(value):
            raise NotImplementedError("atomic operations on bfloat16 are not interpreted; add in float32")
        return atomic(self, operation, pointers, value, *others)

    InterpreterBuilder.create_atomic_rmw = create_atomic_rmw
    total = ReduceOps.sum

    def summed(self: Any, input: Any) -> Any:
        if not _is_bfloat16(input.handle):
            return total(self, input)
        return self.to_tensor(_summed(input.handle.data, self.axis, self.keep_dims), input.dtype)

    ReduceOps.sum = summed


def _summed(bits: Any, axis: int | None, keep_dims: bool) -> Any:
    """A sum of bfloat16 numbers by halves, each partial sum rounded, as a reduction of a block has it."""
    x = widened(bits)
    x = x.reshape(-1) if axis is None else np.moveaxis(x, axis, 0)
    while len(x) > 1:  # blocks have a power of two of elements
        x = widened(rounded(x[: len(x) // 2] + x[len(x) // 2 :]))
    x = x[0]
    if keep_dims:
        x = x.reshape((1,) * bits.ndim) if axis is None else np.expand_dims(x, axis)
    return rounded(x)


def _in_float32(plain: Callable[..., Any]) -> Callable[..., Any]:
    """The operation on numbers instead of their bits, where an operand is bfloat16."""

    @wraps(plain)
    def operate(self: Any, *operands: Any) -> Any:
        if operands[-1] is np.where:  # it selects and computes nothing
            return plain(self, *operands)
        if any(_is_bfloat16(x) for x in operands):
            return _narrow(plain(self, *(_wide(x) for x in operands)))
        return plain(self, *operands)

    return operate


def _repair_casts() -> None:
    cast, convert = InterpreterBuilder.cast_impl, InterpreterBuilder.create_fp_to_fp

    def cast_impl(self: Any, source: Any, wanted: Any) -> Any:
        source = _wide(source)
        if wanted.scalar != tl.bfloat16:
            # Also where the dtype is said to be the wanted one: a comparison says that of its operands.
            return cast(self, source, wanted)
        return TensorHandle(rounded(source.data.astype(np.float32)), tl.bfloat16)

    def create_fp_to_fp(self: Any, source: Any, wanted: Any, mode: Any) -> Any:
        if tl.bfloat16 not in (source.dtype.scalar, wanted.scalar):
            return convert(self, source, wanted, mode)
        if wanted.scalar == tl.bfloat16 and mode == ir.ROUNDING_MODE.RTZ:
            return TensorHandle(truncated(source.data.astype(np.float32)), tl.bfloat16)
        return cast_impl(self, source, wanted)

    InterpreterBuilder.cast_impl, InterpreterBuilder.create_fp_to_fp = cast_impl, create_fp_to_fp


def _repair_libdevice() -> None:
    def create_extern_elementwise(
        self: Any, library: str, path: str, symbol: str, operands: list[Any], result: Any, pure: bool
    ) -> Any:
        made = apply(symbol, [x.data for x in operands], interpreter._get_np_dtype(result.scalar))
        return TensorHandle(made, result.scalar)

    InterpreterBuilder.create_extern_elementwise = create_extern_elementwise
    for name, function in list(vars(compiled).items()):
        if tl.core.is_builtin(function):
            setattr(compiled, name, _interpreted(function))
            setattr(called, name, getattr(compiled, name))


def _interpreted(function: Callable[..., Any]) -> Callable[..., Any]:
    @wraps(function)
    def call(*operands: Any, _semantic: Any = None) -> Any:
        return function(*operands, _semantic=_semantic or interpreter.interpreter_semantic)

    return call


def _watch_memory() -> None:
    launch, bring = GridExecutor.__call__, GridExecutor._init_args_hst
    load = InterpreterBuilder.create_masked_load
    store, atomic = InterpreterBuilder.create_masked_store, InterpreterBuilder.create_atomic_rmw

    def launch_watched(self: Any, *arguments: Any, **keywords: Any) -> None:
        # Division by zero and the like give infinity and nan on a GPU, without a warning.
        with _memory.watched(), np.errstate(all="ignore"):
            launch(self, *arguments, **keywords)

    def brought_to_the_host(self: Any, arguments: Any, keywords: Any) -> Any:
        found = bring(self, arguments, keywords)
        _memory.give(tensors_in((*found[0], *found[1].values())))
        return found

    def create_masked_load(self: Any, pointers: Any, mask: Any, *others: Any) -> Any:
        _memory.check(pointers, mask, "reads")
        return load(self, pointers, mask, *others)

    def create_masked_store(self: Any, pointers: Any, value: Any, mask: Any, *others: Any) -> Any:
        _memory.check(pointers, mask, "writes")
        return store(self, pointers, value, mask, *others)

    def create_atomic_rmw(self: Any, operation: Any, pointers: Any, value: Any, *others: Any) -> Any:
        _memory.check(pointers, others[0], "writes")  # the mask comes first
        return atomic(self, operation, pointers, value, *others)

    GridExecutor.__call__, GridExecutor._init_args_hst = launch_watched, brought_to_the_host
    InterpreterBuilder.create_masked_load = create_masked_load
    InterpreterBuilder.create_masked_store = create_masked_store
    InterpreterBuilder.create_atomic_rmw = create_atomic_rmw
