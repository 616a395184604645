"""The pytest plugin for real: verdicts, exit codes and what a hostile plugin costs."""

import json

import pytest

import attest.running.session  # noqa: F401  numpy must outlive pytester's runs in this process

pytest_plugins = ["pytester"]

MASKS = """
import numpy as np

class {Name}:
    name = "{name}"
    dtypes = ("float32", "float64")
    def causal_mask(self, T, S):
        return np.tri(T, S, S - T, dtype=bool)
    def length_mask(self, lengths, size):
        return (np.arange(size) < np.asarray(lengths)[:, None])[:, None]
    def padding_mask(self, ids, pad_id):
        return (np.asarray(ids) != pad_id)[:, None]
    {more}

def attest_implementations():
    return [{Name}()]
"""
CAUSAL, LENGTHS, IDS = "M1.5a", "M1.4b", "M1.4c"


def masks(name: str = "good", more: str = "pass") -> str:
    return MASKS.format(Name=name.title(), name=name, more=more)


@pytest.fixture
def run(pytester, monkeypatch):
    """Run pytest in a process of its own; the result and the reports by label."""
    monkeypatch.setenv("OMP_NUM_THREADS", "1")

    def run(*arguments: str):
        result = pytester.runpytest_subprocess("--attest-profile=quick", "--attest-reports=out", *arguments)
        reports = {
            p.parent.name: json.loads(p.read_text()) for p in (pytester.path / "out").glob("*/report.json")
        }
        return result, {
            label: {row["id"]: row for m in report["milestones"] for row in m["criteria"]}
            for label, report in reports.items()
        }

    return run


STOPS = """
    import pytest
    @pytest.hookimpl(trylast=True)
    def pytest_runtest_logreport(report):
        if report.when == "call":
            raise KeyboardInterrupt
"""


def test_an_interrupted_run_leaves_a_report_that_names_what_is_missing(run, pytester):
    pytester.makepyfile(good=masks(), stops=STOPS)
    result, rows = run(
        "-p", "stops", "--impl=good.py", *(f"--criterion={c}" for c in (CAUSAL, LENGTHS)), "-n0"
    )
    assert result.ret == 3
    assert len(rows["good"]) == 1
    report = json.loads((pytester.path / "out/good/report.json").read_text())
    assert len(report["selection"]["missing"]) == 1
    assert [m["verdict"] for m in report["milestones"]] == ["incomplete"]
    result.stdout.fnmatch_lines(["*1 record is missing, so this run proves nothing: *"])
    result.stdout.no_fnmatch_line("*every milestone asked for conforms*")


def test_a_failure_does_not_show_what_was_logged(run, pytester):
    body = """def causal_mask(self, T, S):
        import logging
        logging.getLogger("framework").error("logged words")
        return np.ones((T, S), bool)"""
    pytester.makepyfile(talks=masks("talks", body))
    result, _ = run("--impl=talks.py", f"--criterion={CAUSAL}", "-n0")
    assert result.ret == 1
    result.stdout.no_fnmatch_line("*logged words*")


def test_a_conforming_plugin_gives_the_same_records_alone_and_on_two_workers(run, pytester):
    pytester.makepyfile(good=masks())
    selection = [f"--criterion={c}" for c in (CAUSAL, LENGTHS, IDS)]
    alone, one = run("--impl=good.py", *selection, "-n0")
    shared, two = run("--impl=good.py", *selection, "-n2")
    assert (alone.ret, shared.ret) == (0, 0)
    for row in (*one["good"].values(), *two["good"].values()):
        assert row["verdict"] == "pass"
        assert row["examples"] >= row["floor"] > 0
        row.pop("seconds")
    assert one == two


