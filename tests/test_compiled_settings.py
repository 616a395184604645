"""What compiled changes of torch it gives back; what torch does not document stands in one module."""

from __future__ import annotations

import ast
import json
import subprocess
import sys
from pathlib import Path

import pytest

COMPILED = Path(__file__).parents[1] / "impls" / "attest_impls" / "compiled"
CALLS = """
import json, os, re, sys, warnings
warnings.simplefilter("ignore")
import numpy as np, torch
import torch._dynamo.config, torch._functorch.config, torch._inductor.config, torch.fx.experimental._config
from attest.contract import Config
from attest.sealed.process_state import state_here
from attest_impls.eager import Eager
CONFIG, x = Config(d_model=8, num_heads=1), np.ones((2, 3, 8), np.float32)

def seen():
    modules = [torch._dynamo.config, torch._functorch.config, torch._inductor.config]
    modules.append(torch.fx.experimental._config)
    settings = {f"{m.__name__}.{n}": repr(v) for m in modules for n, v in m.get_config_copy().items()}
    settings = {n: re.sub(" at 0x[0-9a-f]+", "", v) for n, v in settings.items()}  # copied objects move
    state = {n: repr(v) for n, v in state_here().items() if not n.startswith("settings of")}
    return {**settings, **state, "cache": os.environ.get("TORCHINDUCTOR_CACHE_DIR")}

def changed():
    now = seen()
    return {name: (before[name], now[name]) for name in before if now[name] != before[name]}

def bits(implementation):
    return implementation.layer_norm(CONFIG)(x=x)["output"].tobytes().hex()

def graph_of_eager():
    torch._dynamo.reset()
    module = Eager().layer_norm(CONFIG).module
    compilations = []
    def backend(graph, inputs):
        compilations.append(sorted(node.op for node in graph.graph.nodes))
        return graph.forward
    torch.compile(module, backend=backend, dynamic=True)(torch.ones(3, 3, 8))
    return compilations

before, eager, graph = seen(), bits(Eager()), graph_of_eager()
from attest_impls.compiled import Compiled
imported = changed()
made = Compiled().layer_norm(CONFIG)
made(x=x)
called = changed()
made.gradients({"x": x}, {"output": x})
print(json.dumps({
    "import": imported, "call": called, "gradients": changed(),
    "compilations": made.compile_report()["compilations"],
    "same bits of eager": bits(Eager()) == eager, "same graph of eager": graph_of_eager() == graph,
}))
"""


def test_torch_is_as_it_was_after_the_import_and_after_a_call() -> None:
    run = subprocess.run([sys.executable, "-c", CALLS], capture_output=True, text=True, check=True)
    found = json.loads(run.stdout.splitlines()[-1])
    assert found.pop("compilations") >= 1
    same = {"same bits of eager": True, "same graph of eager": True}
    assert found == {"import": {}, "call": {}, "gradients": {}, **same}


def private_names(path: Path) -> set[str]:
    """Names of torch with a leading underscore, and inductor's operations, as a module uses them."""
    found = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        if isinstance(node, ast.ImportFrom):
            found |= {f"{node.module}.{alias.name}" for alias in node.names}
        if isinstance(node, ast.Attribute):
            found.add(ast.unparse(node))
    torchs = (name for name in found if name.startswith("torch."))
    return {
        n for n in torchs if any(part.startswith("_") or part in ("fx", "prims") for part in n.split("."))
    }


def test_private_names_of_torch_stand_in_one_module() -> None:
    users = {p.relative_to(COMPILED).as_posix(): private_names(p) for p in COMPILED.rglob("*.py")}
    assert users.pop("private_torch.py")
    users["compiling.py"] -= {"torch.fx", "torch.fx.GraphModule"}  # documented: what a backend is given
    assert {name: found for name, found in users.items() if found} == {}


def sines(table, ids):
    """Uses the gradient that is written here."""
    from attest_impls.compiled.embedding import looked_up

    return looked_up(table, ids, None).sin()


@pytest.mark.filterwarnings("ignore::DeprecationWarning")  # of torch's own, inside dynamo
def test_a_graph_with_our_own_gradient_is_kept_for_the_next_process(tmp_path, monkeypatch) -> None:
    torch = pytest.importorskip("torch")
    from torch._dynamo.utils import counters

    from attest_impls.compiled.compiling import Report, compiled

    monkeypatch.setenv("TORCHINDUCTOR_CACHE_DIR", str(tmp_path))
    before = dict(counters["aot_autograd"])
    table = torch.zeros(5, 4, requires_grad=True)
    compiled(sines, Report())(table, torch.tensor([[0, 1]])).sum().backward()
    done = {name: n - before.get(name, 0) for name, n in counters["aot_autograd"].items()}
    assert done.get("autograd_cache_bypass", 0) == 0
    assert done["autograd_cache_saved"] == 1


def test_another_version_of_torch_gets_the_settings_it_has_and_a_sentence(monkeypatch, caplog) -> None:
    torch = pytest.importorskip("torch")
    from attest_impls.compiled import private_torch

    monkeypatch.setattr(torch, "__version__", "2.12.1")
    monkeypatch.setitem(private_torch.SETTINGS, "torch._dynamo.config", {"of_another_version": 1})
    private_torch._patches.cache_clear()
    try:
        with private_torch.settings():
            pass
        assert "torch 2.12.1 is not 2.13.x" in caplog.text
    finally:
        private_torch._patches.cache_clear()
