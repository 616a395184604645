"""The `attest` command: what each subcommand prints, writes, refuses and returns."""

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest


def test_help_names_every_command(attest):
    code, out, _ = attest()
    assert code == 0
    for name in ("run", "list", "explain", "new", "selftest", "diff", "merge"):
        assert re.search(rf"^  {name} ", out, re.M), f"{name} is not in the help"
    for name in ("run", "list", "explain", "new", "selftest", "diff", "merge"):
        code, out, _ = attest(name, "--help")
        assert code == 0
        assert "Usage: attest" in out


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (["lst"], "Error: command='lst' is unknown; did you mean list?\n"),
        (["run"], "Error: Missing option '--impl' / '-i'; see `attest run --help`\n"),
        (["run", "--nope"], "Error: No such option '--nope'"),
        (["list", "things"], "Error: section='things' is unknown; use one of implementations, "),
        (["list", "d_model=4"], "Error: 'd_model=4' changes a config; it needs --parameters OPERATION\n"),
        (["list", "--parameters", "encodr"], "Error: operation='encodr' is unknown; did you mean encoder?\n"),
        (["list", "--parameters", "encoder", "depth=2"], "Error: depth=2 is not a field of the config; "),
        (["list", "--parameters", "encoder", "d_ff=x"], "Error: d_ff='x' is not a whole number of at "),
        (["list", "--parameters", "encoder", "bias=7"], "Error: bias='7' is not true or false; "),
        (["list", "--impl", "eagr"], "Error: --impl=eagr is not a registered implementation; did you mean"),
        (["list", "--parameters", ""], "Error: operation='' is unknown; use one of attention, "),
        (["list", "--parameters", "encoder", "d_ff=4", "d_ff=8"], "Error: d_ff is given twice; leave one of"),
        (
            ["run", "-i", "eager", "--seeds", "0..1", "--seed", "3"],
            "Error: --seed=3 and --seeds='0..1' contra",
        ),
        (["explain", ""], "Error: '' names nothing; give a criterion, milestone, symptom or defect\n"),
        (
            ["explain", "M1.99"],
            "Error: 'M1.99' is not a criterion, milestone, symptom or defect; did you mean",
        ),
        (["explain", "xyzzy plugh"], "symptom or defect; give a criterion of `attest list criteria`"),
        (["new", "a/b"], "Error: name='a/b' cannot name a report; use letters, digits, dot"),
        (["new", "torch"], "Error: torch.py would hide the module torch; choose another name\n"),
        (["new", "x", "--framework", "jax"], "see `attest new --help`\n"),
        (["selftest", "-m", "Q"], "Error: milestone='Q' is unknown; use one of M1, M2"),
        (["selftest", "-d", "no_scal"], "Error: defect='no_scal' is unknown; did you mean no_scale?\n"),
        (["diff", "a.json", "b.json"], "Error: report=a.json cannot be read (No such file or directory); "),
        (["merge", "a.json"], "Error: report=a.json cannot be read"),
        (
            ["run", "-i", "eager", "-n", "-3"],
            "Error: -n='-3' is not a number of workers; use 0, 1, 2 ",
        ),
    ],
)
def test_a_wrong_command_is_one_sentence_and_exit_code_2(attest, words, sentence):
    code, out, err = attest(*words)
    assert (code, out) == (2, "")
    assert sentence in err
    assert err.count("\n") == 1


def test_list_shows_implementations_milestones_and_criteria(attest):
    _, out, _ = attest("list")
    assert re.search(r"^  eager +attest_impls.eager$", out, re.M)
    assert re.search(r"^  M1 +Scaled dot-product attention \(\d+ criteria, \d+ must\)$", out, re.M)
    assert re.search(r"^  M1.5 +must +The future is hidden$", out, re.M)
    _, milestones, _ = attest("list", "milestones")
    assert "M6" in milestones
    assert "eager" not in milestones


def test_list_prints_canonical_parameters(attest):
    _, out, _ = attest("list", "--parameters", "multi_head_attention", "d_model=16", "bias=false")
    assert out.splitlines() == [
        "query.weight   (16, 16)",
        "key.weight     (16, 16)",
        "value.weight   (16, 16)",
        "output.weight  (16, 16)",
        "4 arrays, 1024 numbers",
    ]
    _, out, _ = attest("list", "--parameters", "attention")
    assert out == "attention has no parameters\n"


def test_list_offers_loads_each_and_survives_a_broken_one(attest, tmp_path):
    (tmp_path / "mine.py").write_text(
        "class Mine:\n    name = 'mine'\n    description = 'for a test'\n"
        "    def causal_mask(self, T, S): ...\n"
        "def attest_implementations(): return [Mine()]\n"
    )
    (tmp_path / "dies.py").write_text("import os; os._exit(3)")
    code, out, errors = attest("list", "--offers", "--impl", "dies.py", "--impl", "mine.py")
    assert code == 2
    assert errors == "Error: dies.py: importing it ended the process (exit code 3)\n"
    assert "dies.py: importing it ended the process (exit code 3)" in out
    assert "mine: for a test" in out
    assert "M1  causal_mask   (not attention, qkv_projection, length_mask, padding_mask)" in out


