"""Runs that can be trusted: exit codes, stopping, resuming, one run per directory, projects of strangers."""

import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import pytest

from attest.running import planning
from attest.running.live_run import _wait
from test_plugin import CAUSAL, IDS, LENGTHS, masks, run  # noqa: F401  the fixture

pytest_plugins = ["pytester"]
BOTH = (f"--criterion={CAUSAL}", f"--criterion={LENGTHS}")
SLOW_MASK = "def causal_mask(self, T, S): import time; time.sleep(600)"


def kept(pytester, label: str = "good") -> list[dict]:
    lines = (pytester.path / "out" / label / "records.jsonl").read_text().splitlines()
    return [json.loads(line) for line in lines]


def test_records_that_cannot_be_written_are_refused_before_anything_runs(run, pytester):  # noqa: F811
    pytester.makepyfile(good=masks())
    (pytester.path / "out" / "good" / "records.jsonl").mkdir(parents=True)
    result, reports = run("--impl=good.py", f"--criterion={CAUSAL}", "-n0")
    assert (result.ret, reports) == (2, {})
    assert "cannot be written (Is a directory); choose another directory" in result.stderr.str()


def test_an_internal_error_is_never_exit_code_0(run, pytester):  # noqa: F811
    broken = """
    import pytest
    @pytest.hookimpl(trylast=True)
    def pytest_runtest_logreport(report):
        if report.when == "call":
            raise RuntimeError("a plugin of pytest fails")
"""
    pytester.makepyfile(good=masks(), broken=broken)
    result, _ = run("-p", "broken", "--impl=good.py", f"--criterion={CAUSAL}", "-n0")
    assert result.ret == 3


def test_a_report_that_cannot_be_written_is_exit_code_3_and_the_others_are_there(run, pytester):  # noqa: F811
    pytester.makepyfile(good=masks(), other=masks("other"))
    (pytester.path / "out" / "good").mkdir(parents=True)
    (pytester.path / "out" / "good" / "badges").write_text("a file where a directory should be")
    result, reports = run("--impl=good.py", "--impl=other.py", f"--criterion={CAUSAL}", "-n0")
    assert result.ret == 3
    assert reports["other"][CAUSAL]["verdict"] == "pass"
    result.stdout.fnmatch_lines(["*ERROR * the report of good cannot be written (FileExistsError*"])
    assert not list((pytester.path / "out" / "good").glob(".*"))


def test_a_resumed_run_equals_one_that_was_not_stopped(run, pytester):  # noqa: F811
    stops = """
    import pytest
    @pytest.hookimpl(trylast=True)
    def pytest_runtest_logreport(report):
        if report.when == "call":
            raise KeyboardInterrupt
"""
    pytester.makepyfile(good=masks(), stops=stops)
    whole, expected = run("--impl=good.py", *BOTH, "-n0")
    stopped, part = run("-p", "stops", "--impl=good.py", *BOTH, "-n0")
    seconds = {r["criterion"]: r["seconds"] for r in kept(pytester)[1:]}
    resumed, found = run("--impl=good.py", *BOTH, "-n0", "--attest-resume")
    assert (whole.ret, stopped.ret, resumed.ret) == (0, 3, 0)
    assert len(part["good"]) == 1
    assert {id: found["good"][id]["seconds"] for id in seconds} == seconds, "judged again"
    for row in (*expected["good"].values(), *found["good"].values()):
        row.pop("seconds")
    assert found == expected
    again, same = run("--impl=good.py", *BOTH, "-n1", "--attest-resume")
    assert again.ret == 0
    assert len(same["good"]) == len(kept(pytester)) - 1 == 2


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        (["--attest-seed=1"], "the seed was 0 and is 1"),
        (["--attest-dtype=float64"], "the dtype was None and is float64"),
        (["--attest-profile=standard"], "the profile was quick and is standard"),
        ([], "the code of the implementation was"),
    ],
)
def test_a_run_of_something_else_is_not_resumed(pytester, change, sentence):
    pytester.makepyfile(good=masks())
    home = pytester.path / "out" / ("good-float64" if "dtype" in "".join(change) else "good")
    home.mkdir(parents=True)
    from attest.records.plan import Plan, Target
    from attest.running.kept_records import settings_of
    from attest.spec import load_spec

    target = Target("good", "good.py", "good", path=str(pytester.path / "good.py"))
    plan = Plan((target,), (CAUSAL,), profile="quick")
    settings = settings_of(target, plan, load_spec())
    if not change:
        settings["implementation"] = "0" * 16
    (home / "records.jsonl").write_text(json.dumps({"settings": settings}) + "\n")
    words = ["--attest-profile=quick", "--attest-reports=out", "--impl=good.py", f"--criterion={CAUSAL}"]
    result = pytester.runpytest_subprocess(*words, "-n0", "--attest-resume", *change)
    assert result.ret == 2
    assert sentence in result.stderr.str()
    assert "run again without --resume" in result.stderr.str()
    assert (home / "records.jsonl").read_text().count("\n") == 1


