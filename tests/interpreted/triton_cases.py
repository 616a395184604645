"""Small Triton kernels, each of which shows one thing that the interpreter of Triton 3.7.1 has wrong.

Import with TRITON_INTERPRET=1: what `triton.jit` makes of them is decided then.
"""

import torch
import triton
import triton.language as tl
from triton.language.extra import libdevice


@triton.jit
def product(A, B, C, N: tl.constexpr, PRECISION: tl.constexpr):
    i = tl.arange(0, N)
    places = i[:, None] * N + i[None, :]
    tl.store(C + places, tl.dot(tl.load(A + places), tl.load(B + places), input_precision=PRECISION))


@triton.jit
def product_by_default(A, B, C, N: tl.constexpr):
    i = tl.arange(0, N)
    places = i[:, None] * N + i[None, :]
    tl.store(C + places, tl.dot(tl.load(A + places), tl.load(B + places)))


@triton.jit
def copied(X, Y, N: tl.constexpr):
    i = tl.arange(0, N)
    tl.store(Y + i, tl.load(X + i).to(Y.dtype.element_ty))


@triton.jit
def towards_zero(X, Y, N: tl.constexpr):
    i = tl.arange(0, N)
    tl.store(Y + i, tl.load(X + i).to(tl.bfloat16, fp_downcast_rounding="rtz"))


@triton.jit
def arithmetic(X, Y, Z, N: tl.constexpr):
    i = tl.arange(0, N)
    x, y = tl.load(X + i), tl.load(Y + i)
    tl.store(Z + i, tl.where(x < y, x + y, -x * y) + 1.5)


@triton.jit
def total(X, Y, N: tl.constexpr):
    tl.store(Y, tl.sum(tl.load(X + tl.arange(0, N)), 0))


@triton.jit
def smaller(X, Y, Z, N: tl.constexpr):
    i = tl.arange(0, N)
    tl.store(Z + i, tl.minimum(tl.load(X + i), tl.load(Y + i)))


@triton.jit
def added(a, b):
    return a + b


@triton.jit
def counted(X, Y, N: tl.constexpr):
    i = tl.arange(0, N)
    tl.store(Y + i, tl.associative_scan((tl.load(X + i) != 0).to(tl.int64), 0, added))


@triton.jit
def by_libdevice(X, Y, N: tl.constexpr):
    i = tl.arange(0, N)
    x = tl.load(X + i)
    tl.store(Y + i, libdevice.tanh(x) + libdevice.erf(x) + libdevice.pow(libdevice.rsqrt(x), x))


@triton.jit
def unknown_function(X, Y, N: tl.constexpr):
    i = tl.arange(0, N)
    tl.store(Y + i, libdevice.cyl_bessel_i0(tl.load(X + i)))


@triton.jit
def doubled(X, Y, n, MASKED_LOAD: tl.constexpr, MASKED_STORE: tl.constexpr, N: tl.constexpr):
    i = tl.program_id(0) * N + tl.arange(0, N)
    x = tl.load(X + i, mask=(i < n) | (not MASKED_LOAD), other=0.0)
    tl.store(Y + i, 2 * x, mask=(i < n) | (not MASKED_STORE))


@triton.jit
def added_by_all(X, Y):
    tl.atomic_add(Y, tl.load(X + tl.program_id(0)))


@triton.jit
def logarithms(X, Y, N: tl.constexpr):
    i = tl.arange(0, N)
    tl.store(Y + i, tl.log(tl.load(X + i)) + 1 / tl.load(X + i))


def drawn(*shape, dtype=torch.float32, seed=0):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed)).to(dtype)
