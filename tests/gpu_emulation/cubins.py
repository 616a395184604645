"""The kernels that inductor wrote, compiled for a GPU that is not there.

    python -m gpu_emulation.cubins FILE sm_80

FILE holds a JSON object of sources by name. Prints a JSON list, one entry a kernel: the largest figures over
the configurations between which a GPU would choose. Not interpreted, so in a process of its own.
"""

import io
import json
import os
import re
import sys
import tempfile
from contextlib import redirect_stdout
from pathlib import Path

os.environ.pop("TRITON_INTERPRET", None)
os.environ["TORCHINDUCTOR_COMPILE_THREADS"] = "1"
os.environ["TRITON_ALWAYS_COMPILE"] = "1"  # a kernel that was compiled before has no log of ptxas
ROOM = tempfile.mkdtemp()
os.environ["TRITON_CACHE_DIR"] = os.environ["TORCHINDUCTOR_CACHE_DIR"] = ROOM

import torch  # noqa: E402
import torch._inductor.config as settings  # noqa: E402
import triton  # noqa: E402
from torch._dynamo import device_interface  # noqa: E402
from torch._inductor.codecache import PyCodeCache  # noqa: E402
from torch._inductor.runtime import triton_helpers, triton_heuristics  # noqa: E402
from triton.backends.compiler import GPUTarget  # noqa: E402
from triton.runtime.driver import driver  # noqa: E402

from attest.adapters.triton.ahead_of_time import read  # noqa: E402


class Driver:
    """What the compiler asks of a driver."""

    def __init__(self, capability):
        self.capability = capability

    def get_current_target(self):
        return GPUTarget("cuda", self.capability, 32)

    def get_active_torch_device(self):
        return torch.device("cpu")

    def get_current_device(self):
        return 0

    def get_current_stream(self, number=None):
        return 0

    def get_device_capability(self, number=None):
        return divmod(self.capability, 10)

    def map_python_to_cpp_type(self, kind):
        return kind


class Interface(device_interface.CudaInterface):
    """A device that is asked for nothing."""

    current_device = staticmethod(lambda: 0)
    get_device_properties = staticmethod(lambda device=None: None)
    synchronize = staticmethod(lambda device=None: None)
    is_available = staticmethod(lambda: True)
    exchange_device = maybe_exchange_device = staticmethod(lambda device: 0)


def install(capability):
    driver.set_active(Driver(capability))
    triton_helpers.set_driver_to_gpu = lambda: None
    for name in ("use_static_triton_launcher", "use_static_cuda_launcher"):
        if hasattr(settings, name):
            setattr(settings, name, False)
    device_interface.register_interface_for_device("cuda", Interface)
    triton_heuristics.CachingAutotuner.get_device_interface = lambda self: Interface
    triton.knobs.nvidia.dump_ptxas_log = True  # it says registers and spills


def compiled(name, source, target):
    """The largest figures of one kernel over its configurations."""
    capability = int(target.removeprefix("sm_"))
    source = re.sub(r"cc=\d+, major=\d+", f"cc={capability}, major={capability // 10}", source)
    log = io.StringIO()
    try:
        with redirect_stdout(log):
            tuner = getattr(PyCodeCache.load(source), re.search(r"^def (triton_\w+)\(", source, re.M)[1])
            tuner._precompile_worker()
        kernels = [result.kernel for result in tuner.compile_results]
        ptx = "\n".join(kernel.asm["ptx"] for kernel in kernels)
        logs = log.getvalue().split("Compiling entry function")[1:]
        each = [
            read(name, target, kernel.asm["ptx"], text, kernel.metadata.shared)
            for kernel, text in zip(kernels, logs, strict=True)
        ]
    except Exception as error:
        return {"name": name, "target": target, "error": f"{type(error).__name__}: {str(error)[:200]}"}
    return {
        "name": name,
        "target": target,
        "configurations": len(each),
        "registers": max(k.registers for k in each),
        "stack": max(k.stack for k in each),
        "shared": max(k.shared for k in each),
        "tf32": ".tf32" in ptx,
        "atomics": max(k.atomics for k in each),
        "error": "",
    }


if __name__ == "__main__":
    file, target = sys.argv[1:]
    install(int(target.removeprefix("sm_")))
    sources = json.loads(Path(file).read_text())
    print(json.dumps([compiled(name, source, target) for name, source in sorted(sources.items())]))
    sys.stdout.flush()
    os._exit(0)
