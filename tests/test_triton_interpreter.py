"""The repaired interpreter of Triton, and what the harness does while kernels are interpreted."""

import os
import re
import subprocess
import sys
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

import pytest

from attest.adapters.triton.versions import TRITON, WrongVersion, require_triton

try:
    FOUND = version("triton")
except PackageNotFoundError:
    FOUND = "no version"
needs_triton = pytest.mark.skipif(FOUND != TRITON, reason=f"needs triton=={TRITON}, {FOUND} is installed")
REPAIRS = Path(__file__).parent / "interpreted" / "repairs.py"


@needs_triton
def test_every_repair_holds():
    """tests/interpreted/repairs.py, in a process in which kernels are interpreted."""
    pytest.importorskip("torch")
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-p", "no:xdist", str(REPAIRS)]
    environment = {**os.environ, "TRITON_INTERPRET": "1"}
    ran = subprocess.run(command, capture_output=True, text=True, env=environment, timeout=300)
    assert ran.returncode == 0, ran.stdout
    passed = int(re.search(r"(\d+) passed", ran.stdout)[1])
    assert passed >= len(re.findall(r"^def test_", REPAIRS.read_text(), re.M)), "a repair was not tested"


def test_another_version_is_refused_in_one_sentence(monkeypatch):
    import attest.adapters.triton.versions as versions

    monkeypatch.setattr(versions, "version", lambda name: "3.9.0")
    with pytest.raises(
        WrongVersion, match=r"^triton==3\.9\.0 is installed and x was written for 3\.7\.1; inst"
    ):
        require_triton("x")

    def missing(name):
        raise PackageNotFoundError(name)

    monkeypatch.setattr(versions, "version", missing)
    with pytest.raises(WrongVersion, match=r"^triton is not installed and x needs it; install triton==3"):
        require_triton("x")


@pytest.mark.parametrize("id", ["M1.7", "M2.3"])
def test_bytecodes_are_not_counted_while_kernels_are_interpreted(monkeypatch, id):
    """Triton's interpreter is written in Python: its loops would be taken for the implementation's."""
    from attest.boundary import JudgedImplementation
    from attest.judging.property import load_properties
    from attest.records.record import NOT_RUN
    from attest.reference.implementation import ReferenceImplementation
    from attest.running.judging import Settings, judge
    from attest.spec import load_spec

    monkeypatch.setattr("attest.checks.side_effects.interprets_triton", lambda: True)
    impl = JudgedImplementation(ReferenceImplementation(name="any"))
    record = judge(load_spec().by_id[id], load_properties()[id], impl, Settings(profile="quick"))
    assert record.verdict == NOT_RUN
    assert record.reason.startswith("bytecodes say nothing under TRITON_INTERPRET")
