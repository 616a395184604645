"""docs/kernels.md: its commands and what they print."""

import os
import re
import shlex
import subprocess
import sys
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

import pytest

from attest.adapters.triton.versions import TRITON

ROOT = Path(__file__).parents[1]
EXAMPLE = ROOT / "examples" / "triton_attention"
PAGE = (ROOT / "docs" / "kernels.md").read_text(encoding="utf-8")
COMMANDS = [line[2:] for line in PAGE.splitlines() if line.startswith("$ ")]
try:
    FOUND = version("triton")
except PackageNotFoundError:
    FOUND = "no version"
needs_triton = pytest.mark.skipif(FOUND != TRITON, reason=f"needs triton=={TRITON}, {FOUND} is installed")


def shown(remark):
    """The block of text behind this remark."""
    return PAGE.split(f"<!-- {remark} -->\n```text\n")[1].split("```")[0]


def run(command, reports):
    """A command of the page in the folder of the example, with the tools of this environment."""
    words, environment = shlex.split(command), {**os.environ, "OMP_NUM_THREADS": "1", "COLUMNS": "100"}
    while "=" in words[0]:
        name, _, value = words.pop(0).partition("=")
        environment[name] = value
    module = {"pytest": "pytest", "attest": "attest.cli"}[words[0]]
    more = ["-p", "no:cacheprovider", "--attest-reports", str(reports)] if module == "pytest" else []
    return subprocess.run(
        [sys.executable, "-m", module, *words[1:], *more],
        cwd=EXAMPLE, env=environment, capture_output=True, text=True, timeout=1800,
    )  # fmt: skip


def test_the_page_installs_the_version_that_was_read():
    assert TRITON in PAGE
    assert COMMANDS[:2] == [
        "pip install 'attest-transformers[torch,triton]'",
        "cd examples/triton_attention",
    ]
    pins = re.search(r"^triton = (.*)$", (ROOT / "pyproject.toml").read_text(), re.M)[1]
    assert pins == f'["triton=={TRITON}"]'


@needs_triton
@pytest.mark.slow
@pytest.mark.parametrize("command", [c for c in COMMANDS if "pytest" in c])
def test_the_kernels_conform_and_tf32_does_not(command, tmp_path):
    pytest.importorskip("torch")
    ran = run(command, tmp_path)
    if "precision=tf32" in command:
        assert ran.returncode == 1, ran.stdout + ran.stderr
        assert shown("refused in tf32") in ran.stdout
        return
    verdicts = re.findall(r"^  (M\d+) .* (?:conforms|incomplete|does not conform) .*$", ran.stdout, re.M)
    assert verdicts, ran.stdout + ran.stderr
    assert " failed" not in ran.stdout.splitlines()[-1], ran.stdout
    if "--milestone M1" in command:
        assert re.search(r"not run +M1\.7", ran.stdout), ran.stdout


@needs_triton
@pytest.mark.slow
def test_the_table_is_what_the_command_prints(tmp_path):
    ran = run("attest aot kernels.py --target sm_80", tmp_path)
    assert ran.returncode == 0, ran.stderr
    assert ran.stdout == shown("attest aot kernels.py --target sm_80")
