"""Each repair of Triton's interpreter: what it has wrong as installed, and that it is right afterwards.

Not collected by itself: `triton.jit` decides when Triton is imported whether kernels are interpreted, so
tests/test_triton_interpreter.py runs this file in a process of its own.
"""

import subprocess
import sys
import warnings
from pathlib import Path

import pytest
import torch
import triton_cases as cases

from attest.adapters.triton.interpreter import repair

repair()
WITHOUT_REPAIR = """
import sys; sys.path.insert(0, {tests!r})
import torch, triton_cases as cases
a, b = (cases.drawn(32, 32, seed=s) for s in (1, 2))
c = torch.empty(32, 32)
cases.product_by_default[(1,)](a, b, c, 32)
print(float((c - a.double() @ b.double()).abs().max()) < 1e-4)
cases.product[(1,)](a.bfloat16(), b.bfloat16(), c, 32, "ieee")
print(float((c - a @ b).abs().max()) > 1e6)
x, y = cases.drawn(512), torch.empty(512, dtype=torch.bfloat16)
cases.copied[(1,)](x, y, 512)
print(bool((y != x.bfloat16()).any()))
"""


def interpreted(code):
    """The code run by a Python of its own that interprets kernels."""
    command = [sys.executable, "-W", "ignore", "-c", code]
    return subprocess.run(command, capture_output=True, text=True, timeout=120)


def test_the_interpreter_is_still_wrong_where_it_is_repaired():
    """Otherwise a repair can go."""
    ran = interpreted(WITHOUT_REPAIR.format(tests=str(Path(__file__).parent)))
    assert ran.stdout.split() == ["True"] * 3, ran.stderr


def test_tf32_is_coarse_and_ieee_is_not():
    a, b = (cases.drawn(64, 64, seed=s) for s in (1, 2))
    exact, off = a.double() @ b.double(), {}
    for precision in ("ieee", "tf32", "tf32x3"):
        c = torch.empty(64, 64)
        cases.product[(1,)](a, b, c, 64, precision)
        off[precision] = float((c - exact).abs().max())
    assert off["ieee"] < 2e-5 > off["tf32x3"]
    assert 1e-3 < off["tf32"] < 3e-2
    c = torch.empty(64, 64)
    cases.product_by_default[(1,)](a, b, c, 64)
    assert float((c - exact).abs().max()) == off["tf32"]


def test_a_product_of_bfloat16_multiplies_numbers():
    a, b = (cases.drawn(64, 64, dtype=torch.bfloat16, seed=s) for s in (1, 2))
    c = torch.empty(64, 64)
    cases.product[(1,)](a, b, c, 64, "ieee")
    assert float((c - a.double() @ b.double()).abs().max()) < 2e-5


@pytest.mark.parametrize("kernel", ["copied", "towards_zero"])
def test_float32_becomes_bfloat16_as_on_a_gpu(kernel):
    x = cases.drawn(4096) * torch.logspace(-42, 38, 4096)
    x[:6] = torch.tensor([torch.inf, -torch.inf, torch.nan, 3.4e38, 1.00390625, 1.01171875])
    y = torch.empty(4096, dtype=torch.bfloat16)
    getattr(cases, kernel)[(1,)](x, y, 4096)
    kept = x.view(torch.int32) & ~0xFFFF
    wanted = x.bfloat16() if kernel == "copied" else kept.view(torch.float32).bfloat16()
    assert y[2].isnan()
    y[2] = wanted[2] = 0
    assert torch.equal(y.view(torch.int16), wanted.view(torch.int16))
    assert kernel != "copied" or y[4:6].tolist() == [1.0, 1.015625], "ties go to even"


@pytest.mark.parametrize("dtype", ["int32", "float16", "float64"])
def test_bfloat16_and_other_types(dtype):
    x = (100 * cases.drawn(64)).to(getattr(torch, dtype))
    y = torch.empty(64, dtype=torch.bfloat16)
    cases.copied[(1,)](x, y, 64)
    assert torch.equal(y, x.to(torch.bfloat16))
    back = torch.empty(64, dtype=x.dtype)
    cases.copied[(1,)](y, back, 64)
    assert torch.equal(back, y.to(x.dtype))


