"""inductor for the emulated device: it writes the Triton code that a GPU would get, which is interpreted.

What is emulated besides: a driver, so that nobody looks for a GPU; benchmarks, which find everything equally
fast; and CUDA graphs, see `graphs`. Private names of torch 2.13.0 and Triton 3.7.1. EMULATED_GPU_ORDER is a
number for programs in random order.
"""

import hashlib
import os

os.environ["TRITON_INTERPRET"] = "1"  # read when triton is imported
os.environ["TORCHINDUCTOR_COMPILE_THREADS"] = "1"
from gpu_emulation import device

# A graph that was compiled for another device must not be found: the caches are this tool's own, and off.
os.environ["TORCHINDUCTOR_CACHE_DIR"] = str(device.ROOM / "inductor")
os.environ["TRITON_CACHE_DIR"] = str(device.ROOM / "triton")

import torch
import torch._inductor.config
import triton
from torch._inductor import async_compile, compile_fx
from torch._inductor.runtime import benchmarking, triton_helpers
from triton.backends.compiler import GPUTarget
from triton.runtime import interpreter
from triton.runtime.driver import driver

from attest.adapters.triton.interpreter import repair, run_programs_in_random_order
from gpu_emulation import graphs

torch._inductor.config.force_disable_caches = True
SOURCES: dict[str, str] = {}  # what inductor wrote, by name and hash


class Driver:
    """What inductor and the interpreter ask of a driver."""

    def get_current_target(self):
        return GPUTarget("cuda", device.CAPABILITY[0] * 10 + device.CAPABILITY[1], 32)

    def get_active_torch_device(self):
        return torch.device("cuda", 0)

    def get_current_device(self):
        return 0

    def set_current_device(self, number):
        pass

    def get_current_stream(self, number=None):
        return 0

    def get_device_interface(self):
        return torch.cuda

    def get_device_capability(self, number=None):
        return device.CAPABILITY

    def map_python_to_cpp_type(self, kind):
        return kind

    def get_benchmarker(self):
        return lambda call, **options: (call(), 1.0)[1]

    def get_empty_cache_for_benchmark(self):
        return torch.empty(1)

    def clear_cache(self, cache):
        pass


def on_the_host(x):
    """The tensor's own memory as a CPU tensor: the interpreter would copy every storage there and back."""
    return device.native.on_host(x) if isinstance(x, torch.Tensor) and x.is_cuda else x


def install():
    """From here on torch.compile of what lives on the device is emulated."""
    driver.set_active(Driver())
    executor = interpreter.GridExecutor
    executor._init_args_hst = lambda self, arguments, keywords: (
        [on_the_host(x) for x in arguments],
        {name: on_the_host(x) for name, x in keywords.items()},
    )
    executor._restore_args_dev = lambda self, *arguments: None
    repair()
    torch._C._dynamo.guards._empty_strided_cuda = lambda size, stride, dtype: torch.empty_strided(
        size, stride, dtype=dtype, device="cuda"
    )
    torch._C._cuda_cudaCachingAllocator_is_enabled = lambda: True
    triton_helpers.set_driver_to_gpu = triton_helpers.set_driver_to_cpu = lambda: None
    for found in vars(benchmarking).values():
        if isinstance(found, type) and "benchmark_gpu" in vars(found):
            found.benchmark_gpu = lambda self, *arguments, **options: 1.0
    compile_fx.cudagraphify = graphs.cudagraphify
    torch.compiler.cudagraph_mark_step_begin = graphs.begin_step
    write = async_compile.AsyncCompile.triton

    def noted(self, name, source, device_str="cuda"):
        SOURCES[f"{name}_{hashlib.sha256(source.encode()).hexdigest()[:8]}"] = source
        return write(self, name, source, device_str)

    async_compile.AsyncCompile.triton = noted
    if order := os.environ.get("EMULATED_GPU_ORDER"):
        run_programs_in_random_order(int(order))


install()
assert triton