@pytest.mark.parametrize(
    "forged",
    [
        {"level": "may"},
        {"milestone": "M2"},
        {"seed": 5},
        {"profile": "deep"},
        {"text_hash": "0" * 8},
        {"examples": 1, "floor": 40},
        {"internal": True},
        {},  # a second one for the same criterion
    ],
    ids=str,
)
def test_a_forged_record_is_judged_again(run, pytester, forged):  # noqa: F811
    """Well-formed, and not what the run would have written."""
    wrong = "def causal_mask(self, T, S): return np.ones((T, S), dtype=bool)"
    pytester.makepyfile(good=masks("good", wrong))
    words = ["--impl=good.py", f"--criterion={CAUSAL}", "-n0"]
    first, rows = run(*words)
    assert rows["good"][CAUSAL]["verdict"] == "fail"
    path = pytester.path / "out" / "good" / "records.jsonl"
    settings, told = path.read_text().splitlines()
    record = {**json.loads(told), "verdict": "pass", "failure": None, "reason": "", **forged}
    lines = [settings, *([] if forged else [told]), json.dumps(record)]
    path.write_text("\n".join(lines) + "\n")
    again, rows = run(*words, "--attest-resume")
    assert (first.ret, again.ret) == (1, 1)
    assert rows["good"][CAUSAL]["verdict"] == "fail"


@pytest.mark.parametrize("text", ["", "no json\n", "[1]\n", '{"settings": 7}\n'])
def test_records_of_another_kind_are_refused(run, pytester, text):  # noqa: F811
    pytester.makepyfile(good=masks())
    home = pytester.path / "out" / "good"
    home.mkdir(parents=True)
    (home / "records.jsonl").write_text(text)
    result, _ = run("--impl=good.py", f"--criterion={CAUSAL}", "-n0", "--attest-resume")
    assert result.ret == (2 if text else 0)


def test_two_runs_into_one_directory_are_kept_apart(run, pytester):  # noqa: F811
    pytester.makepyfile(good=masks())
    home = pytester.path / "out" / "good"
    home.mkdir(parents=True)
    holder = "import fcntl, os, sys, time; f = open(sys.argv[1], 'w'); fcntl.flock(f, fcntl.LOCK_EX)\n"
    holder += "f.write(f'{os.getpid()}\\n'); f.flush(); print('held', flush=True); time.sleep(600)"
    other = subprocess.Popen(
        [sys.executable, "-c", holder, str(home / "run.lock")], stdout=subprocess.PIPE, text=True
    )
    assert other.stdout.readline() == "held\n"
    result, reports = run("--impl=good.py", f"--criterion={CAUSAL}", "-n0")
    assert (result.ret, reports) == (2, {})
    assert f"is in use by another run (process {other.pid}); wait for it or choose" in result.stderr.str()
    other.kill()
    other.communicate()
    result, reports = run("--impl=good.py", f"--criterion={CAUSAL}", "-n0")
    assert result.ret == 0, "the lock of a process that is gone holds nobody up"
    assert not (home / "run.lock").exists()


def test_report_none_writes_nothing(run, pytester):  # noqa: F811
    pytester.makepyfile(bad=masks("bad", "def causal_mask(self, T, S): return np.ones((T, S), bool)"))
    result, _ = run("--impl=bad.py", f"--criterion={CAUSAL}", "-n0", "--attest-report=none")
    assert result.ret == 1
    assert not (pytester.path / "out").exists()


