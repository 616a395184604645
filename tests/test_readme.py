"""Every command and every example of the README works as shown."""

import json
import os
import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from attest.boundary import JudgedImplementation
from attest.judging.property import load_properties
from attest.registry import load, parse_request
from attest.running.judging import Settings, judge
from attest.spec import load_spec
from readme_blocks import ROOT, commands, files, summary

EXAMPLE = "pytest --impl=mine.py --milestone M1 --milestone M2"
SHOWN = [c for c in commands() if c.split()[0] in ("attest", "pytest") and c != EXAMPLE]


def shell(command: str, folder: Path, profile: str = "quick") -> subprocess.CompletedProcess[str]:
    environment = {
        **os.environ,
        "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}",
        "PYTEST_ADDOPTS": f"--attest-profile={profile}",
        "OMP_NUM_THREADS": "1",
        "COLUMNS": "80",
    }
    environment.pop("PYTEST_XDIST_WORKER", None)
    words = shlex.split(command)
    return subprocess.run(
        words, cwd=folder, env=environment, capture_output=True, text=True, check=False, timeout=300
    )


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A directory with the files of the README."""
    folder = tmp_path_factory.mktemp("readme")
    for name, text in files().items():
        (folder / name).write_text(text)
    return folder


def saved_llama(directory: Path) -> None:
    """A small checkpoint as transformers saves one."""
    from safetensors.numpy import save_file

    from attest.families import family_named
    from attest.reference.oracle import random_parameters

    told = {"hidden_size": 16, "num_attention_heads": 4, "num_key_value_heads": 2, "intermediate_size": 20}
    told |= {"num_hidden_layers": 2, "vocab_size": 11, "model_type": "llama"}
    family = family_named("llama")
    config = family.config(
        d_model=16, num_heads=4, num_kv_heads=2, d_ff=20, num_decoder_layers=2, target_vocab=11
    )
    drawn = random_parameters("language_model", config, np.random.default_rng(0))
    directory.mkdir(exist_ok=True)
    (directory / "config.json").write_text(json.dumps(told))
    save_file({family.names_for(config)[n]: x for n, x in drawn.items()}, directory / "model.safetensors")


def test_the_examples_are_short_and_the_numpy_one_imports_nothing_of_ours():
    lengths = {
        n: len([line for line in text.splitlines()[1:] if line.strip()]) for n, text in files().items()
    }
    assert lengths["mine.py"] <= 30
    assert lengths["port.py"] <= 32
    assert "attest." not in files()["tiny.py"].replace("attest_implementations", "")


def test_the_two_commands_are_those_of_the_makefile():
    made = re.findall(r"^(\w+):", (ROOT / "Makefile").read_text(), re.M)
    assert [c for c in commands() if c.startswith("make")] == ["make run", "make test"]
    assert {"run", "test", "conformance", "reports", "lint"} <= set(made)


def test_the_torch_example_ends_as_the_readme_says(folder):
    assert EXAMPLE in commands()
    run = shell(EXAMPLE, folder, "standard")  # as whoever types it gets it: quick does not see M2.14a
    assert run.returncode == 1, run.stdout + run.stderr
    printed = [line.rstrip() for line in run.stdout.splitlines()]
    assert [line for line in summary() if line.rstrip() not in printed] == []
    assert len(summary()) > 4
    report = json.loads((folder / "reports/mine/report.json").read_text())
    assert {m["id"]: m["verdict"] for m in report["milestones"]} == {
        "M1": "incomplete",
        "M2": "conforms",
    }


def test_the_port_of_llama_is_judged_without_what_it_does_not_have(folder, monkeypatch):
    """It has no cache, no trainer and no `complete`, of which side effects are asked where they are there."""
    monkeypatch.syspath_prepend(folder)
    (port,) = load(parse_request(str(folder / "port.py")))
    criterion, properties = load_spec().by_id["M9.19a"], load_properties()["M9.19a"]
    record = judge(criterion, properties, JudgedImplementation(port), Settings(profile="quick"))
    assert (record.verdict, record.reason) == ("pass", "")


@pytest.mark.parametrize("command", SHOWN)
def test_every_command_of_the_readme_runs(folder, command):
    if command.startswith("attest new"):
        (folder / "first.py").unlink(missing_ok=True)
        (folder / "mine_too.py").unlink(missing_ok=True)
    elif command.startswith("attest compare"):
        saved_llama(folder / "weights")
    elif "first.py" in command:
        shell("attest new first", folder)
    if command.startswith("attest diff"):
        shell("attest run --impl numpy_scratch --criterion M1.5a -n 0", folder)
        shutil.copytree(folder / "reports/numpy_scratch", folder / "reports/mine", dirs_exist_ok=True)
    if command.startswith("attest generate"):
        shell("attest train --impl eager --task reverse --out trained/reverse --steps 3", folder)
    trains = command.startswith(("attest demo", "attest train"))
    # One criterion stands for the milestones, three steps for a training; three steps do not learn.
    short = re.sub("--milestone M1( --milestone M2)?", "--criterion M1.2", command)
    short = re.sub("--milestone M9", "--criterion M9.4", short)
    short = short.replace(" --against hf:llama", "")  # transformers is an extra
    run = shell(f"{short} --steps 3" if trains else short, folder)
    assert run.returncode == (1 if trains else 0), run.stdout + run.stderr
    assert "Traceback" not in run.stdout + run.stderr
    assert run.stdout.strip()
