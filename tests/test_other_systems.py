"""A system that is not Linux, pretended: no /proc, no prctl, no memory files, no news of a closed pipe.

`sitecustomize` is read by every Python process that a run starts, so all of them meet the same system.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from test_plugin import CAUSAL, LENGTHS, masks
from test_trust import SLOW_MASK, processes_below

ATTEST = Path(sys.executable).with_name("attest")
PRETENDED = """
# These look at the system when they are imported, or first asked.
import ctypes, fcntl, mmap, os, select, subprocess, sys, sysconfig, urllib.request
sysconfig.get_config_vars()
sys.platform = "darwin"
del os.memfd_create, select.poll
for name in ("F_ADD_SEALS", "F_SEAL_SHRINK", "F_SEAL_GROW", "F_SEAL_SEAL"):
    delattr(fcntl, name)
for name in [name for name in dir(mmap) if name.startswith("MADV_")]:
    delattr(mmap, name)
def no_library(*_, **__):
    raise OSError("there is no prctl in this library")
ctypes.CDLL = no_library
def refuse(event, arguments):
    if event in ("open", "os.listdir", "os.scandir") and str(arguments[0]).startswith("/proc"):
        raise FileNotFoundError(2, "there is no /proc", arguments[0])
sys.addaudithook(refuse)
"""


@pytest.fixture
def elsewhere(tmp_path):
    """An environment in which every Python process believes that it is on another system."""
    (tmp_path / "site").mkdir()
    (tmp_path / "site" / "sitecustomize.py").write_text(PRETENDED)
    (tmp_path / "good.py").write_text(masks())
    return {**os.environ, "PYTHONPATH": str(tmp_path / "site")}


def attest(home: Path, environment: dict[str, str], *words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [ATTEST, *words], cwd=home, env=environment, capture_output=True, text=True, check=False, timeout=200
    )


def test_the_system_is_pretended(elsewhere):
    """So that the tests below show something."""
    code = "import os, sys; print(sys.platform, hasattr(os, 'memfd_create'))\nopen('/proc/self/stat')"
    words = [sys.executable, "-c", code]
    run = subprocess.run(words, env=elsewhere, capture_output=True, text=True, check=False)
    assert run.stdout == "darwin False\n"
    assert "there is no /proc" in run.stderr


@pytest.mark.parametrize("workers", ["0", "2"])
def test_a_file_is_judged_in_an_open_process(elsewhere, tmp_path, workers):
    words = ["-c", CAUSAL, "-c", LENGTHS, "--profile", "quick", "--reports", "out", "-n", workers]
    run = attest(tmp_path, elsewhere, "run", "--impl", "good.py", *words)
    assert run.returncode == 0, run.stdout + run.stderr
    report = json.loads((tmp_path / "out" / "good" / "report.json").read_text())
    assert [row["verdict"] for m in report["milestones"] for row in m["criteria"]] == ["pass", "pass"]
    resumed = attest(tmp_path, elsewhere, "run", "--impl", "good.py", *words, "--resume")
    assert resumed.returncode == 0, resumed.stdout + resumed.stderr


def test_a_seal_is_refused_with_a_remedy(elsewhere, tmp_path):
    run = attest(tmp_path, elsewhere, "run", "--impl", "good.py", "--sealed", "-c", CAUSAL, "-n", "0")
    assert run.returncode == 2
    assert run.stderr == "ERROR: --sealed needs Linux; leave it out to judge in an open process\n"
    assert not (tmp_path / "reports").exists()


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL])
def test_a_stopped_run_ends_and_leaves_a_report(elsewhere, tmp_path, number):
    (tmp_path / "good.py").write_text(masks("good", SLOW_MASK))
    words = ["--impl", "good.py", "-c", CAUSAL, "-c", LENGTHS, "--profile", "quick", "--reports", "out"]
    front = subprocess.Popen(
        [ATTEST, "run", *words, "-n", "1"], cwd=tmp_path, env=elsewhere, start_new_session=True,
        stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
    )  # fmt: skip
    records = tmp_path / "out" / "good" / "records.jsonl"
    deadline = time.monotonic() + 90
    while time.monotonic() < deadline and not (records.exists() and records.read_text().count("\n") > 1):
        time.sleep(0.1)
    front.send_signal(number)
    front.wait(60)
    deadline = time.monotonic() + 45
    while time.monotonic() < deadline and processes_below(tmp_path):
        time.sleep(0.2)
    assert processes_below(tmp_path) == []
    report = json.loads((tmp_path / "out" / "good" / "report.json").read_text())
    assert report["selection"]["missing"] == [CAUSAL]
