"""What the harness counts is the call's own, whatever ran before it."""

import gc
import subprocess
import sys

import numpy as np
import pytest

from attest.boundary import JudgedImplementation
from attest.checks import side_effects
from attest.checks.side_effects import bytecodes
from attest.contract import Config
from attest.reference.implementation import ReferenceImplementation


class Litter:
    """Waits for the garbage collector, and then runs code of its own."""

    def __init__(self):
        self.me = self

    def __del__(self):
        sum(range(3))


def allocate():
    return [[] for _ in range(3000)]  # enough for the collector to want to run


def test_what_others_left_to_the_garbage_collector_is_not_counted():
    gc.collect()
    alone = bytecodes(allocate)
    for _ in range(20):
        Litter()
    assert bytecodes(allocate) == alone
    assert gc.isenabled()


def test_a_loop_counts_for_each_of_its_turns():
    few, many = (bytecodes(lambda n=n: [None for _ in range(n)]) for n in (10, 110))
    assert many - few >= 100
    assert (many - few) % 100 == 0


def test_the_first_count_of_a_process_is_not_zero():
    """Python 3.12 and 3.13 report no opcodes the first time something is traced."""
    code = (
        "from attest.checks.side_effects import bytecodes\n"
        "def work(): return [i for i in range(10)]\n"
        "print(bytecodes(work), bytecodes(work))"
    )
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    first, second = run.stdout.split()
    assert int(first) == int(second) > 0


def test_a_count_of_zero_is_a_fault_of_ours(monkeypatch):
    monkeypatch.setattr(side_effects, "bytecodes", lambda call: 0)
    impl = JudgedImplementation(ReferenceImplementation())
    component = impl.build("attention", Config())
    x = np.zeros((1, 1, 2, 2), np.float32)
    with pytest.raises(RuntimeError, match="no bytecode was counted"):
        side_effects.python_work(component, {"q": x, "k": x, "v": x})


def test_a_setting_of_torchs_compiler_that_stays_changed_is_seen():
    torch = pytest.importorskip("torch")
    import torch.fx.experimental._config as config

    before = side_effects.global_state()
    with config.patch(use_duck_shape=False):
        assert side_effects.changed_since(before) == ["settings of torch.fx.experimental._config"]
    assert side_effects.changed_since(before) == []
    previous = torch.get_float32_matmul_precision()
    torch.set_float32_matmul_precision("medium")
    try:
        assert side_effects.changed_since(before) == ["torch's precision of products"]
    finally:
        torch.set_float32_matmul_precision(previous)


def test_what_was_not_loaded_before_is_no_change():
    assert side_effects.changed_since({}) == []
