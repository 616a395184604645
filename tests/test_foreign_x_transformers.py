"""Variants of x-transformers, judged through the same door as anyone's.

What is expected was seen with x-transformers 2.31.10. Another verdict is a finding, about that library or us.
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

VARIANTS = Path(__file__).parent / "foreign" / "x_transformers_variants.py"
RIGHT = {
    "x_rotary": ("M7.2", "M7.17", "M7.18"),
    "x_rotary_linear": ("M7.14", "M7.18"),
    "x_alibi": ("M7.8",),
    "x_buckets": ("M7.10",),
    "x_heads": ("M8.3", "M8.15", "M8.15a"),
}

pytestmark = [
    pytest.mark.skipif(
        find_spec("x_transformers") is None or find_spec("torch") is None,
        reason="x-transformers or torch is not installed; pip install x-transformers to judge its variants",
    ),
    pytest.mark.filterwarnings("ignore::DeprecationWarning"),  # it calls torch.jit.script when it is imported
]


@cache
def implementations() -> dict[str, object]:
    return {found.name: found for found in load(parse_request(str(VARIANTS)))}


def judged(name: str, criterion: str) -> Record:
    impl = JudgedImplementation(implementations()[name])
    properties = load_properties()[criterion]
    return judge(load_spec().by_id[criterion], properties, impl, Settings(profile="quick"))


@pytest.mark.parametrize(("name", "criterion"), [(name, id) for name, ids in RIGHT.items() for id in ids])
def test_variants_of_x_transformers_are_right(name, criterion):
    record = judged(name, criterion)
    assert (record.verdict, record.reason) == ("pass", "")


def test_key_heads_are_tiled():
    """Query head h reads key head h modulo G, where checkpoints of today have h // (H / G)."""
    assert judged("x_grouped", "M8.1").verdict == "fail"
    record = judged("x_grouped", "M8.2")
    assert "did not change with key head 0 of 2" in record.reason


def test_two_features_cannot_be_turned():
    """The rescaled base has the exponent dim / (dim - 2), also where nothing is rescaled."""
    record = judged("x_rotary", "M7.3")
    assert (record.verdict, "ZeroDivisionError" in record.reason) == ("fail", True)