def test_explain_a_criterion(attest):
    code, out, _ = attest("explain", "m1.2")
    assert code == 0
    for part in ("M1.2 Attention equals its formula (must)", "required", "why", "hint", "M1-AC2", "sources"):
        assert part in out
    assert re.search(r"no_scale +Scores are not divided by sqrt\(d_k\)", out)
    assert "pytest --impl=mine.py --criterion M1.2" in out


def test_explain_a_milestone_and_a_defect(attest):
    _, out, _ = attest("explain", "M1")
    assert "M1-AC7" in out
    assert "M1.5   must    The future is hidden" in out
    _, out, _ = attest("explain", "scale_by_dk")
    assert "caught by M1.2" in out


@pytest.mark.parametrize(
    ("words", "symptom"),
    [
        (["flat", "loss"], "flat loss"),
        (["flat los"], "flat loss"),
        (["loss does not fall"], "flat loss"),
        (["nans"], "NaN"),
        (["same token again and again"], "repeated tokens"),
        (["padding changes result"], "results change with batch"),
    ],
)
def test_explain_a_symptom(attest, words, symptom):
    code, out, _ = attest("explain", *words)
    assert code == 0
    assert out.startswith(f"{symptom}: ")
    assert re.search(r"^  pytest --impl=mine.py --criterion M\d", out, re.M)


def test_new_writes_a_file_once(attest, tmp_path):
    code, out, _ = attest("new", "mine", "--framework", "numpy")
    assert (code, out) == (0, "mine.py written; next: pytest --impl=mine.py\n")
    text = (tmp_path / "mine.py").read_text()
    assert 'name = "mine"' in text
    assert "import attest" not in text
    assert "from attest" not in text
    code, _, err = attest("new", "mine.py")
    assert (code, err) == (2, "Error: mine.py exists already; choose another name or move it away\n")
    assert (tmp_path / "mine.py").read_text() == text


def test_selftest_prints_the_matrix_and_writes_only_whole_runs(attest, tmp_path):
    code, out, _ = attest("selftest", "-d", "no_scale", "-n", "1", "--reports", "out")
    assert code == 0
    assert re.search(r"^M1 +2 +8 +10$", out, re.M)
    assert re.search(r"^no_scale +x +x +x$", out, re.M)
    assert "1 of 1 defects killed" in out
    assert not (tmp_path / "out").exists()


def report(attest, *words):
    code, out, _ = attest("run", "--profile", "quick", "-n", "0", "--json", *words)
    return code, json.loads(out)


def test_run_as_json_and_then_diff_and_merge(attest, tmp_path):
    attest("new", "mine", "--framework", "numpy")
    code, first = report(attest, "--impl", "mine.py", "-c", "M1.5a", "--reports", "one")
    assert (code, first["exit"]) == (0, 0)
    [document] = first["reports"]
    assert document == json.loads((tmp_path / "one/mine/report.json").read_text())
    [row] = document["milestones"][0]["criteria"]
    assert (row["id"], row["verdict"]) == ("M1.5a", "pass")

    spoiled = (tmp_path / "mine.py").read_text().replace("S - T, dtype=bool", "S - T + 1, dtype=bool")
    (tmp_path / "mine.py").write_text(spoiled)
    code, _ = report(attest, "--impl", "mine.py", "-c", "M1.5a", "--reports", "two")
    assert code == 1
    code, out, _ = attest("diff", "one/mine/report.json", "two/mine/report.json")
    assert code == 1
    assert "regressions (1)" in out
    assert "M1.5a The causal mask is right for any two lengths (must): pass -> fail" in out

    code, out, _ = attest("merge", "one/mine/report.json", "-o", "merged")
    assert (code, out) == (0, "merged: 1 criteria of mine\n")
    assert (tmp_path / "merged/index.md").exists()
    code, _, err = attest("merge", "one/mine/report.json", "two/mine/report.json")
    assert code == 2
    assert "M1.5a is pass and fail in two of the reports" in err


def test_run_shows_the_pytest_command_and_passes_the_rest_on(attest):
    attest("new", "mine", "--framework", "numpy")
    shown = ("-i", "mine.py", "-c", "M1.5a", "--profile", "quick", "-n", "0")
    code, out, _ = attest("run", "-v", *shown, "--", "--collect-only")
    assert code == 0
    command = (
        "pytest --attest-impl=mine.py --attest-criterion=M1.5a --attest-seal-files --attest-profile=quick "
        "-n 0 --collect-only"
    )
    assert out.splitlines()[0] == command
    assert "M1.5a[mine]" in out
    assert "1 test collected" in out


