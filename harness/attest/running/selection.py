"""Which implementations and criteria a run takes, from what was typed; a sentence for each thing refused."""

from __future__ import annotations

import difflib
import json
import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import Enum
from pathlib import Path
from typing import Any

from attest.contract import Milestone
from attest.declared import DTYPES
from attest.judging.property import load_properties, parse_case, parse_drawn
from attest.machine import cuda_available
from attest.outcomes import NotOffered
from attest.records.plan import Target, bring
from attest.registry import (
    NAME_RULE,
    RUN_OPTIONS,
    Request,
    UsageError,
    parse_request,
    printable,
    registered,
    sentence,
)
from attest.running.processes import end_supervised
from attest.running.sealing import check_room
from attest.spec import Criterion, Spec

PROBE_SECONDS = 120
MOST_ANSWER = 2**20  # bytes a plugin may take to say what it holds
PROFILES = ("quick", "standard", "deep")


class Seal(Enum):
    """Which implementations are kept in a process where the harness is not."""

    NONE = "none"
    FILES = "files"  # but for those that bring checks of their own
    ALL = "all"


def select(
    spec: Spec, milestones: Sequence[str], criteria: Sequence[str]
) -> tuple[tuple[Criterion, ...], list[str]]:
    """The criteria asked for, all when nothing was, and a sentence for each unknown id."""
    refused: list[str] = []
    known = {"--milestone": [m.id for m in spec.milestones], "--criterion": list(spec.by_id)}
    wanted = set()
    for option, values in (("--milestone", milestones), ("--criterion", criteria)):
        for value in _split(values):
            try:
                wanted.add(_id(value, known[option], option))
            except UsageError as error:
                refused.append(str(error))
    everything = not (milestones or criteria)
    chosen = tuple(c for c in spec.criteria if everything or c.id in wanted or c.milestone in wanted)
    return chosen, refused


def targets(
    requests: Iterable[str], *, dtype: str | None, device: str, seal: Seal = Seal.NONE
) -> tuple[tuple[Target, ...], list[str]]:
    """The implementations behind each --impl, and a sentence for each request that names none."""
    found: dict[str, Target] = {}
    refused: list[str] = []
    for text in requests:
        try:
            for target in _targets(parse_request(text), dtype, device, seal):
                _check_unique(found.get(target.label), target)
                found[target.label] = target
        except UsageError as error:
            refused.append(str(error))
    return tuple(found.values()), refused


def _targets(request: Request, dtype: str | None, device: str, seal: Seal) -> list[Target]:
    options = dict(request.options)
    own_dtype = _choice(options.get("dtype", dtype), DTYPES, "dtype")
    own_device = check_device(options.get("device", device))
    sealed = seal is Seal.ALL or (seal is Seal.FILES and request.is_file)
    if sealed:
        check_room()
    answer = _answer(request, sealed)
    if answer.needs_open and seal is Seal.FILES:
        sealed, answer = False, _answer(request, False)
    return [
        Target(
            _label(name, request.options, own_dtype),
            request.text,
            name,
            own_dtype,
            own_device,
            answer.broken,
            answer.milestones,
            str(Path(request.target).resolve()) if request.is_file else "",
            sealed,
        )
        for name in [f["name"] for f in answer.found] or [_stem(request)]
    ]


def check_reports(text: str, labels: Iterable[str]) -> Path:
    """The directory of the reports, if it can be written; nothing is made yet."""
    if not text.strip():
        raise UsageError("reports='' names no directory; use for example reports")
    home = Path(text).resolve()
    for label in labels:
        try:
            there = next(p for p in (home / label, *(home / label).parents) if p.exists())
            with tempfile.TemporaryFile(dir=there):
                pass
        except OSError as error:
            raise UsageError(
                f"reports={printable(text)} cannot be written ({error.strerror}); choose another directory"
            ) from None
    return home


def check_case(text: str, chosen: Iterable[Criterion], found: Iterable[Target]) -> None:
    """UsageError when no property of the criteria draws what this line names."""
    bring(found)
    loaded = load_properties()
    properties = [p for c in chosen for p in loaded.get(c.id, ()) if p.strategies]
    if not properties:
        return
    wanted, line = parse_case(text)
    drawn = [set(p.strategies) for p in properties if not wanted or p.name == wanted]
    try:
        values = parse_drawn(line)
    except ValueError as error:
        raise UsageError(printable(str(error))) from None
    names = set(values)
    if names not in drawn:
        raise UsageError(
            f"case={printable(text)!r} fits none of the criteria chosen; paste the whole line of the report "
            "and name its --criterion"
        )
    _check_made(text, values)


