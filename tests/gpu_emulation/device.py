"""cuda:0 in the memory of the host: torch.cuda answers as an A100 would, and every operator is the CPU's.

Import it before anything that asks for a device. EMULATED_GPU=9.0 is an H100.
"""

import hashlib
import os
import types
from pathlib import Path

import torch
from torch.utils.cpp_extension import load

from gpu_emulation.versions import LINE, refusal

HERE = Path(__file__).parent
ROOM = Path(os.environ.get("EMULATED_GPU_ROOM", HERE.parents[1] / "reports" / "gpu-emulation" / "room"))
CAPABILITY = tuple(int(part) for part in os.environ.get("EMULATED_GPU", "8.0").split("."))
AMPERE = CAPABILITY < (9, 0)
PROPERTIES = types.SimpleNamespace(
    name="emulated A100" if AMPERE else "emulated H100",
    major=CAPABILITY[0],
    minor=CAPABILITY[1],
    total_memory=40 << 30,
    multi_processor_count=108 if AMPERE else 132,
    warp_size=32,
    regs_per_multiprocessor=65536,
    max_threads_per_multi_processor=2048,
    max_threads_per_block=1024,
    shared_memory_per_block=49152,
    shared_memory_per_block_optin=166912 if AMPERE else 232448,
    shared_memory_per_multiprocessor=167936,
    L2_cache_size=40 << 20,
    gcnArchName="",
    uuid="emulated",
)
ANSWERS = {
    "_lazy_init": lambda: None,
    "is_initialized": lambda: True,
    "is_available": lambda: True,
    "_is_compiled": lambda: True,
    "device_count": lambda: 1,
    "current_device": lambda: 0,
    "set_device": lambda device: None,
    "_exchange_device": lambda device: 0,
    "_maybe_exchange_device": lambda device: 0,
    "synchronize": lambda device=None: None,
    "empty_cache": lambda: None,
    "get_device_properties": lambda device=None: PROPERTIES,
    "get_device_capability": lambda device=None: CAPABILITY,
    "get_device_name": lambda device=None: PROPERTIES.name,
    "is_bf16_supported": lambda including_emulation=True: True,
    "manual_seed": torch.manual_seed,
    "manual_seed_all": lambda seed: None,
    "seed": lambda: None,
    "seed_all": lambda: None,
    "get_rng_state": lambda device=None: torch.get_rng_state(),
    "set_rng_state": lambda state, device=None: torch.set_rng_state(state),
    "memory_allocated": lambda device=None: 0,
    "max_memory_allocated": lambda device=None: 0,
    "reset_peak_memory_stats": lambda device=None: None,
    "mem_get_info": lambda device=None: (30 << 30, 40 << 30),
}


def built():
    """The extension, compiled once for each state of its source."""
    source = HERE / "device.cpp"
    room = ROOM / f"device-{hashlib.sha256(source.read_bytes()).hexdigest()[:12]}"
    room.mkdir(parents=True, exist_ok=True)
    os.environ.setdefault("MAX_JOBS", "1")
    return load("emulated_device", [str(source)], build_directory=str(room), extra_cflags=["-O1"])


if reason := refusal():
    raise RuntimeError(reason)
native = built()
for name, answer in ANSWERS.items():
    setattr(torch.cuda, name, answer)
torch.cuda.emulated = LINE  # reports say it, and what needs a real GPU is not run
for name in ("_cuda_getCurrentRawStream", "_cuda_exchangeDevice", "_cuda_maybeExchangeDevice"):
    setattr(torch._C, name, lambda device: 0)

from gpu_emulation import attention_kernel  # noqa: E402 - it registers operators of the device

assert attention_kernel
