"""The pytest plugin: `pytest --impl=NAME` runs conformance and nothing else. Light until --impl is given."""

from __future__ import annotations

import argparse
import os
import site
import sys
from collections.abc import Generator
from pathlib import Path
from typing import Any

import pytest
from _pytest.assertion.rewrite import AssertionRewritingHook

THREADS = ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS")


SHORT = {
    "impl": {"action": "append", "default": [], "metavar": "IMPL",
             "help": "implementation to judge: a registered name, file.py[:factory] or "
             "package.module:factory; options follow after a comma (compiled,dtype=bfloat16); repeats"},
    "milestone": {"action": "append", "default": [], "metavar": "M1", "help": "only this milestone; repeats"},
    "criterion": {"action": "append", "default": [], "metavar": "M1.5",
                  "help": "only this criterion; repeats"},
}  # fmt: skip


def pytest_addoption(parser: pytest.Parser) -> None:
    """Every name carries a prefix: a project beside which Attest is installed may have options of its own."""
    add = _group(parser).addoption
    for name, settings in SHORT.items():
        add(f"--attest-{name}", **settings)
    add("--attest-profile", default="standard", metavar="PROFILE", help="quick, standard (default) or deep")
    add("--attest-device", default="cpu", metavar="DEVICE", help="cpu (default) or cuda")
    add("--attest-dtype", default=None, metavar="DTYPE", help="judge in this dtype only")
    add("--attest-seed", default="", metavar="SEED", help="a number, or random (default: 0, sealed random)")
    add("--attest-reports", default="reports", metavar="DIR", help="where reports go (default: reports)")
    add("--attest-report", default="", metavar="KINDS", help="also write html; 'none' writes no report")
    add("--attest-case", default=None, metavar="CASE", help="run this one case, as a report prints it")
    add("--attest-seconds", default="", metavar="N", help="time limit of one criterion, in seconds")
    add("--attest-resume", action="store_true", help="judge only what a run that was stopped left out")
    add("--attest-shard", default="", metavar="K/N", help="judge the K-th of N parts; see `attest merge`")
    add(
        "--attest-sealed",
        action="store_true",
        help="keep the implementation in a process of its own",
    )
    add("--attest-seal-files", action="store_true", help=argparse.SUPPRESS)  # what `attest run` asks for
    add("--attest-events", default="", help=argparse.SUPPRESS)


@pytest.hookimpl(wrapper=True)
def pytest_load_initial_conftests(parser: pytest.Parser) -> Generator[None, Any, Any]:
    """The short names, where no conftest and no other plugin has taken them: conftests come after plugins."""
    result = yield
    # pytest 8 compares names within a group only, and dies of the others when it parses.
    groups = [parser._anonymous, *parser._groups]
    taken = {name for group in groups for option in group.options for name in option.names()}
    for name, settings in SHORT.items():
        if f"--{name}" not in taken:
            _group(parser).addoption(f"--{name}", dest=f"attest_{name}", **settings)
    return result


def _group(parser: pytest.Parser) -> Any:
    return parser.getgroup("attest", "conformance of Transformer implementations")


@pytest.hookimpl(wrapper=True)
def pytest_cmdline_main(config: pytest.Config) -> Generator[None, Any, Any]:
    """One worker by default, so that a plugin that crashes costs only the criterion it was in."""
    option = config.option
    if option.attest_impl and config.pluginmanager.hasplugin("xdist") and not hasattr(config, "workerinput"):
        debugging = option.collectonly or option.usepdb or getattr(option, "trace", False)
        if option.numprocesses is None and option.dist == "no" and not option.tx and not debugging:
            option.numprocesses = 1
        if option.numprocesses and option.dist == "no":
            option.dist = "worksteal"  # neighbours share graphs and trained models: each worker has a stretch
        # xdist's default drops the rest of a run in silence; session.py gives up where each new one dies too.
        option.maxworkerrestart = "100000"
    try:
        return (yield)
    except pytest.UsageError as error:
        if not (option.attest_impl or option.attest_milestone or option.attest_criterion):
            raise
        print(f"ERROR: {error}", file=sys.stderr)
        return 2  # pytest's own code would be 4


@pytest.hookimpl(optionalhook=True, tryfirst=True)
def pytest_xdist_auto_num_workers(config: pytest.Config) -> int | None:
    """`-n auto` on CUDA: one worker for each GPU."""
    option = config.option
    asked = [text.partition(",device=")[2].partition(",")[0] for text in option.attest_impl]
    if "cuda" not in [device or option.attest_device for device in asked]:
        return None
    from attest.machine import visible_gpus

    return len(visible_gpus()) or None


def _check_paths(config: pytest.Config) -> None:
    """Criteria are collected from no path; a word that is none was meant to choose among them."""
    if hasattr(config, "workerinput"):
        return
    for given in config.args:
        if not Path(config.invocation_params.dir, given.split("::")[0]).exists():
            raise pytest.UsageError(
                f"argument={given!r} is no path; choose with --milestone M1 or --criterion M1.5"
            )


@pytest.hookimpl(tryfirst=True)
def pytest_configure(config: pytest.Config) -> None:
    """Plan the run on the controller, read the plan on a worker, and collect only criteria."""
    if not config.option.attest_impl:
        for name in ("milestone", "criterion"):
            if config.getoption(f"attest_{name}"):
                raise pytest.UsageError(f"--{name} needs --impl=NAME; see `attest list`")
        return
    if getattr(config.option, "dist", "no") in ("loadgroup", "loadscope", "loadfile"):
        raise pytest.UsageError(
            f"--dist={config.option.dist} hangs when a worker dies; use load or worksteal"
        )
    _check_paths(config)
    for name in THREADS:
        os.environ.setdefault(name, "1")
    os.environ["PYTHONSAFEPATH"] = "1"  # a json.py in the working directory must not stop the workers
    if not os.path.isdir(site.getusersitepackages()):
        os.environ["PYTHONNOUSERSITE"] = "1"  # nobody shall make that directory and be imported from it
    from attest.running.session import Conformance

    conformance = (
        Conformance.on_worker(config) if hasattr(config, "workerinput") else Conformance.plan(config)
    )
    # Code is judged as written: rewriting asserts adds bytecodes, and takes seconds on Hypothesis itself.
    rewriting = [finder for finder in sys.meta_path if isinstance(finder, AssertionRewritingHook)]
    sys.meta_path[:] = [finder for finder in sys.meta_path if finder not in rewriting]
    config.add_cleanup(lambda: sys.meta_path.__setitem__(slice(0, 0), rewriting))
    config.args = [str(conformance.anchor)]
    config.option.reportchars = ""  # the closing summary is ours
    config.pluginmanager.register(conformance, "attest-conformance")
