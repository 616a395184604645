"""A wheel built from the checkout works from a directory with folders named like ours."""

import os
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]

pytestmark = pytest.mark.slow


def run(*command: str, cwd: Path, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        command,
        cwd=cwd,
        env={**os.environ, "OMP_NUM_THREADS": "1", **environment},
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
    )


@pytest.fixture(scope="module")
def wheel(tmp_path_factory):
    """Built with build isolation from the tracked files, as on a fresh machine."""
    source, built = tmp_path_factory.mktemp("source"), tmp_path_factory.mktemp("wheel")
    tracked = run("git", "ls-files", "-z", cwd=ROOT).stdout.split("\0")
    for name in filter(None, tracked):
        if (ROOT / name).is_file():
            (source / name).parent.mkdir(parents=True, exist_ok=True)
            (source / name).write_bytes((ROOT / name).read_bytes())
    made = run(sys.executable, "-m", "pip", "wheel", "-q", "--no-deps", "-w", str(built), ".", cwd=source)
    assert made.returncode == 0, made.stdout + made.stderr
    [path] = built.glob("attest_transformers-*.whl")
    return path


def test_spec_schema_templates_and_starters_travel_in_it(wheel):
    names = set(zipfile.ZipFile(wheel).namelist())
    spec = ROOT / "spec"
    wanted = {f"attest/spec_data/{p.relative_to(spec)}" for p in spec.rglob("*") if p.is_file()}
    assert "attest/spec_data/families/llama.toml" in wanted
    for folder in ("report/templates", "starters"):
        files = (ROOT / "harness/attest" / folder).iterdir()
        wanted |= {f"attest/{folder}/{p.name}" for p in files if p.is_file()}
    schemas = (ROOT / "harness/attest/report").glob("*schema.json")
    wanted |= {f"attest/report/{p.name}" for p in schemas}
    wanted |= {"attest/cli/__init__.py", "attest_impls/eager/__init__.py"}
    kernels = (ROOT / "impls/attest_impls/compiled/cpu").iterdir()
    wanted |= {f"attest_impls/compiled/cpu/{p.name}" for p in kernels if p.suffix in (".cpp", ".h")}
    assert wanted - names == set()
    assert not [n for n in names if n.split("/")[0] in ("harness", "spec", "impls", "tests")]


def test_it_judges_a_file_beside_folders_of_the_same_names(wheel, tmp_path):
    site, home = tmp_path / "site", tmp_path / "home"
    command = (sys.executable, "-m", "pip", "install", "-q", "--no-deps", "--target", str(site), str(wheel))
    made = run(*command, cwd=tmp_path)
    assert made.returncode == 0, made.stderr
    for name in ("harness", "spec", "impls"):
        (home / name).mkdir(parents=True)
        (home / name / "__init__.py").write_text("raise RuntimeError('a folder of the user was imported')")
        (home / name / "m01_attention.toml").write_text("not = a spec")
    made = run(sys.executable, "-m", "attest.cli", "new", "mine", cwd=home, PYTHONPATH=str(site))
    assert made.returncode == 0, made.stderr
    where = "import attest, attest_impls; print(attest.__file__, attest_impls.__file__)"
    assert run(sys.executable, "-c", where, cwd=home, PYTHONPATH=str(site)).stdout.count(str(site)) == 2
    arguments = (
        "--impl=mine.py",
        "--impl=numpy_scratch",
        "--criterion=M1.5a",
        "--attest-profile=quick",
        "-n1",
    )
    judged = run(sys.executable, "-m", "pytest", *arguments, cwd=home, PYTHONPATH=str(site))
    assert judged.returncode == 0, judged.stdout + judged.stderr
    assert {p.parent.name for p in (home / "reports").glob("*/report.json")} == {"mine", "numpy_scratch"}