def test_bad_plugins_cost_only_themselves(run, pytester):
    plugins = {
        "good": masks(),
        "no_hook": "x = 1",
        "no_import": "import no_such_module",
        "gives_none": "def attest_implementations(): return None",
        "gives_one": masks("one").replace("[One()]", "One()"),
        "raises": "def attest_implementations(): raise RuntimeError('no weights')",
        "slash": masks("slash").replace('"slash"', '"a/b"'),
        "escapes": masks("escapes").replace('"escapes"', r'"\x1b[31mred"'),
        "twins": masks("twin").replace("[Twin()]", "[Twin(), Twin()]"),
        "dies": "import os; os._exit(7)",
    }
    pytester.makepyfile(**plugins)
    result, rows = run(*(f"--impl={name}.py" for name in plugins), f"--criterion={CAUSAL}", "-n0")
    assert result.ret == 1
    verdicts = {label: found[CAUSAL]["verdict"] for label, found in rows.items()}
    assert verdicts == dict.fromkeys(plugins, "error") | {"good": "pass"}
    reasons = {label: found[CAUSAL]["reason"] for label, found in rows.items()}
    assert "has no function attest_implementations()" in reasons["no_hook"]
    assert "cannot be imported (ModuleNotFoundError" in reasons["no_import"]
    assert "returned None; return a list" in reasons["gives_none"]
    assert "returned one object (One); return a list" in reasons["gives_one"]
    assert "raised RuntimeError: no weights" in reasons["raises"]
    assert "name='a/b' cannot name a report" in reasons["slash"]
    assert r"name='\x1b[31mred' cannot name a report" in reasons["escapes"]
    assert "two implementations are named 'twin'; give each its own name" in reasons["twins"]
    assert "importing it ended the process (exit code 7)" in reasons["dies"]
    assert "Traceback" not in result.stdout.str() + result.stderr.str()


def test_a_plugin_that_exits_crashes_or_hangs_costs_the_criteria_it_was_in(run, pytester):
    hostile = """
    def length_mask(self, lengths, size):
        import os
        os._exit(9)
    def padding_mask(self, ids, pad_id):
        import ctypes
        ctypes.string_at(0)
    def attention(self, config):
        import sys
        sys.exit(5)
    def qkv_projection(self, config):
        while True:
            pass
"""
    pytester.makepyfile(hostile=masks("hostile", hostile.strip()))
    selection = [f"--criterion={c}" for c in ("M1.1", "M1.2", LENGTHS, IDS, CAUSAL)]
    result, rows = run("--impl=hostile.py", *selection, "-n1", "--attest-seconds=8")
    assert result.ret == 1
    seen = {id: (row["verdict"], row["reason"]) for id, row in rows["hostile"].items()}
    assert seen[CAUSAL] == ("pass", "")
    assert seen[LENGTHS] == ("error", "the implementation ended the process with exit code 9")
    assert seen[IDS] == ("error", "the implementation ended the process by signal 11")
    assert seen["M1.2"] == ("error", "the implementation called exit(5)")
    assert seen["M1.1"] == ("error", "did not finish within 8 s")


def test_wrong_requests_are_named_and_the_rest_goes_on(run, pytester):
    pytester.makepyfile(good=masks(), again=masks())
    asked = ("--impl=eagr", "--impl=", "--impl=.", "--impl=good.py", "--impl=again.py")
    result, rows = run(*asked, f"--criterion={CAUSAL}", "--criterion=M1.77", "--milestone=M99", "-n0")
    assert result.ret == 2
    assert rows["good"][CAUSAL]["verdict"] == "pass"
    assert list(rows) == ["good"]
    result.stdout.fnmatch_lines(
        [
            "*--impl=eagr is not a registered implementation; did you mean eager?",
            "*--impl='' names nothing; use one of *",
            "*two implementations are named 'good' (good.py and again.py); rename one",
            "*--milestone='M99' is unknown; *see `attest list`",
            "*--criterion='M1.77' is unknown; did you mean M1.7? see `attest list`",
        ]
    )


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["--impl=eagr"], "ERROR: --impl=eagr is not a registered implementation; did you mean eager?"),
        (["--impl=numpy_scratch", "M1"], "argument='M1' is no path; choose with --milestone M1"),
        (["--impl=numpy_scratch", "--criterion=M1.77"], "ERROR: --criterion='M1.77' is unknown"),
        (["--impl=numpy_scratch", "--attest-profile=fast"], "profile='fast' is unknown; use one of quick"),
        (["--impl=numpy_scratch", "--attest-seed=-1"], "seed='-1' is not a whole number from 0"),
        (["--impl=numpy_scratch", "--attest-seconds=soon"], "seconds='soon' is no time limit"),
        (["--impl=numpy_scratch", "--attest-dtype=int8"], "dtype='int8' is unknown; use one of float32"),
        (["--impl=numpy_scratch", "--attest-device=tpu"], "device='tpu' is unknown; use cpu, cuda"),
        (["--impl=numpy_scratch", "--dist=loadfile", "-n1"], "--dist=loadfile hangs when a worker dies"),
        (["--criterion=M1.2"], "ERROR: --criterion needs --impl=NAME; see `attest list`"),
    ],
)
def test_usage_errors_are_one_sentence_and_exit_code_2(tmp_path, monkeypatch, capsys, arguments, sentence):
    monkeypatch.chdir(tmp_path)
    assert pytest.main(arguments) == 2
    printed = capsys.readouterr()
    assert sentence in printed.err
    assert "Traceback" not in printed.out + printed.err


