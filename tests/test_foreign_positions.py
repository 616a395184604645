"""Positions of other libraries, judged through the same door as anyone's.

What is expected was seen with transformers 5.23.0. Another verdict is a finding, about that library or us.
"""

from functools import cache
from importlib.util import find_spec
from pathlib import Path

import pytest

from attest.boundary import JudgedImplementation
from attest.judging.property import load_properties
from attest.records.record import Record
from attest.registry import load, parse_request
from attest.running.judging import Settings, judge
from attest.spec import load_spec

HUGGING_FACE = Path(__file__).parent / "foreign" / "hugging_face_positions.py"
ROTARY = ("M7.2", "M7.3", "M7.16", "M7.17")
RIGHT = {
    "hf_llama": ROTARY,
    "hf_llama_scaled": ("M7.2", "M7.14"),
    "hf_gptj": (*ROTARY, "M7.18"),
    "hf_bloom": ("M7.8",),
    "hf_mpt": ("M7.8",),
    "hf_t5": ("M7.10",),
}

pytestmark = pytest.mark.skipif(
    find_spec("transformers") is None or find_spec("torch") is None,
    reason="transformers or torch is not installed; pip install transformers to judge its positions",
)


@cache
def implementations() -> dict[str, object]:
    return {found.name: found for found in load(parse_request(str(HUGGING_FACE)))}


def judged(name: str, criterion: str) -> Record:
    impl = JudgedImplementation(implementations()[name])
    properties = load_properties()[criterion]
    return judge(load_spec().by_id[criterion], properties, impl, Settings(profile="quick"))


@pytest.mark.parametrize(("name", "criterion"), [(name, id) for name, ids in RIGHT.items() for id in ids])
def test_positions_of_hugging_face_are_right(name, criterion):
    record = judged(name, criterion)
    assert (record.verdict, record.reason) == ("pass", "")


def test_a_head_of_one_feature_becomes_two_in_silence():
    """A single feature cannot form a pair; with Llama it broadcasts against a table that is two wide."""
    record = judged("hf_llama", "M7.18")
    assert record.verdict == "fail"
    assert record.reason.startswith("rotary_fraction=1.0 of 1 features was accepted and gave output of shape")


def test_a_factor_of_zero_is_taken_with_a_warning():
    """Frequencies are divided by it: angles behind position 0 are infinite, and cosine and sine are NaN."""
    record = judged("hf_llama_scaled", "M7.18")
    assert record.verdict == "fail"
    assert "rotary_factor=0.0 was accepted and gave output of shape" in record.reason


def test_a_rotary_table_in_float32_is_found_where_float64_is_declared():
    """Llama makes its angles in float32 whatever the dtype; `computes` is there to say so."""
    assert judged("hf_llama_float64", "M7.2").verdict == "fail"
