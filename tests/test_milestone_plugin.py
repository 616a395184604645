"""A plugin brings a milestone with an operation of its own: judged, diagnosed and put on trial."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

PLUGIN = Path(__file__).parent / "softcap" / "softcap.py"


def command(folder: Path, *words: str) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "COLUMNS": "200"}
    environment.pop("PYTEST_XDIST_WORKER", None)
    return subprocess.run(
        [sys.executable, *words],
        cwd=folder,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
    )


@pytest.fixture(scope="module")
def reports(tmp_path_factory):
    """Both implementations of the plugin and one of ours, on the plugin's milestone and one criterion."""
    folder = tmp_path_factory.mktemp("softcap")
    words = ["-m", "pytest", f"--impl={PLUGIN}", "--impl=numpy_scratch", "-n1", "--attest-profile=quick"]
    done = command(folder, *words, "--milestone=M20", "--criterion=M1.5a", "--attest-reports=out")
    assert done.returncode == 1, done.stdout + done.stderr
    found = {p.parent.name: json.loads(p.read_text()) for p in folder.glob("out/*/report.json")}
    return {
        label: {row["id"]: row for m in report["milestones"] for row in m["criteria"]}
        for label, report in found.items()
    }


def verdicts(rows):
    return {id: row["verdict"] for id, row in rows.items()}


def test_an_operation_of_a_plugin_is_judged(reports):
    assert verdicts(reports["softcap"]) == {"M1.5a": "not offered", "M20.1": "pass", "M20.2": "pass"}
    assert reports["softcap"]["M20.1"]["examples"] >= 8


def test_others_do_not_offer_it_and_are_judged_as_before(reports):
    assert verdicts(reports["numpy_scratch"]) == {
        "M1.5a": "pass",
        "M20.1": "not offered",
        "M20.2": "not offered",
    }


def test_a_wrong_one_fails_and_looks_like_the_defect_of_the_plugin(reports):
    assert verdicts(reports["hard_cap"]) == {"M1.5a": "not offered", "M20.1": "fail", "M20.2": "pass"}
    assert "cuts_off_at_the_cap" in json.dumps(reports["hard_cap"]["M20.1"]["failure"])


def test_its_defects_die_and_its_variant_lives(tmp_path):
    done = command(tmp_path, "-m", "attest.cli", "selftest", "--impl", str(PLUGIN), "-n", "2")
    assert done.returncode == 0, done.stdout + done.stderr
    assert "2 of 2 defects killed, 1 of 1 correct variants live" in done.stdout
    assert "criteria that kill nothing: none" in done.stdout


def test_its_operation_is_listed(tmp_path):
    done = command(tmp_path, "-m", "attest.cli", "list", "--offers", "--impl", str(PLUGIN))
    assert done.stdout.count("  M20  softcap\n") == 2


def test_an_operation_that_is_there_already_is_refused(tmp_path):
    text = PLUGIN.read_text().replace(
        "operations=[SOFTCAP]", "operations=[replace(SOFTCAP, name='attention')]"
    )
    (tmp_path / "taken.py").write_text(
        f"import sys\nsys.path.insert(0, {str(PLUGIN.parent)!r})\nfrom dataclasses import replace\n"
        + text.replace("Path(__file__)", f"Path({str(PLUGIN)!r})")
    )
    done = command(tmp_path, "-m", "attest.cli", "selftest", "--impl", "taken.py")
    assert done.returncode == 2
    assert (
        "its operation cannot be used (ValueError: operation name='attention' is taken by M1;" in done.stderr
    )
