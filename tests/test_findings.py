"""What reports/kept/findings.md says of other libraries is still seen with the installed versions."""

import re
import warnings
from importlib.util import find_spec

import pytest

from readme_blocks import ROOT

PAGE = (ROOT / "reports/kept/findings.md").read_text(encoding="utf-8")
FINDINGS = {section.splitlines()[0]: section for section in re.split(r"^## ", PAGE, flags=re.MULTILINE)[1:]}


def script_of(section):
    (script,) = re.findall(r"^```python\n(.*?)^```", section, flags=re.MULTILINE | re.DOTALL)
    return script


@pytest.mark.parametrize("title", FINDINGS)
def test_a_finding_names_version_criterion_and_assertions(title):
    package = title.split(":")[0]
    assert re.search(rf"^{package} \d+\.\d+", FINDINGS[title], flags=re.MULTILINE)
    assert "assert " in script_of(FINDINGS[title])


@pytest.mark.parametrize("title", FINDINGS)
def test_a_finding_is_still_seen(title):
    script = script_of(FINDINGS[title])
    for package in re.findall(r"^(?:import|from) (\w+)", script, flags=re.MULTILINE):
        if find_spec(package) is None:
            pytest.skip(f"{package} is not installed")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        exec(compile(script, f"findings.md: {title}", "exec"), {})
