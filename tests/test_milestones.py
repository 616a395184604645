"""Milestones can be counted: M10 comes after M9, and none is left out of the self-test in silence."""

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import attest.milestones
from attest.diagnosis import likeness
from attest.diagnosis.trial import Naming, table
from attest.judging.catalogue import Defect
from attest.milestone_registry import PARTS, files_not_loaded, milestones
from attest.order import criterion_order, milestone_order
from attest.records.record import PASS, Record
from attest.reference.parts.attention import Attention
from attest.registry import parse_request
from attest.report.document import report_document
from attest.report.kill_matrix import kill_matrices
from attest.report.merge import merge
from attest.running.selection import ask, select
from attest.spec import read_spec, spec_directory

FOLDERS = sorted(p.parent for p in Path(attest.milestones.__file__).parent.glob("*/__init__.py"))
MILESTONE = """
[milestone]
id = "{id}"
title = "Square masks"
summary = "A milestone for the tests."
operations = ["causal_mask"]
[milestone.acceptance]
AC1 = "The causal mask of equal lengths has a true diagonal"
"""
CRITERION = """
[[criterion]]
id = "{id}"
title = "The diagonal is visible"
level = "must"
acceptance = ["AC1"]
statement = "Every position sees itself."
why = "A position that does not see itself cannot be copied."
sources = ["M30-AC1"]
needs = ["causal_mask"]
stands_on = ["M1.5a"]
hint = "Print it for T = S = 3."
"""


def written(path: Path, id: str, numbers: tuple[int, ...] = (1,)) -> Path:
    """A spec file of this milestone."""
    criteria = "".join(CRITERION.format(id=f"{id}.{n}") for n in numbers)
    path.write_text(MILESTONE.format(id=id) + criteria)
    return path


@pytest.fixture(scope="module")
def spec(tmp_path_factory):
    """A copy of our spec with M30."""
    folder = tmp_path_factory.mktemp("spec")
    for path in spec_directory().glob("*.toml"):
        shutil.copy(path, folder)
    written(folder / "m30.toml", "M30", (10, 2, 1))
    return read_spec(sorted(folder.glob("*.toml"), reverse=True))


def test_ids_are_ordered_by_number():
    assert sorted(["MC", "M10", "M9", "M2", "M1"], key=milestone_order) == ["M1", "M2", "M9", "M10", "MC"]
    ids = ["M10.1", "MC.1", "M2.10", "M2.4b", "M2.4", "M2.4a", "M9.1"]
    wanted = ["M2.4", "M2.4a", "M2.4b", "M2.10", "M9.1", "M10.1", "MC.1"]
    assert sorted(ids, key=criterion_order) == wanted


def test_the_spec_and_a_selection_have_m30_after_m9_and_before_mc(spec):
    assert [m.id for m in spec.milestones][-3:] == ["M10", "M30", "MC"]
    chosen, refused = select(spec, ["M30", "M9", "M2"], ["MC.1"])
    assert list(dict.fromkeys(c.milestone for c in chosen)) == ["M2", "M9", "M30", "MC"]
    assert refused == []


def record(spec, id: str) -> Record:
    c = spec.by_id[id]
    return Record("mine", id, c.milestone, c.level, PASS, text_hash=c.text_hash, spec_version=spec.version)


def test_reports_and_merged_reports_have_m30_after_m9(spec):
    parts = [report_document("mine", [record(spec, id)], spec) for id in ("M30.1", "MC.1", "M9.1", "M2.1")]
    assert [m["id"] for m in merge(parts)["milestones"]] == ["M2", "M9", "M30", "MC"]
    whole = report_document("mine", [record(spec, id) for id in ("M30.1", "M9.1", "MC.1", "M1.1")], spec)
    assert [m["id"] for m in whole["milestones"]] == ["M1", "M9", "M30", "MC"]


def test_the_kill_matrix_and_the_page_of_the_diagnosis_have_m10_after_m9():
    ids = ("M10", "MC", "M9", "M1")
    rows = [
        {"name": f"d{id}", "milestone": id, "verdict": "killed", "expected": [f"{id}.1"], "killed_by": []}
        for id in ids
    ]
    assert [id for id, _, _ in kill_matrices({"defects": rows})] == ["M1", "M9", "M10", "MC"]
    lines = list(table(Naming("d", f"{id}.1", ("d",), 1.0) for id in ids))
    assert [line.split()[1] for line in lines[2:6]] == ["M1", "M9", "M10", "MC"]


