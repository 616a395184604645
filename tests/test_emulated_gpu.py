"""What the harness makes of an emulated CUDA device: no pass where a real one is asked for, and a line."""

from importlib.metadata import PackageNotFoundError

import pytest

from attest.machine import emulated_cuda, lacking
from attest.report.environment import environment
from attest.spec import load_spec
from gpu_emulation import versions
from gpu_emulation.__main__ import FAULTS, MODELS, PIECES, chosen, judged
from gpu_emulation.page import SEEN, page

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


RIGHT = {
    "steps off by": 6e-7, "same tokens": True, "scores off by": 9e-7, "recorded": 5, "recorded again": 2,
    "recorded in a beam": 2, "replayed": 18, "not recorded": 0, "kernels": 17, "overruns": 0,
}  # fmt: skip


def test_a_fault_that_is_not_seen_is_named():
    assert set(SEEN) == set(FAULTS)
    seen = {**RIGHT, "steps off by": float("inf")}
    assert judged({"faults": dict.fromkeys(FAULTS, seen)}) == []
    (sentence,) = judged({"faults": {"caches_may_move": RIGHT, "branch_of_the_device": seen}})
    assert sentence.startswith("the fault caches_may_move is not seen: ")


WRONG = {"steps off by": 1, "gradients off by": 0.2, "scores off by": float("inf"), "same tokens": False,
         "recorded in a beam": 8, "not recorded": 1, "overruns": 1}  # fmt: skip


@pytest.mark.parametrize("model", MODELS)
@pytest.mark.parametrize("what", WRONG)
def test_wrong_numbers_are_named(model, what):
    assert judged({"compiled": {model: RIGHT}}) == []
    (sentence,) = judged({"compiled": {model: {**RIGHT, what: WRONG[what]}}})
    assert sentence.startswith(f"compiled: {model} gives ")


def test_the_answer_to_the_question_of_mc_7a_counts():
    asked = {"kernels": 3, "overruns": 0, "MC.7a": None}
    assert judged({"compiled": {"MC.7a": asked}, "order": {"MC.7a": asked}}) == []
    for broken in ({"MC.7a": "logits are off"}, {"overruns": 1}, {"error": ["no answer"]}):
        for part in ("compiled", "order"):
            (sentence,) = judged({part: {"MC.7a": {**asked, **broken}}})
            assert sentence.startswith(f"{part}: MC.7a gives ")


def test_a_part_or_one_of_its_pieces_can_be_run_alone():
    assert chosen(None) == list(PIECES)
    assert chosen(["order", "eager.M2"]) == ["eager.M2", "order.MC.7a"]
    assert chosen(["faults"]) == [f"faults.{name}" for name in FAULTS]


def test_the_page_says_what_ran_and_what_did_not():
    kernel = {"name": "f", "configurations": 2, "registers": 40, "stack": 8, "shared": 512, "tf32": False,
              "atomics": 1, "error": ""}  # fmt: skip
    found = {
        "eager": {"M1": {"criteria": [("M1.2", "pass"), ("M1.7", "fail")], "verdict": "does not conform"}},
        "faults": {"caches_may_move": {**RIGHT, "not recorded": 7}},
        "cubins": {t: [{**kernel, "target": t}] for t in ("sm_80", "sm_90")},
    }
    text = page(found, judged(found))
    assert versions.LINE in text
    assert "1 pass, 1 fail. M1 does not conform." in text
    assert text.count("| not run |") == 4 + 4, "what compiled is asked, and the other faults"
    assert "| f | sm_90 | 40 | 8 | 512 | no | 1 |" in text
    assert (
        "- sm_80: 1 kernels, 2 configurations; at most 40 registers; 1 use a stack, 0 TF32, 1 atomics" in text
    )
    assert "- eager: M1.7 is fail" in text