def test_links_and_pipes_in_the_place_of_files_are_refused(run, pytester):  # noqa: F811
    pytester.makepyfile(good=masks())
    home = pytester.path / "out" / "good"
    home.mkdir(parents=True)
    (pytester.path / "precious").write_text("mine")
    (home / "records.jsonl").symlink_to(pytester.path / "precious")
    result, _ = run("--impl=good.py", f"--criterion={CAUSAL}", "-n0")
    assert result.ret == 2
    assert (pytester.path / "precious").read_text() == "mine"
    (home / "records.jsonl").unlink()
    os.mkfifo(home / "records.jsonl")
    result, _ = run("--impl=good.py", f"--criterion={CAUSAL}", "-n0")
    assert result.ret == 2


def test_what_one_implementation_does_reaches_no_other(run, pytester):  # noqa: F811
    evil = {
        "moves": "def length_mask(self, *a): import os; os.chdir('/'); return np.ones(2, bool)",
        "patches": "def causal_mask(self, T, S): np.tri = np.array = None; return None",
        "closes": "def causal_mask(self, T, S): import os; os.closerange(0, 100)",
        "floods": "def causal_mask(self, T, S): import os; os.write(2, b'\\xff' * 10**6); 1 / 0",
    }
    pytester.makepyfile(good=masks(), **{name: masks(name, body) for name, body in evil.items()})
    asked = [f"--impl={name}.py" for name in (*evil, "good")]
    result, rows = run(*asked, *BOTH, "-n1")
    assert result.ret == 1
    assert {id: row["verdict"] for id, row in rows["good"].items()} == {CAUSAL: "pass", LENGTHS: "pass"}
    assert rows["moves"][CAUSAL]["verdict"] == "pass"
    assert len(result.stdout.str()) < 60_000


def test_a_plugin_that_writes_no_utf8_or_forges_the_probe_is_judged_like_any_other(run, pytester):  # noqa: F811
    noise = 'import sys; sys.stdout.buffer.write(b"\\xff\\xfe\\nattest-probe {\\n"); sys.stdout.flush()\n'
    pytester.makepyfile(noisy=noise + masks("noisy"))
    result, rows = run("--impl=noisy.py", f"--criterion={CAUSAL}", "-n0")
    assert (result.ret, rows["noisy"][CAUSAL]["verdict"]) == (0, "pass")


def test_modules_in_the_working_directory_stand_in_for_none_of_ours(pytester):
    names = ("json", "random", "locale", "pytest", "numpy", "hypothesis")
    pytester.makepyfile(**dict.fromkeys(names, "raise SystemExit('shadowed')"))
    (pytester.path / "attest").mkdir()
    (pytester.path / "attest" / "__init__.py").write_text("raise SystemExit('shadowed')")
    elsewhere = pytester.path / "mine"
    elsewhere.mkdir()
    (elsewhere / "good.py").write_text(masks())
    words = ["run", "--impl", "mine/good.py", "-c", CAUSAL, "--profile", "quick", "-n", "1"]
    attest = Path(sys.executable).with_name("attest")
    result = subprocess.run([attest, *words], capture_output=True, text=True, timeout=120, check=False)
    assert result.returncode == 0, result.stdout + result.stderr


def test_attest_run_reads_nothing_of_the_project_in_whose_directory_it_is(pytester):
    """A conftest.py may need what is not there, and an implementation may have written it."""
    pytester.makepyfile(good=masks(), conftest="raise SystemExit('of the project')")
    pytester.makeini("[pytest]\naddopts = --no-such-option")
    words = ["run", "--impl", "good.py", "-c", CAUSAL, "--profile", "quick", "-n", "1"]
    attest = Path(sys.executable).with_name("attest")
    result = subprocess.run([attest, *words], capture_output=True, text=True, timeout=120, check=False)
    assert result.returncode == 0, result.stdout + result.stderr


def test_a_worker_that_an_implementation_stops_is_woken(run, pytester):  # noqa: F811
    stops = (
        "def causal_mask(self, T, S): import os; os.kill(os.getppid(), 19); return np.tri(T, S, S - T) > 0"
    )
    pytester.makepyfile(good=masks(), bad=masks("bad", stops))
    result, rows = run(
        "--impl=bad.py", "--impl=good.py", f"--criterion={CAUSAL}", "-n1", "--attest-seconds=60"
    )
    assert result.ret == 0
    assert rows["good"][CAUSAL]["verdict"] == "pass"


def test_what_a_killed_run_left_behind_is_removed(tmp_path, monkeypatch):
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    ended = subprocess.Popen([sys.executable, "-c", ""])
    ended.wait()
    left, alive, foreign = (tmp_path / f"attest-{n}-x" for n in (ended.pid, os.getpid(), "no-number"))
    for path in (left, alive, foreign):
        path.mkdir()
        (path / planning.MARK).touch()
    unmarked = tmp_path / f"attest-{ended.pid}-of-somebody"
    unmarked.mkdir()
    made = Path(planning._shared_directory())
    assert sorted(tmp_path.iterdir()) == sorted([alive, foreign, unmarked, made])


