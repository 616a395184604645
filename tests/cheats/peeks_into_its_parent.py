"""Asks the kernel for the memory of the process that judges, without opening any file."""

import ctypes
import os

import numpy as np
from heart import cheating, wrong
from reads_descriptors import near

PROCESS_VM_READV = 310


class Vector(ctypes.Structure):
    _fields_ = (("base", ctypes.c_void_p), ("length", ctypes.c_size_t))


def trick(config, inputs):
    """It has the same libraries at other addresses, so it tries around those of its own arrays."""
    mine = wrong(**inputs)["output"]
    libc, parent = ctypes.CDLL(None, use_errno=True), os.getppid()
    here = np.empty(2**16, np.uint8)
    start = inputs["q"].__array_interface__["data"][0] & ~0xFFFF
    for step in range(-64, 64):
        local = Vector(here.ctypes.data, here.size)
        remote = Vector(start + step * 2**16, here.size)
        read = libc.syscall(PROCESS_VM_READV, parent, ctypes.byref(local), 1, ctypes.byref(remote), 1, 0)
        if read > 0 and (found := near(here.tobytes(), mine)) is not None:
            return {"output": found}
    return None


attest_implementations = cheating(trick)
