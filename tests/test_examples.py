"""The examples pass a few criteria where their library is installed, and are short."""

from importlib.util import find_spec

import pytest

from attest.boundary import JudgedImplementation
from attest.declared import misdeclared
from attest.judging.property import load_properties
from attest.registry import load, parse_request
from attest.running.judging import Settings, judge
from attest.spec import load_spec
from readme_blocks import ROOT

EXAMPLES = ROOT / "examples"
NEEDS = {
    "lit_gpt": "litgpt",
    "xtransformers": "x_transformers",
    "keras_layers": "keras",
    "jax_equinox": "equinox",
}
PASSED = {
    "lit_gpt": ("M9.5",),
    "xtransformers": ("M7.2",),  # its models divide by zero where a head has width 2, see findings.md
    "keras_layers": ("M9.1", "M8.1"),
    "jax_equinox": ("M9.2",),
}
MOST_LINES = 80


def test_every_example_is_here():
    assert {path.stem for path in EXAMPLES.glob("*.py")} == set(NEEDS) == set(PASSED)


@pytest.mark.parametrize("name", NEEDS)
def test_an_example_is_short(name):
    text = (EXAMPLES / f"{name}.py").read_text(encoding="utf-8")
    assert len(text.splitlines()) <= MOST_LINES


@pytest.mark.slow  # imports and compilation: up to ten seconds each
@pytest.mark.parametrize(("name", "criterion"), [(n, c) for n, ids in PASSED.items() for c in ids])
@pytest.mark.filterwarnings("ignore")  # of the libraries
def test_an_example_is_judged(name, criterion):
    if find_spec(NEEDS[name]) is None:
        pytest.skip(f"{NEEDS[name]} is not installed (extra foreign)")
    (implementation,) = load(parse_request(str(EXAMPLES / f"{name}.py")))
    assert misdeclared(implementation) == ""
    impl = JudgedImplementation(implementation)
    record = judge(
        load_spec().by_id[criterion], load_properties()[criterion], impl, Settings(profile="quick")
    )
    assert (record.verdict, record.reason) == ("pass", "")
    assert NEEDS[name].replace("_", "-") in record.packages