def test_sums_and_comparisons_of_bfloat16():
    x, y = (cases.drawn(64, dtype=torch.bfloat16, seed=s) for s in (1, 2))
    z, s = torch.empty_like(x), torch.empty(1)
    cases.arithmetic[(1,)](x, y, z, 64)
    assert torch.equal(z, torch.where(x < y, x + y, -x * y) + 1.5)
    cases.total[(1,)](x, s, 64)
    halves = x
    while len(halves) > 1:
        halves = halves[: len(halves) // 2] + halves[len(halves) // 2 :]
    assert float(s) == float(halves)


def test_the_smaller_of_a_number_and_nan_is_the_number():
    x, y = torch.tensor([1.0, torch.nan, 3.0, 4.0]), torch.tensor([2.0, 2.0, torch.nan, 1.0])
    z = torch.empty(4)
    cases.smaller[(1,)](x, y, z, 4)
    assert z.tolist() == [1.0, 2.0, 3.0, 1.0]


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_libdevice(dtype):
    x = cases.drawn(64, dtype=getattr(torch, dtype)).abs() + 0.1
    y = torch.empty_like(x)
    cases.by_libdevice[(1,)](x, y, 64)
    assert torch.allclose(y, x.tanh() + x.erf() + x.rsqrt() ** x, rtol=1e-6 if dtype == "float32" else 1e-14)


def test_comparisons_become_numbers_before_they_are_counted():
    x, y = torch.tensor([3, 4, 0, 5]), torch.zeros(4, dtype=torch.int64)
    cases.counted[(1,)](x, y, 4)
    assert y.tolist() == [1, 2, 2, 3]


def test_a_function_that_is_unknown_is_named():
    x = torch.ones(4)
    with pytest.raises(Exception, match=r"libdevice's __nv_cyl_bessel_i0f is unknown to the interpreter"):
        cases.unknown_function[(1,)](x, x.clone(), 4)


@pytest.mark.parametrize(("load", "store", "word"), [(True, False, "writes"), (False, True, "reads")])
def test_a_missing_mask_is_found(load, store, word):
    x, y = torch.ones(100), torch.zeros(100)
    cases.doubled[(1,)](x, y, 100, True, True, 128)
    assert y.tolist() == [2.0] * 100
    with pytest.raises(Exception, match=rf"the kernel {word} 28 of 128 elements outside of the tensors"):
        cases.doubled[(1,)](x, y, 100, load, store, 128)


def test_a_view_may_be_read_up_to_the_end_of_its_storage():
    x = torch.arange(256.0)
    y = torch.zeros(128)
    cases.doubled[(1,)](x[100:], y, 100, False, True, 128)
    assert y[:100].tolist() == [2.0 * i for i in range(100, 200)]


def test_numbers_that_overflow_do_not_warn():
    x, y = torch.tensor([0.0, 1.0, -1.0, torch.inf]), torch.empty(4)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        cases.logarithms[(1,)](x, y, 4)
    assert y[1] == 1.0


def test_programs_in_random_order_show_what_depends_on_it():
    code = (
        f"import sys; sys.path.insert(0, {str(Path(__file__).parent)!r})\n"
        "import torch, triton_cases as cases\n"
        "from attest.adapters.triton import interpreter\n"
        "interpreter.repair(); interpreter.run_programs_in_random_order(0)\n"
        "x = cases.drawn(64); sums = set()\n"
        "for _ in range(8):\n"
        "    y = torch.zeros(1); cases.added_by_all[(64,)](x, y); sums.add(float(y))\n"
        "print(len(sums) > 1, max(sums) - min(sums) < 1e-4)"
    )
    ran = interpreted(code)
    assert ran.stdout.split() == ["True", "True"], ran.stderr
