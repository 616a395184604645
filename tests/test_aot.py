"""`attest aot`: kernels compiled for GPUs that are not there, and sentences for wrong files."""

import json
from importlib.metadata import PackageNotFoundError, version

import pytest

from attest.adapters.triton.ahead_of_time import read
from attest.adapters.triton.versions import TRITON

try:
    FOUND = version("triton")
except PackageNotFoundError:
    FOUND = "no version"
needs_triton = pytest.mark.skipif(FOUND != TRITON, reason=f"needs triton=={TRITON}, {FOUND} is installed")
KERNELS = """
import triton, triton.language as tl

@triton.jit
def product(A, B, C, n, N: tl.constexpr, PRECISION: tl.constexpr):
    i = tl.arange(0, N)
    places = i[:, None] * n + i[None, :]
    c = tl.dot(tl.load(A + places), tl.load(B + places), input_precision=PRECISION)
    tl.store(C + places, c)

@triton.jit
def total(X, Y, N: tl.constexpr):
    tl.atomic_add(Y, tl.sum(tl.load(X + tl.program_id(0) * N + tl.arange(0, N)), 0))

OUTSIDE = 3

@triton.jit
def wrong(X, N: tl.constexpr):
    tl.store(X + tl.arange(0, N), OUTSIDE)

POINTERS = {"A": "*fp32", "B": "*fp32", "C": "*fp32", "n": "i32:16"}
"""
LOG = """ptxas info    : Compiling entry function 'f' for 'sm_80'
ptxas info    : Function properties for f
    3080 bytes stack frame, 3324 bytes spill stores, 4460 bytes spill loads
ptxas info    : Used 64 registers, used 1 barriers, 3080 bytes cumulative stack size
"""
PTX = """
mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32 { %r1 }, { %r2 }, { %r3 };
@%p1 red.global.add.f32 [%rd1], %f1;
atom.global.gpu.acq_rel.add.f32 %f2, [%rd2], %f3;
// red herring
"""


@pytest.fixture
def declaring(tmp_path):
    """A file with the kernels above and this list."""

    def write(text, kernels=KERNELS):
        file = tmp_path / "kernels.py"
        file.write_text(f"{kernels}\n{text}\n")
        return str(file)

    return write


def test_registers_spills_tf32_and_atomics_are_read():
    found = read("f", "sm_80", PTX, LOG, 28800)
    assert (found.registers, found.stack, found.spill_stores, found.spill_loads) == (64, 3080, 3324, 4460)
    assert (found.shared, found.tf32, found.atomics) == (28800, True, 2)
    assert found.products == ("mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32",)
    with pytest.raises(RuntimeError, match="ptxas did not say"):
        read("f", "sm_80", PTX, "nothing", 0)


@needs_triton
def test_a_table_and_json(attest, declaring, tmp_path):
    file = declaring(
        "ATTEST_AOT = [{'kernel': product, 'name': f'product {p}', 'arguments': POINTERS,"
        " 'constants': {'N': 16, 'PRECISION': p}, 'num_warps': 1} for p in ('ieee', 'tf32')]"
        " + [{'kernel': total, 'arguments': {'X': '*fp32', 'Y': '*fp32'}, 'constants': {'N': 64}}]"
    )
    code, out, err = attest("aot", file, "--target", "sm_80", "--keep", str(tmp_path / "code"))
    assert (code, err) == (0, "")
    head, *rows = (line.split() for line in out.splitlines())
    assert head == ["kernel", "target", "registers", "stack", "spills", "shared", "tf32", "atomics"]
    assert [row[0] for row in rows] == ["product", "product", "total"]
    assert [row[-2:] for row in rows] == [["no", "0"], ["yes", "0"], ["no", "1"]]
    assert all(int(row[-6]) > 0 for row in rows), "registers"
    kept = {path.name: path.stat().st_size for path in (tmp_path / "code").iterdir()}
    assert {"product_tf32_sm_80.ptx", "product_tf32_sm_80.cubin", "total_sm_80.cubin"} <= set(kept)
    assert min(kept.values()) > 500


@needs_triton
def test_json_has_what_the_table_has(attest, declaring):
    file = declaring("ATTEST_AOT = [{'kernel': total, 'arguments': {'X': '*fp32', 'Y': '*fp32'},"
                     " 'constants': {'N': 64}}]")  # fmt: skip
    code, out, _ = attest("aot", file, "--json", "-t", "sm_90")
    (kernel,) = json.loads(out)["kernels"]
    assert code == 0
    assert (kernel["name"], kernel["target"], kernel["atomics"], kernel["tf32"]) == (
        "total",
        "sm_90",
        1,
        False,
    )


