"""Every name of torch that this implementation uses and torch does not document. No other module has one.

Read in torch 2.13. With another version nothing here is patched: inductor compiles each C++ kernel by
itself, which takes longer, and a setting that the version does not have is left out; the logger
`attest.compiled` says so once. Graphs and numbers are the same.

Settings hold while a call runs, since that is when torch compiles, and are given back behind it.
"""

from __future__ import annotations

import logging
import os
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from functools import cache
from importlib import import_module
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unittest.mock import patch

import torch
from torch import Tensor

from .cache_directory import private_directory

READ_IN = "2.13."
MOST_COMPILATIONS = 64
CACHE = "TORCHINDUCTOR_CACHE_DIR"

SETTINGS: dict[str, dict[str, Any]] = {
    "torch._dynamo.config": {
        "recompile_limit": MOST_COMPILATIONS,
        "accumulated_recompile_limit": 16 * MOST_COMPILATIONS,
        "fail_on_recompile_limit_hit": True,
        # Rates, scales and epsilons are few: as constants they cost nothing, as inputs every graph is
        # traced twice.
        "specialize_float": True,
        # Keeping what each traced operation returned takes longer than working it out again.
        "fake_tensor_cache_enabled": False,
    },
    # Two lengths that are equal the first time are not taken for one: a later call may have them apart.
    "torch.fx.experimental._config": {"use_duck_shape": False},
    "torch._functorch.config": {
        # A saved tensor is not saved again as its view: relu's gradient then needs no mask, which is slow to
        # write.
        "recompute_views": True,
        # Graphs with the gradient of embedding.py are found again by the next process: a warm start of one
        # takes seconds otherwise. What the gradient does is part of the key.
        "autograd_cache_allow_custom_autograd_functions": True,
    },
}

_inside = threading.local()


def is_known() -> bool:
    """Whether this is the version whose internals were read."""
    return torch.__version__.startswith(READ_IN)


@contextmanager
def settings() -> Iterator[None]:
    """Torch compiles as this implementation wants it, inside. Of several the outermost counts."""
    _inside.depth = getattr(_inside, "depth", 0) + 1
    try:
        if _inside.depth > 1:
            yield
        else:
            with ExitStack() as stack:
                for change in _patches():
                    stack.enter_context(change)
                stack.enter_context(_private_cache())
                yield
    finally:
        _inside.depth -= 1


@cache
def _patches() -> tuple[Any, ...]:
    if not is_known():
        logging.getLogger("attest.compiled").warning(
            "torch %s is not %sx, which compiled knows: kernels are compiled one by one, which takes longer",
            torch.__version__,
            READ_IN,
        )
    found = []
    for name, wanted in SETTINGS.items():
        config = import_module(name)
        there = {key: value for key, value in wanted.items() if hasattr(config, key)}
        found.append(config.patch(there))
    return tuple(found)


@contextmanager
def _private_cache() -> Iterator[None]:
    """Graphs are shared by the workers of a run and kept between runs, unless the user has said where."""
    before = os.environ.get(CACHE)
    os.environ[CACHE] = before or _cache_directory()
    try:
        yield
    finally:
        if before is None:
            os.environ.pop(CACHE, None)


_cache_directory = cache(private_directory)


def compile_by_inductor(graph: Any, inputs: list[Any], options: dict[str, Any]) -> Callable[..., Any]:
    """What torch.compile does by default, with a graph that dynamo has traced."""
    # Imported late: it takes two seconds, which a refused argument should not cost.
    from torch._inductor.compile_fx import compile_fx

    made: Callable[..., Any] = compile_fx(graph, inputs, config_patches=options)
    return made


def keep_address(*tensors: Tensor) -> None:
    """A CUDA graph reads and writes these where they are; it refuses to write to others."""
    for x in tensors:
        if x.is_cuda:
            torch._dynamo.mark_static_address(x, guard=False)


def mark_static(x: Tensor, axis: int) -> None:
    """The length of this axis is a constant of the graph."""
    torch._dynamo.mark_static(x, axis)


def cloned(outputs: Any) -> Any:
    """Copies of all tensors: the memory of a CUDA graph is written again by its next replay."""
    return torch.utils._pytree.tree_map_only(torch.Tensor, torch.clone, outputs)


def in_this_order(x: Tensor, strides: tuple[int, ...]) -> Tensor:
    """x as a separate array with these strides: inductor would compute it again wherever it is read."""
    import torch._inductor.inductor_prims  # registers the operation

    made: Tensor = torch.ops.prims.inductor_force_stride_order(x, strides)
    return made


@cache
def inductors_cpp() -> SimpleNamespace:
    """How inductor writes, compiles and keeps C++; only to be asked for where `is_known`."""
    from torch._inductor import async_compile, codecache, cpu_vec_isa
    from torch._inductor.codegen import cpp
    from torch._inductor.runtime import cache_dir_utils

    class Files(codecache.CppPythonBindingsCodeCache):
        """A file that is compiled with a header of somebody else's, kept and imported."""

        header = ""

        @classmethod
        def _get_uncompiled_header(cls, device: str) -> str:
            return cls.header

        @classmethod
        def imported(cls, path: Path) -> Any:
            return cls._load_library(str(path), path.stem)

    @contextmanager
    def writing_for(deferred: Callable[..., Any], most_arguments: int) -> Iterator[None]:
        """Kernels have few arguments, and their sources are given to `deferred` instead of the compiler."""
        with ExitStack() as stack:
            few = patch.object(cpp.CppScheduling, "MAX_FUSED_KERNEL_ARGS_NUM", most_arguments)
            stack.enter_context(few)
            if async_compile.get_compile_threads() > 1:  # with one, inductor wants functions at once
                stack.enter_context(patch.object(async_compile.AsyncCompile, "cpp_pybinding", deferred))
            yield

    return SimpleNamespace(
        version=torch.__version__,
        writing_for=writing_for,
        Files=Files,
        CodeCacheFuture=codecache.CodeCacheFuture,
        CppCodeCache=codecache.CppCodeCache,
        pick_vec_isa=cpu_vec_isa.pick_vec_isa,
        cache_dir=cache_dir_utils.cache_dir,
    )
