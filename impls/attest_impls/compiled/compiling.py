"""torch.compile as this implementation uses it: one graph or an error, every compilation counted.

Graphs are shared by all components whose modules have one shape: a graph takes the parameters as arguments,
so a second model of the same sizes compiles nothing.

On CUDA inductor records CUDA graphs; float32 products stay float32 (TF32 is not switched on here: set
torch.backends.cuda.matmul.allow_tf32 outside if 10 bits of mantissa are enough).
"""

from __future__ import annotations

import os
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from functools import cache
from types import FunctionType
from typing import Any

from .cache_directory import private_directory

# Shared by the workers of a run and kept between runs: a second run compiles nothing.
if "TORCHINDUCTOR_CACHE_DIR" not in os.environ:
    os.environ["TORCHINDUCTOR_CACHE_DIR"] = private_directory()

import torch
import torch._functorch.config

MOST_COMPILATIONS = 64
KNOWN_INDUCTOR = "2.13."

torch._dynamo.config.recompile_limit = MOST_COMPILATIONS
torch._dynamo.config.accumulated_recompile_limit = 16 * MOST_COMPILATIONS
torch._dynamo.config.fail_on_recompile_limit_hit = True
# Two lengths that are equal the first time are not taken for one: a later call may have them apart.
torch.fx.experimental._config.use_duck_shape = False
# Rates, scales and epsilons are few: as constants they cost nothing, as inputs every graph is traced twice.
torch._dynamo.config.specialize_float = True

# Keeping what each traced operation returned takes longer than working it out again.
torch._dynamo.config.fake_tensor_cache_enabled = False

# A saved tensor is not saved again as its view: relu's gradient then needs no mask, which is slow to write.
torch._functorch.config.recompute_views = True


@dataclass
class Report:
    """What the contract's `compile_report` answers. Graph breaks are errors here, so there are none."""

    graphs: int = 0
    compilations: int = 0
    compiled_calls: int = 0

    def as_mapping(self) -> dict[str, int]:
        return {
            "graphs": self.graphs,
            "graph_breaks": 0,
            "compilations": self.compilations,
            "compiled_calls": self.compiled_calls,
        }


_reports = [Report()]  # the last one belongs to the component that is being called


def compiled(
    function: Callable[..., Any],
    report: Report,
    *,
    kind: type | None = None,
    device: str = "cpu",
    **settings: Any,
) -> Callable[..., Any]:
    """The function as one graph, noted in a report. `kind` keeps apart what has nothing in common.

    `settings` are inductor's. The function takes the module as an argument: a closure could not be shared.
    """
    # Random numbers are torch's own: inductor's are drawn one by one, slow to run and slow to compile.
    settings = {"fallback_random": True, **settings}
    on_cuda = device.startswith("cuda")
    if on_cuda:
        settings = {"triton.cudagraphs": True, **settings}
    graph = _graph(function, kind, tuple(sorted(settings.items())))
    report.graphs += 1

    def call(*args: Any, **given: Any) -> Any:
        _reports.append(report)
        try:
            if not on_cuda:
                return graph(*args, **given)
            torch.compiler.cudagraph_mark_step_begin()
            return _kept(graph(*args, **given))
        finally:
            _reports.pop()

    return call


def _kept(outputs: Any) -> Any:
    """Copies: the memory of a CUDA graph is written again by its next replay."""
    return torch.utils._pytree.tree_map_only(torch.Tensor, torch.clone, outputs)


@cache
def _graph(
    function: Callable[..., Any], kind: type | None, settings: tuple[tuple[str, Any], ...]
) -> Callable[..., Any]:
    def backend(graph: torch.fx.GraphModule, inputs: list[Any]) -> Callable[..., Any]:
        from torch._inductor.compile_fx import (
            compile_fx,  # imported late: it takes two seconds, which a refused argument should not cost
        )

        _reports[-1].compilations += 1
        with _kernels_together(settings):
            inner = compile_fx(graph, inputs, config_patches=dict(settings))

        def run(*given: Any) -> Any:
            _reports[-1].compiled_calls += 1
            return inner(*given)

        return run

    return torch.compile(_copy(function), backend=backend, fullgraph=True, dynamic=True)


def _kernels_together(settings: tuple[tuple[str, Any], ...]) -> AbstractContextManager[None]:
    """One C++ file a graph, where inductor is the one that kernels.py knows; elsewhere one a kernel."""
    if not torch.__version__.startswith(KNOWN_INDUCTOR):
        return nullcontext()
    from .kernels import in_one_file

    return in_one_file(settings)


def _copy(function: Any) -> Any:
    """A copy with a new code object: torch keeps graphs, and counts them for its limit, by code object."""
    code = function.__code__.replace()
    made = FunctionType(code, function.__globals__, function.__name__, function.__defaults__)
    made.__kwdefaults__ = function.__kwdefaults__
    return made
