"""What the harness makes of an emulated CUDA device: no pass where a real one is asked for, and a line."""

from importlib.metadata import PackageNotFoundError

import pytest

from attest.machine import emulated_cuda, lacking
from attest.report.environment import environment
from attest.spec import load_spec
from gpu_emulation import versions

torch = pytest.importorskip("torch")


def test_what_needs_a_real_gpu_is_not_run_on_an_emulated_one(monkeypatch):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    needs = load_spec().by_id["MC.7a"].needs
    assert lacking(needs) == ""
    monkeypatch.setattr(torch.cuda, "emulated", versions.LINE, raising=False)
    assert lacking(needs) == "the CUDA device is emulated, and a real one is needed"


def test_the_report_says_that_the_device_was_emulated(monkeypatch):
    assert emulated_cuda() == ""
    assert "cuda" not in environment()
    monkeypatch.setattr(torch.cuda, "emulated", versions.LINE, raising=False)
    assert environment()["cuda"] == (
        "CUDA path run on an emulated device (Triton interpreted; library kernels the CPU's)"
    )


@pytest.mark.parametrize(
    ("found", "sentence"),
    [
        ({"torch": "2.12.0"}, "torch==2.12.0 is installed; the emulated device was written for"),
        ({"torch": "2.13.0+cpu", "triton": "3.9.0"}, "triton==3.9.0 is installed; the emulated device"),
        ({"torch": "2.13.0+cpu"}, "triton is not installed; the emulated device needs triton==3.7.1"),
        ({}, "torch is not installed; the emulated device needs torch==2.13.0"),
    ],
)  # fmt: skip
def test_other_versions_are_refused_in_one_sentence(monkeypatch, found, sentence):
    def version(name):
        if name not in found:
            raise PackageNotFoundError(name)
        return found[name]

    monkeypatch.setattr(versions, "version", version)
    assert versions.refusal().startswith(sentence)