def test_cuda_where_there_is_none(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("attest.running.selection.cuda_available", lambda: False)
    assert pytest.main(["--impl=numpy_scratch", "--attest-device=cuda"]) == 2
    assert "device='cuda' needs CUDA, and torch sees none here; use cpu" in capsys.readouterr().err


def test_missing_records_are_exit_code_3_and_named(run, pytester):
    pytester.makepyfile(good=masks())
    pytester.makeconftest("""
        import pytest
        @pytest.hookimpl(trylast=True)
        def pytest_collection_modifyitems(items):
            del items[1:]
    """)
    result, _ = run("--impl=good.py", f"--criterion={CAUSAL}", f"--criterion={LENGTHS}", "-n0")
    assert result.ret == 3
    assert f"{CAUSAL}[good]" in result.stdout.str() or f"{LENGTHS}[good]" in result.stdout.str()
    assert "missing" in result.stdout.str()


def test_plain_pytest_runs_the_tests_of_a_project_and_imports_nothing_of_ours(pytester):
    pytester.makepyfile("""
        import sys
        def test_light():
            heavy = {"attest.running.session", "attest.contract", "torch", "attest.spec"}
            assert not heavy & set(sys.modules)
    """)
    result = pytester.runpytest_subprocess()
    result.assert_outcomes(passed=1)


def test_conformance_collects_nothing_else(pytester):
    pytester.makepyfile(good=masks(), test_mine="def test_mine(): assert False")
    result = pytester.runpytest_subprocess("--impl=good.py", f"--criterion={CAUSAL}", "--collect-only", "-q")
    assert f"{CAUSAL}[good]" in result.stdout.str()
    assert "test_mine" not in result.stdout.str()


MILESTONE = """
[milestone]
id = "M70"
title = "Square masks"
summary = "A milestone that a plugin brings."
operations = ["causal_mask"]
[milestone.acceptance]
AC1 = "The causal mask of equal lengths has a true diagonal"

[[criterion]]
id = "M70.1"
title = "The diagonal is visible"
level = "must"
acceptance = ["AC1"]
statement = "Every position sees itself."
why = "A position that does not see itself cannot be copied."
sources = ["M70-AC1"]
needs = ["causal_mask"]
stands_on = ["M1.5a"]
hint = "Print it for T = S = 3."
"""
PROPERTIES = """
from attest.checks import expect
from attest.properties import verifies

@verifies("M70.1")
def diagonal_is_visible(impl):
    expect(impl.call("causal_mask", 4, 4).diagonal().all(), "the diagonal is hidden")
"""
BRINGS = """
from pathlib import Path

def attest_milestones():
    return [(Path(__file__).parent / "m70.toml", "m70_criteria")]
"""


def test_a_plugin_brings_a_milestone_of_its_own(run, pytester):
    pytester.makepyfile(mine=masks("mine") + BRINGS, m70_criteria=PROPERTIES)
    pytester.path.joinpath("m70.toml").write_text(MILESTONE)
    result, rows = run("--impl=mine.py", "--milestone=M70", "-n1")
    assert result.ret == 0
    assert rows["mine"]["M70.1"]["verdict"] == "pass"


def test_a_milestone_that_is_not_there_is_the_plugins_fault(run, pytester):
    pytester.makepyfile(mine=masks("mine") + BRINGS, m70_criteria=PROPERTIES)
    result, rows = run("--impl=mine.py", f"--criterion={CAUSAL}", "-n0")
    assert result.ret == 1
    assert "m70.toml, which is not a file" in rows["mine"][CAUSAL]["reason"]
