"""Whether a torch component makes everything on the device of its inputs, found out without such a device.

Fake CUDA tensors have a shape and a device and hold no numbers; autograd has no thread for a device that is
not there, so gradients are left out. The meta device has them. Where code reads a number off a tensor (a
check of ids, a stop flag) it gets 1.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from copy import deepcopy
from typing import Any

import torch
from torch import nn
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.overrides import TorchFunctionMode
from torch.utils._pytree import tree_map_only

from attest.contract import Config

FAKE = "cuda:0"


_READING = {
    torch.Tensor.__bool__: True,
    torch.Tensor.__int__: 1,
    torch.Tensor.__index__: 1,
    torch.Tensor.__float__: 1.0,
    torch.Tensor.item: 1,
}


class _EveryNumberIsOne(TorchFunctionMode):  # type: ignore[misc]
    def __torch_function__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: Mapping[str, Any] | None = None
    ) -> Any:
        if func in _READING:
            return _READING[func]
        if func in _GUARDED and args[0].is_cuda:
            return _GUARDED[func](*args, **(kwargs or {}))
        return func(*args, **(kwargs or {}))


def _indexed(x: Any, index: Any) -> Any:
    """x[index]: as much space on the same device."""
    places = tree_map_only(torch.Tensor, lambda i: torch.zeros_like(i, device="meta"), index)
    return x.new_empty(torch.empty_like(x, device="meta")[places].shape)


def _assigned(x: Any, index: Any, value: Any) -> None:
    """x[index] = value; an assignment may come from anywhere, and must fit."""
    torch.broadcast_to(torch.as_tensor(value), _indexed(x, index).shape)


def _copied(x: Any, value: Any, non_blocking: bool = False) -> Any:
    torch.broadcast_to(value, x.shape)
    return x


def _contiguous(x: Any, memory_format: Any = torch.contiguous_format) -> Any:
    return x if x.is_contiguous(memory_format=memory_format) else x.clone(memory_format=memory_format)


# What torch built without CUDA refuses on a fake tensor: here the Python binding asks for the device itself.
_GUARDED: dict[Any, Any] = {
    torch.Tensor.__getitem__: _indexed,
    torch.Tensor.__setitem__: _assigned,
    torch.Tensor.copy_: _copied,
    torch.Tensor.contiguous: _contiguous,
    torch.Tensor.__invert__: torch.bitwise_not,
}


@contextmanager
def without_numbers() -> Iterator[None]:
    """Code runs as written, compiled functions too, on tensors that may hold no numbers."""
    with torch.compiler.set_stance("force_eager"), _EveryNumberIsOne():
        yield


@contextmanager
def on_fake_cuda(*components: Any) -> Iterator[list[Any]]:
    """Copies of torch components whose parameters and buffers are fake CUDA tensors."""
    mode = FakeTensorMode(allow_non_fake_inputs=True)
    copies = [deepcopy(component) for component in components]
    with mode, without_numbers(), torch.no_grad():
        for copy in copies:
            _move(copy.module, mode)
            copy.config = copy.config.but(device=FAKE)
        yield copies


def is_torch(component: Any) -> bool:
    """Whether a component has what is needed: a module, and the config that says where inputs go."""
    held = isinstance(getattr(component, "module", None), nn.Module)
    return held and isinstance(getattr(component, "config", None), Config)


def _move(module: nn.Module, mode: FakeTensorMode) -> None:
    """Each tensor once, so that what was shared stays shared."""
    moved: dict[int, Any] = {}
    for part in module.modules():
        for name, value in part._parameters.items():
            if value is not None:
                fake = moved.setdefault(id(value), nn.Parameter(mode.from_tensor(value.data).to(FAKE)))
                part._parameters[name] = fake
        for name, value in part._buffers.items():
            if value is not None:
                part._buffers[name] = moved.setdefault(id(value), mode.from_tensor(value).to(FAKE))
