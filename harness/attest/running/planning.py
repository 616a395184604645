"""From what was typed to the plan of a run; what cannot be understood is refused in one sentence."""

from __future__ import annotations

import os
import random
import re
import shutil
import sys
import tempfile
from argparse import Namespace
from collections.abc import Sequence
from contextlib import suppress
from importlib.util import find_spec
from pathlib import Path

from attest.records.plan import Plan, Target, added
from attest.registry import UsageError, printable
from attest.running.selection import PROFILES, Seal, check_case, check_reports, select, targets
from attest.spec import Criterion, Spec, load_spec

MARK = "of-an-attest-run"  # a file that tells our temporary directories from anybody else's


def planned(option: Namespace) -> tuple[Plan, Spec]:
    """The plan of a run and the spec with what plugins add to it; UsageError where it cannot be made."""
    _check_words(option)
    shard = shard_of(option.attest_shard)
    seed, seconds = _seed(option.attest_seed or _default_seed(option)), _seconds(option.attest_seconds)
    found, refused = targets(
        option.attest_impl,
        dtype=option.attest_dtype,
        device=option.attest_device,
        seal=_seal(option),
    )
    spec = load_spec(added(found))
    criteria, unknown = select(spec, option.attest_milestone, option.attest_criterion)
    refused += unknown
    if not found or not criteria:
        raise UsageError("\nERROR: ".join(refused))
    reports = _reports(option, found, criteria)
    plan = Plan(
        targets=found,
        criteria=tuple(c.id for c in criteria),
        profile=option.attest_profile,
        seed=seed,
        reports=reports,
        shared=_shared_directory(),
        case=option.attest_case,
        asked=bool(option.attest_milestone or option.attest_criterion),
        seconds=seconds,
        refused=tuple(refused),
        shard=shard,
    )
    return plan, spec


def _seal(option: Namespace) -> Seal:
    if option.attest_sealed:
        return Seal.ALL
    return Seal.FILES if option.attest_seal_files and sys.platform == "linux" else Seal.NONE


def _check_words(option: Namespace) -> None:
    if option.attest_profile not in PROFILES:
        raise UsageError(
            f"profile={printable(option.attest_profile)!r} is unknown; use one of {', '.join(PROFILES)}"
        )
    if option.attest_report not in ("", "html", "none"):
        raise UsageError(f"report={printable(option.attest_report)!r} is unknown; use html or none")
    if option.attest_report == "html" and find_spec("jinja2") is None:
        raise UsageError("report='html' needs jinja2; install attest-transformers[report]")
    if option.attest_sealed and sys.platform != "linux":
        raise UsageError("--sealed needs Linux; leave it out to judge in an open process")
    if option.attest_report == "none" and option.attest_resume:
        raise UsageError("--resume needs the records of the run before; leave out --report none")


def _reports(option: Namespace, found: Sequence[Target], criteria: Sequence[Criterion]) -> str:
    """The directory of the reports, empty where none are written."""
    if option.attest_case is not None:
        check_case(option.attest_case, criteria, found)
    if option.attest_report == "none":
        return ""
    return str(check_reports(option.attest_reports, [t.label for t in found]))


def _shared_directory() -> str:
    """Where the workers share what they train; what runs that were killed left behind is removed."""
    parent = Path(tempfile.gettempdir())
    for path in parent.glob("attest-*-*"):
        owner = re.fullmatch(r"attest-(\d+)-.*", path.name)
        with suppress(OSError):
            if owner and (path / MARK).is_file() and not _alive(int(owner[1])):
                shutil.rmtree(path)
    made = tempfile.mkdtemp(prefix=f"attest-{os.getpid()}-")
    Path(made, MARK).touch()
    return made


def _alive(process: int) -> bool:
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    except OSError:
        return True  # somebody else's
    return True


def _seconds(text: str) -> float | None:
    try:
        seconds = float(text) if text else None
    except ValueError:
        seconds = -1.0
    if seconds is not None and not 0.001 <= seconds < 1e6:
        raise UsageError(
            f"seconds={printable(text)!r} is no time limit; give a number of seconds from 0.001 on"
        )
    return seconds


def _default_seed(option: Namespace) -> str:
    """0, so that a run can be repeated as it was typed; sealed one that nobody could have prepared for.

    The parts of a run on several machines and a run that goes on must agree on a seed without being told.
    """
    apart = option.attest_sealed and not (option.attest_shard or option.attest_resume)
    return "random" if apart else "0"


def _seed(text: str) -> int:
    if text == "random":
        return random.SystemRandom().randrange(2**32)
    if not (text.isascii() and text.isdecimal() and len(text) < 20):
        raise UsageError(
            f"seed={printable(text)[:40]!r} is not a whole number from 0; use a number or random"
        )
    return int(text)


def shard_of(text: str) -> tuple[int, int] | None:
    if not text:
        return None
    match = re.fullmatch(r"(\d{1,4})/(\d{1,4})", text, re.ASCII)
    number, count = (int(part) for part in match.groups()) if match else (0, 0)
    if not 1 <= number <= count:
        raise UsageError(f"shard={printable(text)[:40]!r} is no part of a run; write 1/3, 2/3 or 3/3")
    return number, count
