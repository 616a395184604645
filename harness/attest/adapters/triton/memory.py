"""Which memory a kernel was given, and whether it stays inside."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np

from attest.contract import Array


def tensors_in(arguments: Iterable[Any]) -> Iterator[Any]:
    """The tensors among a kernel's arguments, those inside of tuples, wrappers and descriptors too."""
    for argument in arguments:
        if isinstance(argument, tuple):
            yield from tensors_in(argument)
        elif hasattr(argument, "untyped_storage"):
            yield argument
        elif hasattr(argument, "base"):
            yield from tensors_in((argument.base,))


class Memory:
    """The storages of the tensors that the running kernel was given."""

    def __init__(self) -> None:
        self._ranges: Array | None = None

    @contextmanager
    def watched(self) -> Iterator[None]:
        """While a kernel is launched; what it was given then is forgotten afterwards."""
        before = self._ranges
        try:
            yield
        finally:
            self._ranges = before

    def give(self, tensors: Iterable[Any]) -> None:
        """The pointers of the kernel must lie in these tensors' storages."""
        merged: list[list[int]] = []
        for storage in sorted((t.untyped_storage() for t in tensors), key=lambda s: int(s.data_ptr())):
            start, end = storage.data_ptr(), storage.data_ptr() + storage.nbytes()
            if merged and start < merged[-1][1]:
                merged[-1][1] = max(merged[-1][1], end)
            else:
                merged.append([start, end])
        self._ranges = np.array(merged, np.uint64).reshape(-1, 2)

    def check(self, pointers: Any, mask: Any, what: str) -> None:
        """IndexError where a pointer that the mask lets through lies elsewhere."""
        if self._ranges is None:
            return
        size = pointers.get_element_ty().primitive_bitwidth // 8 or 1
        used = np.broadcast_to(pointers.data, np.broadcast_shapes(pointers.data.shape, mask.data.shape))
        used = used[np.broadcast_to(mask.data, used.shape).astype(bool)].astype(np.uint64)
        starts, ends = self._ranges.T
        place = np.searchsorted(starts, used, side="right").astype(np.int64) - 1
        outside = place < 0
        if len(starts):
            outside |= used + np.uint64(size) > ends[place]
        if outside.any():
            raise IndexError(
                f"the kernel {what} {int(outside.sum())} of {used.size} elements outside of the tensors "
                "that it was given; mask them"
            )
