"""Kernels of one graph in one file. They are written by hand here; in a graph inductor writes them."""

from __future__ import annotations

import warnings
from uuid import uuid4

import pytest

torch = pytest.importorskip("torch")

from attest.contract import Config  # noqa: E402
from attest_impls.compiled import Compiled, compiling, cpu, private_torch  # noqa: E402

if not private_torch.is_known():
    pytest.skip("kernels.py is for another version of torch", allow_module_level=True)

with warnings.catch_warnings(action="ignore"):  # torch's own imports warn of what torch deprecates
    from torch._inductor.async_compile import AsyncCompile
    from torch._inductor.codegen.cpp import CppScheduling

    from attest_impls.compiled.cpu import kernels

pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning")


def waiting(*factors: int, text: str = "") -> list[kernels.Kernel]:
    """As inductor declares them: y = x + factor * n, with a text that no earlier run has compiled."""
    text = text or uuid4().hex
    made: list[kernels.Kernel] = []
    for factor in factors:
        body = f"{{ y[0] = x[0] + {factor} * n; }}  // {text}"
        source = f'extern "C" void kernel(const float* x, float* y, const int64_t n)\n{body}\n'
        made.append(kernels.Kernel(source, (), made))
    return made


def value(function, n: int) -> float:
    x, y = torch.tensor([10.0]), torch.zeros(1)
    function(x, y, n)
    return y.item()


def shifted(module: torch.nn.Module, x: torch.Tensor) -> torch.Tensor:
    return x.softmax(-1) + module.bias


def test_a_graph_takes_its_kernels_from_here(monkeypatch) -> None:
    monkeypatch.setattr(kernels, "_loaded", {})
    x, module = torch.randn(3, 4), torch.nn.Linear(2, 4)
    with torch.no_grad():
        seen = compiling.compiled(shifted, compiling.Report())(module, x)
        torch.testing.assert_close(seen, shifted(module, x))
    assert kernels._loaded


def chained(module: torch.nn.Module, *x: torch.Tensor) -> torch.Tensor:
    y = module.weight
    for one in x:
        y = (y + one).softmax(-1)
    return y


def test_a_long_stretch_is_cut_into_kernels_of_few_arguments(monkeypatch) -> None:
    monkeypatch.setattr(kernels, "_loaded", {})
    x, module = [torch.randn(4, 4) for _ in range(20)], torch.nn.Linear(4, 4)
    with torch.no_grad():
        seen = compiling.compiled(chained, compiling.Report())(module, *x)
        torch.testing.assert_close(seen, chained(module, *x))
    assert len(kernels._loaded) > 1


def test_what_waits_is_compiled_together_and_each_does_its_own() -> None:
    functions = [kernel.result() for kernel in list(waiting(2, 3, 2))]
    assert [value(function, 4) for function in functions] == [18.0, 22.0, 18.0]
    assert len({function.__self__.__file__ for function in functions}) == 1


def test_a_later_graph_finds_a_kernel_by_its_text(monkeypatch) -> None:
    text = uuid4().hex
    waiting(5, 6, text=text)[0].result()
    monkeypatch.setattr(kernels, "_loaded", {})  # as in another process
    monkeypatch.setattr(kernels, "_compile", lambda missing: pytest.fail(f"{len(missing)} compiled again"))
    assert value(waiting(6, text=text)[0].result(), 1) == 16.0


def test_only_what_is_missing_is_compiled(monkeypatch) -> None:
    text = uuid4().hex
    waiting(5, text=text)[0].result()
    own, compiled = kernels._compile, []
    monkeypatch.setattr(kernels, "_compile", lambda missing: (compiled.extend(missing), own(missing)))
    known, new = list(waiting(5, 6, text=text))
    assert value(known.result(), 1) == 15.0
    assert [kernel.name for kernel in compiled] == [new.name]


def test_another_setting_is_another_kernel() -> None:
    [kernel] = waiting(5)
    assert kernels.Kernel(kernel.source, (("cpp.min_chunk_size", 1),), []).name != kernel.name


def test_a_file_that_is_gone_is_made_again(tmp_path) -> None:
    [kernel] = waiting(7)
    kernel.note.parent.mkdir(exist_ok=True)
    kernel.note.write_text(str(tmp_path / "gone.so"), encoding="utf-8")
    assert value(kernel.result(), 1) == 17.0


def test_a_wrong_number_of_arguments_is_refused() -> None:
    with pytest.raises(RuntimeError, match="another number of arguments"):
        waiting(8)[0].result()(torch.zeros(1))


def test_what_is_no_number_is_refused() -> None:
    with pytest.raises(TypeError, match="integer"):
        waiting(8)[0].result()(torch.zeros(1), torch.zeros(1), "4")


def test_inductor_has_its_own_way_back_after_a_graph_and_after_an_error() -> None:
    own = AsyncCompile.cpp_pybinding, CppScheduling.MAX_FUSED_KERNEL_ARGS_NUM
    with kernels.in_one_file(()):
        assert AsyncCompile.cpp_pybinding is not own[0]
        assert own[1] > CppScheduling.MAX_FUSED_KERNEL_ARGS_NUM
    with pytest.raises(ZeroDivisionError), kernels.in_one_file(()):
        raise ZeroDivisionError
    assert (AsyncCompile.cpp_pybinding, CppScheduling.MAX_FUSED_KERNEL_ARGS_NUM) == own


def test_with_one_compiling_thread_inductor_does_it_itself(monkeypatch) -> None:
    monkeypatch.setattr("torch._inductor.async_compile.get_compile_threads", lambda: 1)
    own = AsyncCompile.cpp_pybinding
    with kernels.in_one_file(()):
        assert AsyncCompile.cpp_pybinding is own


def test_another_version_of_torch_does_it_itself(monkeypatch) -> None:
    monkeypatch.setattr(torch, "__version__", "2.12.1")
    assert not cpu.in_one_file(cpu.ON)
    assert not cpu.single_steps(cpu.ON, torch.zeros(1))


def test_what_is_for_the_processor_is_on_where_it_was_measured_to_help(monkeypatch) -> None:
    weight = torch.zeros(1)
    monkeypatch.setattr(torch.backends.cpu, "get_cpu_capability", lambda: "DEFAULT")
    assert not cpu.single_steps(cpu.AUTO, weight)
    assert cpu.single_steps(cpu.ON, weight)
    monkeypatch.setattr(torch.backends.cpu, "get_cpu_capability", lambda: "AVX2")
    assert cpu.single_steps(cpu.AUTO, weight)
    assert not cpu.single_steps(cpu.OFF, weight)
    assert not cpu.in_one_file(cpu.OFF)


def test_an_unknown_choice_is_refused() -> None:
    with pytest.raises(ValueError, match="cpu_kernels='fast' is unknown; choose one of auto, on, off"):
        Compiled().layer_norm(Config(options=(("cpu_kernels", "fast"),)))
