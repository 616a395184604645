"""The attacks of `make torture`, a few of each kind: that they run, and what the pages say of them."""

import re
import warnings
from pathlib import Path

import pytest

from torture.command_lines import lines, refusal_fault
from torture.parsers import PARSERS
from torture.plugins import plugins

PAGE = (Path(__file__).parents[1] / "docs" / "robustness.md").read_text(encoding="utf-8")
SOME_LINES = [
    line for line in lines() if not line.startswith(("run", "bench", "selftest", "mutate", "trial"))
]


@pytest.mark.parametrize("parser", PARSERS, ids=lambda parser: parser.name)
def test_spoiled_inputs_are_accepted_or_refused_in_one_line(parser, tmp_path):
    with warnings.catch_warnings():
        assert set(parser.fuzz(tmp_path / "fuzz", 60)) <= {"accepted", "refused"}


@pytest.mark.parametrize("line", SOME_LINES[::9])
def test_a_wrong_command_line_is_refused_in_one_sentence(line, tmp_path):
    assert refusal_fault(line, tmp_path) == ""


def test_a_numbers_py_in_the_working_directory_stops_no_other_process(tmp_path):
    """`attest trial` judges in processes of its own, which would import it in place of Python's."""
    assert refusal_fault("trial broken.py", tmp_path) == ""


def test_every_attack_has_a_name_of_its_own():
    names = [hostile.name for hostile in plugins()]
    assert len(names) == len(set(names)) > 100
    assert len(lines()) == len(set(lines())) >= 40


def test_the_page_tells_of_every_parser_and_of_no_attack_that_did_more_than_it_may():
    """Made by `make torture`: at least 20,000 spoiled inputs, some of them still good."""
    rows = re.findall(r"^\| (.+?) \| (\d+) \| (\d+) \| (?:(\d+) \| )?(.+?) \|$", PAGE, re.M)
    found = {name: (int(tried), int(good)) for name, tried, good, *_ in rows}
    assert {parser.name for parser in PARSERS} <= set(found)
    assert sum(found[parser.name][0] for parser in PARSERS) >= 20_000
    assert all(good for _, good in found.values())
    assert found["hostile plugins beside a good one, sealed"][0] > 100
    assert {bad for *_, bad in rows} == {"-"}
