"""Pages made from the spec are up to date, and code shown in CONTRIBUTING is code that exists."""

import re
import textwrap
from pathlib import Path

import pytest

from attest.report.symptoms import SEEN_AS, debugging_page, symptoms
from attest.spec import load_spec

ROOT = Path(__file__).parents[1]
SNIPPETS = re.findall(
    r"^ *<!-- from (\S+) -->\n( *)```\w+\n(.*?)^ *```$",
    (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8"),
    re.M | re.S,
)


def test_the_debugging_page_is_up_to_date():
    written = (ROOT / "docs" / "debugging.md").read_text(encoding="utf-8")
    assert written == debugging_page(load_spec()), "run `make docs`"


def test_every_symptom_is_described_and_leads_somewhere():
    found = symptoms(load_spec())
    assert set(SEEN_AS) == set(found)
    assert all(found.values())


@pytest.mark.parametrize(("path", "code"), [(path, code) for path, _, code in SNIPPETS])
def test_contributing_shows_code_that_exists(path, code):
    assert textwrap.dedent(code) in (ROOT / path).read_text(encoding="utf-8")


def test_contributing_has_a_real_example_of_each():
    assert {path.split("/")[0] for path, _, _ in SNIPPETS} == {"spec", "harness", "impls", "pyproject.toml"}
    parts = {p.split("/")[4] for p, _, _ in SNIPPETS if p.startswith("harness/attest/milestones/")}
    assert parts == {"properties", "defects"}


FROM_SCRATCH = (ROOT / "docs" / "from-scratch.md").read_text(encoding="utf-8")


@pytest.mark.parametrize(
    ("path", "code"), re.findall(r"```python\n# (\S+)\n(.*?)```", FROM_SCRATCH, re.DOTALL)
)
def test_the_page_from_scratch_shows_code_that_exists(path, code):
    assert code in (ROOT / path).read_text(encoding="utf-8")


def test_the_pictures_and_commands_of_the_page_from_scratch_exist():
    from attest.cli import cli

    pictures = re.findall(r"\]\((from-scratch/\S+)\)", FROM_SCRATCH)
    assert len(pictures) == 5
    assert all((ROOT / "docs" / picture).is_file() for picture in pictures)
    commands = set(re.findall(r"^\$ attest (\w+)", FROM_SCRATCH, re.MULTILINE))
    assert commands >= {"train", "attention", "study", "gradcheck"}
    assert commands <= set(cli.list_commands(None))
