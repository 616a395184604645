"""Plugins written for an earlier contract run today as they did then, with the same verdicts.

The files in plugins_from_before/ are never edited. If one of them stops working, the contract has changed for
people whose plugins nobody here can edit either.
"""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

PLUGINS = Path(__file__).parent / "plugins_from_before"
NOT_OFFERED = "not offered"
VERDICTS = {
    "torch_plugin.py": {
        "M1.5": "pass",
        "M1.5a": NOT_OFFERED,
        "M1.14": "pass",  # since M1.14b: a mask of rank 4 for inputs of rank 3 is a matter of that should
        "M2.2": "pass",
        "M2.11": "pass",
        "M2.12": "pass",
        "M5.1": "pass",
        "M5.5": "pass",
        "M5.6": "pass",
        "M5.9": "pass",
        "M6.1": "pass",
        "M6.2": NOT_OFFERED,  # its generate raises NotImplementedError for anything but greedy
    },
    "numpy_plugin.py": {
        "M1.2": "pass",
        "M1.4b": "pass",
        "M1.5": "pass",
        "M1.5a": "pass",
        "M1.13": NOT_OFFERED,  # its attention is a function, which has no gradients
        "M1.14": "pass",
        "M2.2": NOT_OFFERED,
        "M4.9": "pass",
        "M5.5": "pass",
        "M5.6a": "pass",
        "M5.6b": "pass",
        "M6.7": "pass",
    },
}


@pytest.mark.parametrize("file", VERDICTS)
def test_a_plugin_from_before_has_its_verdicts(file, tmp_path):
    if file == "torch_plugin.py":
        pytest.importorskip("torch")
    criteria = [f"--criterion={criterion}" for criterion in VERDICTS[file]]
    command = [sys.executable, "-m", "pytest", f"--impl={PLUGINS / file}", *criteria, "-n0"]
    command += ["--attest-profile=quick", "--attest-reports=out"]
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    environment.pop("PYTEST_XDIST_WORKER", None)
    run = subprocess.run(
        command, cwd=tmp_path, env=environment, capture_output=True, text=True, check=False, timeout=300
    )
    (written,) = (tmp_path / "out").glob("*/report.json")
    report = json.loads(written.read_text())
    rows = [row for milestone in report["milestones"] for row in milestone["criteria"]]
    seen = {row["id"]: row["verdict"] for row in rows if row["id"] in VERDICTS[file]}
    assert seen == VERDICTS[file], run.stdout
