"""Everything that is parsed, given spoiled inputs: it is accepted, or refused with one sentence.

To add a parser, write a function that takes a directory and returns an attempt: a function of a random
generator that spoils an input and parses it. Mark it with `parser`, a count, and the exceptions that refuse.
"""

from __future__ import annotations

import json
import random
import zipfile
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from attest.contract import OPERATIONS, Config
from attest.judging.property import load_properties
from attest.outcomes import NotOffered
from attest.records.record import Record
from attest.registry import UsageError, parse_request
from attest.report.comparison import compare
from attest.report.document import report_document
from attest.report.merge import merge
from attest.report.reading import ReportError, read_report
from attest.report.writing import write_document
from attest.running.kept_records import read_records
from attest.running.many_seeds import seeds_of
from attest.running.planning import shard_of
from attest.running.selection import check_case
from attest.spec import SpecError, read_spec
from attest.trained.models import SavedModel, read_model
from report_samples import SPEC, student
from torture.spoiling import spoiled, spoiled_json, spoiled_word

Attempt = Callable[[random.Random], object]
SPEC_FILES = sorted((Path(__file__).parents[2] / "spec").glob("*.toml"))
PARSERS: list[Parser] = []


@dataclass(frozen=True)
class Parser:
    """One thing that is parsed, and how it refuses."""

    name: str
    count: int
    prepare: Callable[[Path], Attempt]
    refusals: tuple[type[Exception], ...]

    def fuzz(self, home: Path, scale: float = 1.0) -> Counter[str]:
        """Outcomes by kind; anything but success or a refusal of one line is a fault."""
        home.mkdir()
        attempt, rng = self.prepare(home), random.Random(self.name)
        seen: Counter[str] = Counter()
        for _ in range(max(1, round(self.count * scale))):
            seen[self._outcome(attempt, rng)] += 1
        print(f"{self.name}: {dict(seen)}", flush=True)
        return seen

    def _outcome(self, attempt: Attempt, rng: random.Random) -> str:
        try:
            attempt(rng)
        except self.refusals as error:
            return "refused" if "\n" not in str(error) else "more than one line"
        except Exception as error:
            return f"raw {type(error).__name__}"
        return "accepted"


def parser(name: str, count: int, *refusals: type[Exception]) -> Callable[..., Callable[[Path], Attempt]]:
    """Add a parser to those that are fuzzed."""

    def add(prepare: Callable[[Path], Attempt]) -> Callable[[Path], Attempt]:
        PARSERS.append(Parser(name, count, prepare, refusals))
        return prepare

    return add


@parser("report.json (read, diff, merge)", 6000, ReportError)
def _report(home: Path) -> Attempt:
    report = report_document("mine", student(), SPEC)
    path = home / "report.json"

    def attempt(rng: random.Random) -> None:
        path.write_bytes(spoiled_json(rng, report))
        document = read_report(path)
        compare(report, document)
        write_document(merge([document]), home / "merged")

    return attempt


@parser("records.jsonl (resume)", 3000, UsageError)
def _records(home: Path) -> Attempt:
    good = Record("mine", "M1.2", "M1", "must", profile="quick").to_json()

    def attempt(rng: random.Random) -> None:
        line = spoiled_json(rng, json.loads(good)).decode("utf-8", "replace")
        list(read_records([good, line, good], home / "mine", SPEC))

    return attempt


@parser("checkpoint (read)", 3000, ValueError)
def _checkpoint(home: Path) -> Attempt:
    config, parameters = Config(d_model=8), {"w": np.zeros(2, np.float32)}
    saved = SavedModel(implementation="numpy_scratch", task="copy", config=config, parameters=parameters)
    saved.write(home)
    about, arrays = ((home / name).read_bytes() for name in ("model.json", "parameters.npz"))
    with zipfile.ZipFile(home / "parameters.npz") as held:
        inner = held.read("w.npy")

    def attempt(rng: random.Random) -> None:
        (home / "model.json").write_bytes(about)
        (home / "parameters.npz").write_bytes(arrays)
        way = rng.choice(("text", "archive", "array"))
        if way == "text":
            (home / "model.json").write_bytes(spoiled_json(rng, json.loads(about)))
        elif way == "archive":
            (home / "parameters.npz").write_bytes(spoiled(rng, arrays))
        else:
            with zipfile.ZipFile(home / "parameters.npz", "w") as held:
                held.writestr("w.npy", spoiled(rng, inner))
        read_model(home)

    return attempt


@parser("spec file (read)", 3000, SpecError)
def _spec(home: Path) -> Attempt:
    def attempt(rng: random.Random) -> None:
        old = rng.choice(SPEC_FILES)
        new = home / old.name
        new.write_bytes(spoiled(rng, old.read_bytes()))
        read_spec([new if file == old else file for file in SPEC_FILES], OPERATIONS)

    return attempt


@parser("--impl", 6000, UsageError)
def _request(home: Path) -> Attempt:
    names = (b"eager", b"good.py", b"mine.py:make", b"a.b:c", b"eager,dtype=float64", b"x/y.py", b".")
    return lambda rng: parse_request(spoiled_word(rng, rng.choice(names)))


@parser("--attest-case", 6000, UsageError, NotOffered)
def _case(home: Path) -> Attempt:
    chosen = [SPEC.by_id[id] for id in ("M1.2", "M1.5a", "M2.2")]
    load_properties()
    line = b"case=attention[B=1 H=1 T=2 S=2 d_k=1 d_v=1 regime=unit dtype=float32 seed=0]"
    return lambda rng: check_case(spoiled_word(rng, line), chosen, ())


@parser("--shard, --seeds", 2000, UsageError)
def _parts(home: Path) -> Attempt:
    def attempt(rng: random.Random) -> None:
        if rng.random() < 0.5:
            shard_of(spoiled_word(rng, b"2/3"))
        else:
            seeds_of(spoiled_word(rng, b"0..9"))

    return attempt