def test_the_diagnosis_of_m10_knows_the_defects_of_all_earlier_milestones(monkeypatch):
    known = {m: Defect(m, "A sin.", (f"{m}.1",), Attention) for m in ("M1", "M2", "M9", "M10", "M11", "MC")}
    monkeypatch.setattr(likeness, "defects", lambda: known)
    assert [d.name for _, d in likeness._candidates("M10.1")] == [
        "M10",
        "M9",
        "M2",
        "M1",
    ]  # the near ones first
    assert [d.name for _, d in likeness._candidates("M2.1")] == ["M2", "M1"]
    assert {d.name for _, d in likeness._candidates("MC.1")} == set(known)


def test_a_folder_has_the_name_of_its_spec_file_and_all_its_parts():
    assert [f.name for f in FOLDERS] == sorted(p.stem for p in spec_directory().glob("*.toml"))
    for folder in FOLDERS:
        missing = [
            part
            for part in ("properties", "defects", "cases", "variants")
            if not (folder / part).is_dir() and not (folder / f"{part}.py").is_file()
        ]
        assert missing == [], f"{folder.name} lacks {missing}"


def test_our_milestones_come_through_the_hook_that_plugins_use():
    ours = attest.milestones.attest_milestones()
    assert [m.file.stem for m in ours] == [f.name for f in FOLDERS]
    assert all(m.part(part) == f"attest.milestones.{m.file.stem}.{part}" for m in ours for part in PARTS)
    assert list(milestones()[: len(ours)]) == ours


def test_every_file_of_our_milestones_is_loaded():
    assert files_not_loaded() == []


PLUGIN = """
from pathlib import Path

import numpy as np

import attest


class Tenth:
    name = "tenth"

    def causal_mask(self, T, S):
        return np.tri(T, S, S - T, dtype=bool)


def attest_implementations():
    return [Tenth()]


def attest_milestones():
    spec = Path(__file__).parent / "m30_tenth.toml"
    return [attest.Milestone(spec=spec, properties="tenth_properties", defects="tenth_defects")]
"""
PROPERTIES = """
from attest.checks import expect
from attest.properties import verifies


@verifies({ids})
def diagonal_is_visible(impl):
    expect(impl.call("causal_mask", 4, 4).diagonal().all(), "the diagonal is hidden")
"""
DEFECT = """
import numpy as np

from attest.judging.catalogue import defect
from attest.reference.implementation import ReferenceImplementation


@defect({ids})
class {name}(ReferenceImplementation):
    \"\"\"A position does not see itself.\"\"\"

    def causal_mask(self, T, S):
        return np.tri(T, S, S - T - 1, dtype=bool)
"""


def attest_command(folder: Path, *words: str) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "COLUMNS": "200"}
    command = [sys.executable, "-m", "attest.cli", *words]
    return subprocess.run(
        command, cwd=folder, env=environment, capture_output=True, text=True, check=False, timeout=300
    )


@pytest.fixture
def tenth(tmp_path):
    """A plugin with M30: M30.2 has no property, M30.3 no defect, and one file of defects is not reached."""
    (tmp_path / "tenth.py").write_text(PLUGIN)
    written(tmp_path / "m30_tenth.toml", "M30", (1, 2, 3))
    (tmp_path / "tenth_properties.py").write_text(PROPERTIES.format(ids='"M30.1", "M30.3"'))
    loose = tmp_path / "tenth_defects" / "loose"
    loose.mkdir(parents=True)
    (loose.parent / "__init__.py").write_text("")
    (loose.parent / "first.py").write_text(DEFECT.format(ids='"M30.1"', name="hides_the_diagonal"))
    (loose / "second.py").write_text(DEFECT.format(ids='"M30.2", "M30.3"', name="hides_itself"))
    return tmp_path


def test_the_self_test_fails_for_what_m30_lacks(tenth):
    done = attest_command(tenth, "selftest", "--impl", "tenth.py", "-n", "1")
    assert done.returncode == 1, done.stdout + done.stderr
    for line in (
        "1 of 1 defects killed, 0 of 0 correct variants live",
        "criteria that kill nothing: M30.2, M30.3",
        "criteria without a property: M30.2",
        "criteria without a defect: M30.2, M30.3",
    ):
        assert line in done.stdout
    assert "tenth_defects/loose/second.py" in done.stdout.partition("files that were not loaded: ")[2]


