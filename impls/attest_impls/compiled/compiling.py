"""torch.compile as this implementation uses it: one graph or an error, every compilation counted.

On CUDA inductor records CUDA graphs; float32 products stay float32 (TF32 is not switched on here: set
torch.backends.cuda.matmul.allow_tf32 outside if 10 bits of mantissa are enough).
"""

from __future__ import annotations

import getpass
import os
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

# Shared by the workers of a run and kept between runs: a second run compiles nothing.
os.environ.setdefault(
    "TORCHINDUCTOR_CACHE_DIR", str(Path(tempfile.gettempdir()) / f"attest-inductor-{getpass.getuser()}")
)

import torch
from torch._inductor.compile_fx import compile_fx

MOST_COMPILATIONS = 64

torch._dynamo.config.recompile_limit = MOST_COMPILATIONS
torch._dynamo.config.accumulated_recompile_limit = 4 * MOST_COMPILATIONS
torch._dynamo.config.fail_on_recompile_limit_hit = True


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


def compiled(
    function: Callable[..., Any],
    report: Report,
    *,
    device: str = "cpu",
    dynamic: bool = True,
    **settings: Any,
) -> Callable[..., Any]:
    """The function as one graph. `settings` are inductor's."""
    if device.startswith("cuda"):
        settings = {"triton.cudagraphs": True, **settings}

    def backend(graph: torch.fx.GraphModule, inputs: list[Any]) -> Callable[..., Any]:
        report.compilations += 1
        inner = compile_fx(graph, inputs, config_patches=settings)

        def run(*given: Any) -> Any:
            report.compiled_calls += 1
            return inner(*given)

        return run

    report.graphs += 1
    return torch.compile(function, backend=backend, fullgraph=True, dynamic=dynamic)