@needs_triton
def test_a_kernel_that_cannot_be_compiled_says_why(attest, declaring):
    file = declaring("ATTEST_AOT = [{'kernel': wrong, 'arguments': {'X': '*i32'}, 'constants': {'N': 16}}]")
    code, out, err = attest("aot", file, "-t", "sm_80")
    assert (code, err) == (1, "")
    assert 'wrong for sm_80 cannot be compiled: CompilationError: NameError("Cannot access global' in out


@needs_triton
@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("", "declares no kernel; give it ATTEST_AOT, a list of dictionaries with kernel, arguments, const"),
        ("ATTEST_AOT = [3]", "ATTEST_AOT[0] is a int; give a dictionary with kernel, arguments, constants"),
        ("ATTEST_AOT = [{'kernl': wrong}]", "ATTEST_AOT[0] has 'kernl'; did you mean kernel?"),
        ("ATTEST_AOT = [{'kernel': wrong}]", "ATTEST_AOT[0] has no 'arguments'; a signature needs"),
        (
            "ATTEST_AOT = [{'kernel': print, 'arguments': {}, 'constants': {}}]",
            "is no kernel; give a function under @triton.jit",
        ),
        (
            "ATTEST_AOT = [{'kernel': wrong, 'arguments': {'Y': '*i32'}, 'constants': {}}]",
            "ATTEST_AOT[0] names 'Y', no parameter of the kernel; use one of X, N",
        ),
        (
            "ATTEST_AOT = [{'kernel': wrong, 'arguments': {'X': '*i32'}, 'constants': {}}]",
            "ATTEST_AOT[0] has 'N' not at all; put it into 'arguments' or into 'constants'",
        ),
        (
            "ATTEST_AOT = [{'kernel': wrong, 'arguments': {'X': 'float'}, 'constants': {'N': 16}}]",
            "argument 'X' has the type 'float'; use one of i1, i8,",
        ),
        (
            "ATTEST_AOT = [{'kernel': wrong, 'arguments': {'X': '*i32'}, 'constants': {'N': 4},"
            " 'num_warps': 3}]",
            "has num_warps=3; use one of 1, 2, 4, 8, 16, 32",
        ),
        (
            "ATTEST_AOT = 2 * [{'kernel': wrong, 'arguments': {'X': '*i32'}, 'constants': {'N': 4}}]",
            "two entries of ATTEST_AOT are named 'wrong'; give each its own 'name'",
        ),
    ],
)  # fmt: skip
def test_a_wrong_signature_is_one_sentence(attest, declaring, text, sentence):
    code, out, err = attest("aot", declaring(text))
    assert (code, out) == (2, "")
    assert sentence in err
    assert err.count("\n") == 1


@needs_triton
def test_a_file_that_asks_for_the_interpreter_is_refused(attest, declaring, monkeypatch):
    monkeypatch.setenv("TRITON_INTERPRET", "1")  # of the environment it does not matter
    asks = "import os; os.environ['TRITON_INTERPRET'] = '1'\n"
    text = "ATTEST_AOT = [{'kernel': wrong, 'arguments': {'X': '*i32'}, 'constants': {'N': 16}}]"
    code, _, err = attest("aot", declaring(text, asks + KERNELS))
    assert code == 2
    assert "its file sets TRITON_INTERPRET, so nothing can be compiled; set it outside of the file" in err


@pytest.mark.parametrize("words", [["missing.py"], ["."], ["-t", "sm_81", __file__]])
def test_wrong_words_are_refused(attest, words):
    code, out, err = attest("aot", *words)
    assert (code, out, err.count("\n")) == (2, "", 1)


def test_without_triton_the_remedy_is_named(attest, declaring, monkeypatch):
    from attest.adapters.triton import versions

    def missing(name):
        raise PackageNotFoundError(name)

    monkeypatch.setattr(versions, "version", missing)
    code, out, err = attest("aot", declaring(""))
    assert (code, out) == (2, "")
    assert err == (
        "Error: triton is not installed and compilation ahead of time needs it; "
        "install triton==3.7.1 (pip install 'attest-transformers[triton]')\n"
    )