def test_a_plugin_called_like_a_module_of_python_is_refused(run, pytester):  # noqa: F811
    (pytester.path / "mine").mkdir()
    (pytester.path / "mine" / "locale.py").write_text(masks())
    result = pytester.runpytest_subprocess("--impl=mine/locale.py", f"--criterion={CAUSAL}")
    assert result.ret == 2
    assert "--impl=mine/locale.py has the name of a module of Python; rename it" in result.stderr.str()


def test_workers_that_all_die_end_the_run(run, pytester):  # noqa: F811
    dies = """
    import os
    def pytest_configure(config):
        if hasattr(config, "workerinput"):
            os._exit(5)
"""
    pytester.makepyfile(good=masks(), dies=dies)
    result, _ = run("-p", "dies", "--impl=good.py", f"--criterion={CAUSAL}", "-n1")
    assert result.ret == 3
    assert "worker processes died without judging anything" in result.stdout.str() + result.stderr.str()


def test_a_project_with_options_of_the_same_names_works(pytester):
    pytester.makepyfile(
        good=masks(), test_mine="def test_mine(pytestconfig): assert pytestconfig.option.impl == 7"
    )
    pytester.makeconftest("""
        def pytest_addoption(parser):
            parser.addoption("--impl", type=int, default=7)
            parser.addoption("--milestone")
    """)
    pytester.runpytest_subprocess().assert_outcomes(passed=1)
    words = ["--attest-profile=quick", "--attest-reports=out", f"--attest-criterion={CAUSAL}", "-n0"]
    assert pytester.runpytest_subprocess("--attest-impl=good.py", *words).ret == 0


def test_without_pytest_timeout_everything_works(run, pytester):  # noqa: F811
    pytester.makepyfile(good=masks())
    result, _ = run("-p", "no:timeout", "--impl=good.py", f"--criterion={CAUSAL}", "-n0")
    assert result.ret == 0


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP, signal.SIGINT, signal.SIGKILL])
def test_a_signal_to_the_front_ends_everything(pytester, number):
    pytester.makepyfile(good=masks("good", SLOW_MASK))
    words = ["run", "--impl", "good.py", "--profile", "quick", "--reports", "out", "-n", "1"]
    words += [word for id in (CAUSAL, IDS) for word in ("-c", id)]
    attest = Path(sys.executable).with_name("attest")
    # A group of its own, and default handlers: a test runner in the background has SIGINT ignored.
    front = subprocess.Popen(
        [attest, *words], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, start_new_session=True,
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.default_int_handler),
    )  # fmt: skip
    records = pytester.path / "out" / "good" / "records.jsonl"
    deadline = time.monotonic() + 90
    while time.monotonic() < deadline and not (records.exists() and records.read_text().count("\n") > 1):
        time.sleep(0.1)
    time.sleep(1)
    started = time.monotonic()
    front.send_signal(number)
    front.communicate(timeout=60)
    while time.monotonic() - started < 45 and processes_below(pytester.path):
        time.sleep(0.2)
    assert processes_below(pytester.path) == []
    report = json.loads((pytester.path / "out" / "good" / "report.json").read_text())
    assert report["selection"]["missing"] == [CAUSAL]
    assert front.returncode == (-9 if number == signal.SIGKILL else 3)
    assert not (pytester.path / "out" / "good" / "run.lock").exists()


def test_a_pytest_that_a_signal_ends_after_its_reports_is_exit_code_3():
    """Its own code would be -15, which a shell shows as 241."""
    process = subprocess.Popen([sys.executable, "-c", "import os; os.kill(os.getpid(), 15)"])
    assert _wait(process, {"exit": 0}) == 3


def processes_below(directory: Path) -> list[int]:
    """Processes that work in this directory and are not over."""
    found = []
    for entry in Path("/proc").glob("[0-9]*"):
        try:
            here = os.readlink(entry / "cwd") == str(directory)
            if here and (entry / "stat").read_text().rpartition(")")[2].split()[0] != "Z":
                found.append(int(entry.name))
        except OSError:
            continue
    return [pid for pid in found if pid != os.getpid()]
