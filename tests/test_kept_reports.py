"""What each of our implementations must reach, read off the reports.

By default those in reports/kept; `make conformance` names the folder of new ones in ATTEST_REPORTS.
"""

import json
import os
import subprocess
from pathlib import Path

import pytest

from attest.selftest import MUST_BE_EMPTY
from attest.spec import load_spec

ROOT = Path(__file__).parents[1]
REPORTS = ROOT / os.environ.get("ATTEST_REPORTS", "reports/kept")
NUMBERED = [m.id for m in load_spec().milestones if m.id.removeprefix("M").isdigit()]
# M7 to M9 of compiled are judged by `make conformance-compiled`: their graphs take too long for every merge.
MUST_CONFORM = {
    "eager": NUMBERED,
    "compiled": [*(f"M{number}" for number in range(1, 7)), "MC"],
    "numpy_scratch": NUMBERED,
    "torch_nn": ["M1", "M2", "M4", "M9"],
}


@pytest.mark.slow
@pytest.mark.parametrize("name", MUST_CONFORM)
def test_an_implementation_of_ours_conforms_where_it_must(name):
    report = json.loads((REPORTS / name / "report.json").read_text())
    verdicts = {m["id"]: m["verdict"] for m in report["milestones"]}
    left_out = {m["id"]: m["not_selected"] for m in report["milestones"] if m["id"] in MUST_CONFORM[name]}
    assert list(left_out) == MUST_CONFORM[name]
    assert not any(left_out.values()), "a milestone is judged whole"
    assert [v for v in verdicts.values() if v == "does not conform"] == []
    reached = ("conforms", "conforms with known failures")
    assert [id for id in MUST_CONFORM[name] if verdicts.get(id) not in reached] == []
    known = [c["id"] for m in report["milestones"] for c in m["criteria"] if c["verdict"] == "known failure"]
    assert not known or name == "torch_nn", f"{name} is ours to repair: {known}"


@pytest.mark.slow
def test_the_harness_passed_its_own_trial():
    summary = json.loads((REPORTS / "selftest.json").read_text())
    assert [d["name"] for d in summary["defects"] if d["verdict"] != "killed"] == []
    assert [v["name"] for v in summary["variants"] if v["verdict"] != "lives"] == []
    assert {name: summary.get(name) for name in MUST_BE_EMPTY if summary.get(name)} == {}


def git(*words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(["git", *words], cwd=ROOT, capture_output=True, text=True, check=False)


@pytest.mark.skipif(not (ROOT / ".git").exists(), reason="only a clone knows what is tracked")
def test_only_kept_reports_are_tracked():
    tracked = git("ls-files", "reports").stdout.split()
    assert tracked
    assert [path for path in tracked if not path.startswith("reports/kept/")] == []
    assert [p for p in tracked if p.endswith("records.jsonl") or "/repro/" in p] == []
    written = ("reports/eager/report.json", "reports/selftest.json", "reports/bench.json", "reports/x/M1.md")
    assert git("check-ignore", *written).stdout.split() == list(written)
    assert git("check-ignore", "reports/kept/eager/report.json").returncode == 1
