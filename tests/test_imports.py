"""Who may import whom: the harness reaches implementations by discovery only, and torch in adapters only."""

import ast
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
HARNESS = ROOT / "harness" / "attest"
IMPLS = ROOT / "impls" / "attest_impls"
HEAVY = {"torch", "hypothesis", "matplotlib", "jinja2", "safetensors", "transformers", "ctranslate2"}


def imports(path: Path, *, top_level: bool = False) -> set[str]:
    """Absolute names a module imports; relative ones are siblings."""
    tree = ast.parse(path.read_text())
    nodes = tree.body if top_level else ast.walk(tree)
    found = set()
    for node in nodes:
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        if isinstance(node, ast.ImportFrom) and not node.level and node.module:
            found |= {node.module, *(f"{node.module}.{alias.name}" for alias in node.names)}
    return found


def modules(root: Path) -> list[Path]:
    return sorted(p for p in root.rglob("*.py") if "__pycache__" not in p.parts)


# A module imports from its own layer or from those above it in this list. records comes before diagnosis,
# because a failure in a record holds what diagnosis found; report comes before running, because a run ends by
# writing reports.
LAYERS = (
    (
        "contract",
        "declared",
        "families",
        "outcomes",
        "machine",
        "milestone_registry",
        "order",
        "registry",
        "spec",
        "spec_file",
        "spelling",
    ),
    ("adapters",),
    ("sealed",),
    ("reference",),
    ("boundary",),
    ("evidence",),
    ("checks",),
    ("judging", "properties", "trained"),
    ("milestones",),
    ("records",),
    ("diagnosis",),
    ("report",),
    ("running",),
    ("bench", "cli", "selftest", "starters", "studies", "trials"),
)
DEPTH = {name: depth for depth, layer in enumerate(LAYERS) for name in layer}


def test_every_module_belongs_to_a_layer():
    found = {p.relative_to(HARNESS).with_suffix("").parts[0] for p in modules(HARNESS)} - {"__init__"}
    assert found == set(DEPTH)


def test_no_module_imports_a_layer_below_its_own():
    upward = []
    for path in modules(HARNESS):
        room = path.relative_to(HARNESS).with_suffix("").parts[0]
        for name in imports(path):
            parts = name.split(".")
            known = room != "__init__" and parts[0] == "attest" and parts[1:2] and parts[1] in DEPTH
            if known and DEPTH[parts[1]] > DEPTH[room]:
                upward.append(f"{path.relative_to(ROOT)} imports {name}")
    assert upward == []


def test_a_case_that_is_fitted_is_the_only_reader_of_the_shape_policy():
    readers = {
        str(path.relative_to(HARNESS))
        for room in ("checks", "judging", "trained", "milestones")
        for path in modules(HARNESS / room)
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.Attribute) and node.attr == "policy"
    }
    assert readers == {"judging/cases.py"}


def test_the_harness_imports_no_implementation():
    offenders = [p for p in modules(HARNESS) if any(i.split(".")[0] == "attest_impls" for i in imports(p))]
    assert offenders == []


def test_implementations_import_the_contract_and_adapters_only():
    for path in modules(IMPLS):
        package = path.relative_to(IMPLS).parts[0]
        for name in imports(path):
            parts = name.split(".")
            if parts[0] == "attest":
                assert parts[1:2] in ([], ["contract"], ["adapters"], ["families"]), (
                    f"{path.name} imports {name}"
                )
            if parts[0] == "attest_impls" and len(parts) > 1:
                assert (IMPLS / parts[1]).exists(), f"{package} imports {name}, which is no sibling"


def private_functions(root: Path) -> set[str]:
    """Functions and methods whose name starts with one underscore."""
    trees = (ast.walk(ast.parse(path.read_text())) for path in modules(root))
    names = {node.name for tree in trees for node in tree if isinstance(node, ast.FunctionDef)}
    return {name for name in names if name.startswith("_") and not name.endswith("__")}


def used_names(path: Path) -> set[str]:
    """What a module reads as an attribute, defines as a method or imports from a sibling."""
    found = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Attribute):
            found.add(node.attr)
        if isinstance(node, ast.ClassDef):
            found |= {part.name for part in node.body if isinstance(part, ast.FunctionDef)}
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("attest_impls."):
            found |= {alias.name for alias in node.names}
    return found


def test_compiled_stands_on_public_names_of_eager():
    private = private_functions(IMPLS / "eager")
    assert "_cached_layer" in private
    for path in modules(IMPLS / "compiled"):
        assert used_names(path) & private == set(), f"{path.name} uses private names of eager"


@pytest.mark.parametrize("name", ["model.py", "language_model.py", "encoder_models.py"])
def test_eagers_model_files_refuse_nothing(name):
    """Arguments are checked at the edge, so that a model reads like its paper."""
    path = IMPLS / "eager" / name
    raised = [n for n in ast.walk(ast.parse(path.read_text())) if isinstance(n, ast.Raise)]
    assert raised == []
    assert not any(found.endswith("arguments") for found in imports(path))
    assert len(path.read_text().splitlines()) <= 400


def test_torch_is_imported_at_the_top_of_adapters_only():
    offenders = [
        str(p.relative_to(ROOT))
        for p in modules(HARNESS)
        if "adapters" not in p.parts and any(i.split(".")[0] == "torch" for i in imports(p, top_level=True))
    ]
    assert offenders == []


def test_every_package_is_in_the_distribution():
    import tomllib

    listed = set(tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["setuptools"]["packages"])
    found = set()
    for base in (HARNESS, IMPLS):
        for init in base.rglob("__init__.py"):
            found.add(".".join((base.name, *init.parent.relative_to(base).parts)))
    assert found <= listed
    assert listed - found == {"attest.spec_data"}


@pytest.mark.parametrize(
    "statement",
    [
        "import attest.running.plugin",
        "import attest.cli.list_, attest.cli.explain; from attest.spec import load_spec; load_spec()",
        "from attest.judging.catalogue import defects; defects()",
    ],
)
def test_the_light_paths_stay_light(statement):
    code = f"import sys; {statement}; print(*sorted({HEAVY} & set(sys.modules)))"
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60)
    assert run.stdout.split() == []


def test_the_plugin_alone_does_not_even_import_numpy():
    code = "import sys, attest.running.plugin; print(*sorted({'numpy', 'pluggy'} & set(sys.modules)))"
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60)
    assert run.stdout.split() == ["pluggy"]  # pytest brings it
