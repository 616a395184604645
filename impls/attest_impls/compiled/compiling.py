"""torch.compile as this implementation uses it: one graph or an error, every compilation counted.

Graphs are shared by all components whose modules have one shape: a graph takes the parameters as arguments,
so a second model of the same sizes compiles nothing.

On CUDA inductor records CUDA graphs; float32 products stay float32 (TF32 is not switched on here: set
torch.backends.cuda.matmul.allow_tf32 outside if 10 bits of mantissa are enough).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from types import FunctionType
from typing import Any

import torch

from . import cpu
from .private_torch import cloned, compile_by_inductor, settings


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
    kernels: str = cpu.AUTO,
    **options: Any,
) -> Callable[..., Any]:
    """The function as one graph, noted in a report. `kind` keeps apart what has nothing in common.

    `options` are inductor's. The function takes the module as an argument: a closure could not be shared.
    """
    # Random numbers are torch's own: inductor's are drawn one by one, slow to run and slow to compile.
    options = {"fallback_random": True, **options}
    on_cuda = device.startswith("cuda")
    if on_cuda:
        options = {"triton.cudagraphs": True, **options}
    graph = _graph(function, kind, tuple(sorted(options.items())), not on_cuda and cpu.in_one_file(kernels))
    report.graphs += 1

    def call(*args: Any, **given: Any) -> Any:
        _reports.append(report)
        try:
            with settings():
                if not on_cuda:
                    return graph(*args, **given)
                torch.compiler.cudagraph_mark_step_begin()
                return cloned(graph(*args, **given))
        finally:
            _reports.pop()

    return call


@cache
def _graph(
    function: Callable[..., Any],
    kind: type | None,
    options: tuple[tuple[str, Any], ...],
    in_one_file: bool,
) -> Callable[..., Any]:
    def backend(graph: torch.fx.GraphModule, inputs: list[Any]) -> Callable[..., Any]:
        _reports[-1].compilations += 1
        with cpu.kernels_together(options, in_one_file):
            inner = compile_by_inductor(graph, inputs, dict(options))

        def run(*given: Any) -> Any:
            _reports[-1].compiled_calls += 1
            return inner(*given)

        return run

    return torch.compile(_copy(function), backend=backend, fullgraph=True, dynamic=True)


def _copy(function: Any) -> Any:
    """A copy with a new code object: torch keeps graphs, and counts them for its limit, by code object."""
    code = function.__code__.replace()
    made = FunctionType(code, function.__globals__, function.__name__, function.__defaults__)
    made.__kwdefaults__ = function.__kwdefaults__
    return made