def test_the_self_test_passes_when_m30_is_whole(tenth):
    (tenth / "tenth_properties.py").write_text(PROPERTIES.format(ids='"M30.1", "M30.2", "M30.3"'))
    (tenth / "tenth_defects" / "loose" / "__init__.py").write_text("")
    done = attest_command(tenth, "selftest", "--impl", "tenth.py", "-n", "2")
    assert done.returncode == 0, done.stdout + done.stderr
    assert "2 of 2 defects killed" in done.stdout
    assert "criteria that kill nothing: none" in done.stdout


def test_a_plugin_without_a_milestone_or_with_a_stray_defect_is_refused(tenth):
    (tenth / "bare.py").write_text(PLUGIN.replace("attest_milestones", "other"))
    bare = attest_command(tenth, "selftest", "--impl", "bare.py")
    assert (bare.returncode, bare.stdout) == (2, "")
    assert "--impl=bare.py brings no milestone; give it attest_milestones()" in bare.stderr
    (tenth / "tenth_defects" / "first.py").write_text(DEFECT.format(ids='"M30.9"', name="stray"))
    stray = attest_command(tenth, "selftest", "--impl", "tenth.py")
    assert stray.returncode == 2
    assert "the defect stray names 'M30.9', which is not a criterion; name one of the spec" in stray.stderr


@pytest.mark.parametrize(
    ("before", "after", "sentence"),
    [
        ("return [attest.M", "return (x for x in ()) or [attest.M", "attest_milestones() returned no list"),
        (
            "return [attest.M",
            "return [7, attest.M",
            "attest_milestones() has an entry of type int; use attest.",
        ),
        ("m30_tenth.toml", "m11.toml", "m11.toml, which is not a file"),
        ('"tenth_defects"', '"no_defects"', "no_defects cannot be imported (ModuleNotFoundError"),
        ("spec = Path", "1 / 0; spec = Path", "listing the milestones raised ZeroDivisionError"),
        ('defects="tenth_defects"', "operations=[7]", "its operation cannot be used (AttributeError"),
    ],
)
def test_a_hook_that_cannot_be_used_is_the_plugins_fault(tenth, before, after, sentence):
    assert before in PLUGIN
    (tenth / "tenth.py").write_text(PLUGIN.replace(before, after))
    answer = ask(parse_request(str(tenth / "tenth.py")))
    assert sentence in answer.broken
    assert "\n" not in answer.broken
    assert answer.milestones == ()


def test_a_malformed_spec_of_a_plugin_is_a_usage_error(tenth):
    (tenth / "m30_tenth.toml").write_bytes(b"\xff")
    done = attest_command(tenth, "run", "--impl", "tenth.py", "-n", "0")
    assert done.returncode == 2
    assert "m30_tenth.toml: byte 0 is not UTF-8; save the file as UTF-8" in done.stdout + done.stderr


def test_offers_and_a_run_show_m30(tenth):
    offers = attest_command(tenth, "list", "--offers", "--impl", "tenth.py")
    assert "  M1  causal_mask   (not attention" in offers.stdout
    (tenth / "tenth_properties.py").write_text(PROPERTIES.format(ids='"M30.1", "M30.2", "M30.3"'))
    done = attest_command(tenth, "run", "--impl", "tenth.py", "-m", "M30", "-n", "1", "--reports", "out")
    assert done.returncode == 0, done.stdout + done.stderr
    report = json.loads((tenth / "out" / "tenth" / "report.json").read_text())
    assert [(m["id"], m["verdict"]) for m in report["milestones"]] == [("M30", "conforms")]


def test_every_kind_of_case_has_a_word_of_its_own():
    """A printed case is read back by its kind: two of one kind would replay each other's lines."""
    harness = Path(attest.__file__).parent
    text = "\n".join(path.read_text() for path in harness.rglob("*.py"))
    kinds = [kind for kind in re.findall(r'^    kind: ClassVar\[str\] = "(\w*)"', text, re.M) if kind]
    assert len(kinds) > 20
    assert [kind for kind in set(kinds) if kinds.count(kind) > 1] == []