def test_a_run_that_ends_without_its_records_is_exit_code_3(attest, tmp_path):
    (tmp_path / "quits.py").write_text(
        "import os\nclass Quits:\n    name = 'quits'\n"
        "    def causal_mask(self, T, S):\n"
        "        os.kill(int(os.popen(f'ps -o ppid= -p {os.getppid()}').read()), 9)\n"
        "def attest_implementations(): return [Quits()]\n"
    )
    code, _, err = attest(
        "run", "--impl", "quits.py", "--open", "-c", "M1.5a", "--profile", "quick", "-n", "0"
    )
    assert code == 3  # with -n 0 pytest itself stands above the process that ends what a judge leaves behind
    assert "the run ended before its records were complete, so it proves nothing" in err


def test_run_refuses_as_pytest_does(attest):
    code, _, err = attest("run", "--impl", "eagr")
    assert (code, err) == (2, "ERROR: --impl=eagr is not a registered implementation; did you mean eager?\n")


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (["--reports", ""], "reports='' names no directory; use for example reports"),
        (
            ["--reports", "a_file"],
            "reports=a_file cannot be written (Not a directory); choose another ",
        ),
        (["--case", ""], "case='' has no name=value; paste the whole line of the report"),
        (["--case", "foo=1"], "case='foo=1' fits none of the criteria chosen; paste the whole line of the "),
    ],
)
def test_run_refuses_before_anything_is_judged_or_written(attest, tmp_path, words, sentence):
    (tmp_path / "a_file").write_text("")
    code, _, err = attest("run", "--impl", "eager", "-c", "M1.2", "-n", "0", *words)
    assert code == 2
    assert err.startswith(f"ERROR: {sentence}")
    assert [p.name for p in tmp_path.iterdir()] == ["a_file"]


def test_a_fault_of_ours_is_one_sentence_and_exit_code_3(attest, monkeypatch):
    monkeypatch.setattr("attest.spec.load_spec", lambda: 1 / 0)
    code, out, err = attest("list")
    assert (code, out) == (3, "")
    assert err.startswith(
        "Error: attest failed (ZeroDivisionError: division by zero); set ATTEST_TRACEBACK=1"
    )


def test_a_file_that_ends_too_soon_within_is_a_fault_of_ours_and_no_ctrl_c(attest, monkeypatch):
    def ends() -> None:
        raise EOFError("no more")

    monkeypatch.setattr("attest.spec.load_spec", ends)
    code, _, err = attest("list")
    assert code == 3
    assert err.strip().startswith("Error: attest failed (EOFError: no more)")


def test_a_reader_that_is_gone_is_no_verdict():
    reading, writing = os.pipe()
    os.close(reading)
    words = [Path(sys.executable).with_name("attest"), "list"]
    run = subprocess.run(words, stdout=writing, stderr=subprocess.PIPE, text=True, check=False)
    os.close(writing)
    assert (run.returncode, run.stderr) == (3, "Error: the output was closed before its end\n")


def test_an_output_directory_that_cannot_be_made(attest, tmp_path):
    attest("new", "mine", "--framework", "numpy")
    report(attest, "--impl", "mine.py", "-c", "M1.5a", "--reports", "one")
    code, _, err = attest("merge", "one/mine/report.json", "-o", "mine.py/below")
    assert (code, err) == (2, "Error: mine.py/below cannot be used (Not a directory); check the path\n")


def test_the_live_view_shows_a_table_and_the_first_failure():
    from rich.console import Console

    from attest.records.record import Record
    from attest.report.live import Progress, print_summary, watch

    def event(id, verdict):
        record = Record("mine", id, "M1", "must", verdict=verdict, reason="")
        return {"record": record.to_json(), "failure": [f"{id} failed so"] if verdict == "fail" else []}

    console = Console(record=True, width=100, force_terminal=True)
    closing = watch(
        iter(
            [
                {"labels": ["mine"], "criteria": ["M1.1", "M1.2", "M1.3"], "titles": {"M1": "M1 Attention"}},
                event("M1.1", "pass"),
                event("M1.2", "fail"),
                event("M1.3", "fail"),
                {"exit": 1, "summary": ["mine does not conform"], "reports": []},
            ]
        ),
        console,
    )
    print_summary(closing["summary"], console)
    seen = console.export_text()
    assert "first failure of mine" in seen
    assert "M1.2 failed so" in seen
    assert "M1.3 failed so" not in seen
    assert "mine does not conform" in seen
    progress = Progress()
    progress.begin(["mine"], ["M1.1"], {"M1": "M1 Attention"})
    assert progress.table().row_count == 1


def test_a_list_of_a_million_layers_is_refused(attest):
    code, out, errors = attest("list", "--parameters", "transformer", "num_encoder_layers=1000000")
    assert (code, out) == (2, "")
    assert "num_encoder_layers=1000000 is too long a list; use at most 1000" in errors
