"""The versions whose private interfaces the emulated device uses; another is refused in one sentence."""

from importlib.metadata import PackageNotFoundError, version

TORCH, TRITON = "2.13.0", "3.7.1"
LINE = "CUDA path run on an emulated device (Triton interpreted; library kernels the CPU's)"


def refusal() -> str:
    """Why the emulated device cannot be used here; empty where it can."""
    for package, wanted in (("torch", TORCH), ("triton", TRITON)):
        try:
            found = version(package)
        except PackageNotFoundError:
            return f"{package} is not installed; the emulated device needs {package}=={wanted}"
        if found.partition("+")[0] != wanted:
            return f"{package}=={found} is installed; the emulated device was written for {package}=={wanted}"
    import torch

    if torch.version.cuda is not None:
        return "torch is built with CUDA; the emulated device needs the build for CPUs"
    try:
        version("ninja")
    except PackageNotFoundError:
        return "ninja is not installed; the emulated device is built with it (pip install ninja)"
    return ""
