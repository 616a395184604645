"""A script is left for every kind of failure that an answer shows: it runs alone and says the message."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import replace

import pytest

from attest.boundary import JudgedImplementation
from attest.diagnosis.reproduction import NO_STEP, write_reproduction
from attest.judging.catalogue import defects
from attest.judging.property import load_properties
from attest.running.judging import Settings, judge
from attest.spec import load_spec

PLUGIN = """
from attest.judging.catalogue import defects


def attest_implementations():
    return [defects()[{name!r}].build()]
"""
REPRODUCED = (
    "mask_ignored",  # two calls that should agree
    "norm_gradient_subtracts_the_mean_twice",  # gradients
    "third_sublayer_spared",  # train mode with a seed
    "clip_to_squared_norm",  # a component that maps gradients
    "logs_previous_rate",  # a trainer
    "temperature_after_softmax",  # a plain function
    "penalty_counts_bos",  # generate
    "first_token_never_cached",  # a script of cached steps
    "top_p_above_one_accepted",  # what should be refused
)


def reproduced(name: str, criterion: str, tmp_path):
    """The record of a defect, and what became of its script."""
    spec = load_spec()
    impl = JudgedImplementation(defects()[name].build())
    properties = [replace(p, shrinks=False) for p in load_properties()[criterion]]
    record = judge(spec.by_id[criterion], properties, impl, Settings(profile="quick"))
    assert record.failure is not None, record.reason
    property = next(p for p in properties if p.name == record.failure.property)
    plugin = tmp_path / "plugin_of_a_defect.py"
    plugin.write_text(PLUGIN.format(name=name))
    return record, write_reproduction(record, property, impl, str(plugin), tmp_path)


@pytest.mark.parametrize("name", REPRODUCED)
def test_the_script_fails_alone_with_the_message(name, tmp_path):
    criterion = defects()[name].killers[0]
    record, found = reproduced(name, criterion, tmp_path)

    assert found.file, found.reason
    script = tmp_path / record.implementation / found.file
    done = subprocess.run([sys.executable, str(script)], capture_output=True, text=True, check=False)

    assert done.returncode == 1
    assert done.stderr.strip().endswith(f"AssertionError: {record.failure.seen}")


def test_a_failure_that_no_answer_shows_says_so(tmp_path):
    _, found = reproduced("training_seeds_everybody", "M5.14", tmp_path)

    assert (found.file, found.reason) == ("", NO_STEP)


def test_the_script_is_silent_once_the_fault_is_mended(tmp_path):
    record, found = reproduced("mask_ignored", "M1.4", tmp_path)
    (tmp_path / "plugin_of_a_defect.py").write_text(
        "from attest.reference.implementation import ReferenceImplementation\n\n\n"
        "def attest_implementations():\n    return [ReferenceImplementation()]\n"
    )
    script = tmp_path / record.implementation / found.file
    done = subprocess.run([sys.executable, str(script)], capture_output=True, text=True, check=False)

    assert (done.returncode, done.stdout) == (0, "the answers are right now\n"), done.stderr
