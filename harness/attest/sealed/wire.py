"""What crosses between the process that judges and the one that is judged: JSON, and arrays in shared memory.

An array is its bytes (the whole stretch of memory that its strides reach) and a description. Both sides have
memory of their own: the shared memory holds bytes on their way, never an array that anybody computes with.
"""

from __future__ import annotations

import ctypes
import json
import mmap
import os
import re
import struct
from typing import Any

import numpy as np
import numpy.typing as npt

Bytes = npt.NDArray[np.uint8]
HALF = 2**30  # bytes of shared memory for each direction; only what is used takes room
MOST_TEXT = 2**26  # bytes of one message
READ_AT_ONCE = 2**16  # a message and its length in one system call
DTYPE = re.compile(r"[<>|=][fiubcSUVMm]\d+(\[\w+\])?")
SHORT = 2**12  # bytes up to which copies as bytes are compared sooner than arrays: 0.1 us, not 0.9
_LENGTH = struct.Struct("<I")
# json.dumps with separators makes an encoder for every message. What is written is a tree.
_written = json.JSONEncoder(separators=(",", ":"), check_circular=False).encode


class Malformed(Exception):
    """A message that nobody who keeps to the rules would send."""


class Gone(Exception):
    """The other side has closed its end."""


class Arena:
    """Shared memory in two halves. Each side writes into its own and starts again with every question."""

    def __init__(self, descriptor: int, half: int) -> None:
        self._memory = mmap.mmap(descriptor, 2 * HALF)
        self._bytes = np.frombuffer(self._memory, np.uint8)
        self._start, self._end = half * HALF, (half + 1) * HALF
        self._next = self._start

    def reset(self) -> None:
        """Forget what was written; where it was much, give the memory back."""
        if self._next - self._start > 2**26 and hasattr(mmap, "MADV_REMOVE"):
            self._memory.madvise(mmap.MADV_REMOVE, self._start, HALF)
        self._next = self._start

    def put(self, raw: Bytes) -> list[int]:
        """Copy these bytes in; where they are and how many."""
        at, end = self._next, self._next + raw.size
        if end > self._end:
            raise MemoryError("an array is larger than the memory that a sealed run shares")
        self._bytes[at:end] = raw
        self._next = -(-end // 64) * 64
        return [at, raw.size]

    def look(self, at: int, size: int) -> Bytes:
        """The bytes themselves, not a copy."""
        if not (isinstance(at, int) and isinstance(size, int) and 0 <= at <= at + size <= 2 * HALF):
            raise Malformed(f"{at}, {size} is no place in the shared memory")
        return self._bytes[at : at + size]


class Pipe:
    """Messages over two file descriptors, each after its length."""

    def __init__(self, reading: int, writing: int) -> None:
        self.reading, self.writing = reading, writing
        self._unread = b""

    def send(self, message: Any) -> None:
        """One message."""
        text = _written(message).encode()
        data = memoryview(_LENGTH.pack(len(text)) + text)
        while data:
            try:
                data = data[os.write(self.writing, data) :]
            except BrokenPipeError:
                raise Gone from None

    def receive(self) -> Any:
        """The next message."""
        (length,) = _LENGTH.unpack(self._exactly(_LENGTH.size))
        if length > MOST_TEXT:
            raise Malformed(f"a message of {length} bytes")
        try:
            return json.loads(self._exactly(length))
        except (ValueError, RecursionError) as error:
            raise Malformed("a message that is no JSON") from error

    def _exactly(self, count: int) -> bytes:
        while len(self._unread) < count:
            part = os.read(self.reading, max(READ_AT_ONCE, count - len(self._unread)))
            if not part:
                raise Gone
            self._unread += part
        data, self._unread = self._unread[:count], self._unread[count:]
        return data

    def close(self) -> None:
        """Both ends."""
        for descriptor in (self.reading, self.writing):
            os.close(descriptor)


def address(array: npt.NDArray[Any]) -> int:
    """Of the first element; quicker than `array.ctypes.data`."""
    return int(array.__array_interface__["data"][0])


def stretch(array: npt.NDArray[Any]) -> tuple[Bytes, int]:
    """All bytes from the first to the last that an array reaches, and where its first element is in them."""
    if array.flags.c_contiguous:
        return array.reshape(-1).view(np.uint8), 0
    reach = [stride * (size - 1) for size, stride in zip(array.shape, array.strides)]
    below = sum(r for r in reach if r < 0)
    size = sum(r for r in reach if r > 0) - below + array.itemsize
    held = (ctypes.c_ubyte * size).from_address(address(array) + below)
    return np.frombuffer(held, np.uint8), -below


def copied(raw: Bytes, alignment: int) -> Bytes:
    """A copy that starts where the address modulo 64 is the same: kernels then take the same path."""
    space = np.empty(raw.size + 64, np.uint8)
    start = (alignment - address(space)) % 64
    copy = space[start : start + raw.size]
    copy[:] = raw
    return copy


def described(array: npt.NDArray[Any], first: int) -> list[Any]:
    """dtype, shape, strides, place of the first element, alignment, and whether it may be written."""
    strides = None if array.flags.c_contiguous else list(array.strides)
    alignment = (address(array) - first) % 64
    return [array.dtype.str, list(array.shape), strides, first, alignment, array.flags.writeable]


def rebuilt(description: list[Any], raw: Bytes) -> npt.NDArray[Any]:
    """The array of this description over these bytes. numpy refuses what reaches beyond them."""
    dtype, shape, strides, first, _, writeable = description
    if not DTYPE.fullmatch(dtype):
        raise Malformed(f"dtype {dtype!r:.40}")
    array: npt.NDArray[Any] = np.ndarray(
        tuple(shape), dtype, buffer=raw, offset=first, strides=None if strides is None else tuple(strides)
    )
    if not writeable:
        array.flags.writeable = False
    return array