def _check_made(text: str, values: Mapping[str, Any]) -> None:
    """UsageError for a case whose numbers and words have the right kinds and make no inputs."""
    for name, value in values.items():
        try:
            if name == "case" and isinstance(value, str | int | float | list | tuple):
                raise ValueError("that is no case")
            _choice(getattr(value, "dtype", None), DTYPES, "dtype")
            getattr(value, "inputs", None)
        except NotOffered:
            continue
        except (Exception, MemoryError) as error:
            shown = printable(text)[:300]
            raise UsageError(
                f"case={shown!r} cannot be made ({sentence(error)}); paste the whole line of the report"
            ) from None


def check_device(device: str) -> str:
    """cpu, or a CUDA device that is there."""
    if not re.fullmatch(r"cpu|cuda(:\d+)?", device):
        raise UsageError(f"device={printable(device)!r} is unknown; use cpu, cuda or cuda:0")
    if device.startswith("cuda") and not cuda_available():
        raise UsageError(f"device={device!r} needs CUDA, and torch sees none here; use cpu")
    return device


def _choice(value: str | None, choices: Sequence[str], what: str) -> str | None:
    if value is not None and value not in choices:
        raise UsageError(f"{what}={printable(value)!r} is unknown; use one of {', '.join(choices)}")
    return value


@dataclass(frozen=True)
class Answer:
    """What a plugin holds, as it says in a process of its own; `broken` is a sentence where it cannot."""

    found: tuple[dict[str, Any], ...] = ()
    broken: str = ""
    milestones: tuple[Milestone, ...] = ()
    needs_open: bool = False  # broken only because it was asked under seal


def ask(request: Request, *, sealed: bool = False) -> Answer:
    """Import the plugin in a process of its own: one that exits, crashes or hangs costs nothing else."""
    target = printable(request.target)
    with tempfile.TemporaryDirectory(prefix="attest-probe-") as made, tempfile.TemporaryFile() as answer:
        # -P: a file of the working directory called json.py must not stand in for Python's own module.
        command = [sys.executable, "-P", "-m", "attest.running.probe", request.text, str(answer.fileno())]
        command += ["sealed"] if sealed else []
        code = _ended(command, answer.fileno(), {"TMPDIR": made} if sealed else {})
        if code is None:
            return Answer(broken=f"{target}: importing it took over {PROBE_SECONDS} s")
        answer.seek(0)
        text = answer.read(MOST_ANSWER)
    try:
        return _read(json.loads(text))
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):  # it may have written that
        how = f"signal {-code}" if code < 0 else f"exit code {code}"
        return Answer(broken=f"{target}: importing it ended the process ({how})")


def _ended(command: Sequence[str], answer: int, environment: Mapping[str, str]) -> int | None:
    """The exit code of a probe, None where it took too long; nothing that it started lives on."""
    process = subprocess.Popen(
        command,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        env={**os.environ, "OMP_NUM_THREADS": "1", **environment},
        pass_fds=[answer],
        start_new_session=True,
    )
    try:
        return process.wait(PROBE_SECONDS)
    except subprocess.TimeoutExpired:
        return None
    finally:
        end_supervised(process)


def _read(answer: Any) -> Answer:
    milestones = tuple(Milestone(**given) for given in answer["milestones"])
    found = tuple({**one, "name": str(one["name"])} for one in answer["found"])
    return Answer(found, str(answer["broken"]), milestones, bool(answer["needs_open"]))


def _answer(request: Request, sealed: bool) -> Answer:
    """A registered plugin of this package adds no milestones and is imported by the workers only."""
    if request.is_registered and registered()[request.target].module.startswith("attest_impls."):
        return Answer(({"name": request.target},))
    answer = ask(request, sealed=sealed)
    return replace(answer, found=(), milestones=()) if answer.broken else answer


def _stem(request: Request) -> str:
    return re.sub(r"[^A-Za-z0-9_.-]", "_", Path(request.target).stem)[:64].lstrip("_.-") or "plugin"


def _label(name: str, options: tuple[tuple[str, str], ...], dtype: str | None) -> str:
    parts = [name, *([dtype] if dtype else []), *(v for k, v in options if k not in RUN_OPTIONS)]
    label = "-".join(parts)
    if not NAME_RULE.fullmatch(label):
        raise UsageError(
            f"--impl options make the report name {label!r}; use letters, digits, dot, dash, underscore"
        )
    return label


def _check_unique(first: Target | None, second: Target) -> None:
    if first is not None:
        both = f"{printable(first.request)} and {printable(second.request)}"
        raise UsageError(f"two implementations are named {second.label!r} ({both}); rename one")


def _split(values: Sequence[str]) -> list[str]:
    return [part.strip() for value in values for part in value.split(",")]


def _id(value: str, known: Sequence[str], option: str) -> str:
    by_lower = {k.lower(): k for k in known}
    if value.lower() in by_lower:
        return by_lower[value.lower()]
    near = difflib.get_close_matches(value, known, 1, 0.3)
    hint = f"did you mean {near[0]}? " if near else ""
    raise UsageError(f"{option}={printable(value)!r} is unknown; {hint}see `attest list`")
