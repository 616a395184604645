"""Everything that is parsed, given spoiled inputs: it is accepted, or refused with one sentence.

To add a parser, write a function that takes a directory and returns an attempt: a function of a random
generator that spoils an input and parses it. Mark it with `parser`, a count, and the exceptions that refuse.
"""

from __future__ import annotations

import json
import multiprocessing
import random
import warnings
import zipfile
from collections import Counter
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from safetensors.numpy import save_file

from attest.adapters.checkpoints import Checkpoint, CheckpointError
from attest.contract import OPERATIONS, Config
from attest.families import FamilyError, family_named, read_family
from attest.judging.property import load_properties
from attest.outcomes import NotOffered
from attest.records.record import Record
from attest.reference.oracle import random_parameters
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
from attest.trained.models import SavedModel, check_fit, read_model
from report_samples import SPEC, student
from torture.ledger import Ledger
from torture.spoiling import replaced, spoiled, spoiled_json, spoiled_word

Attempt = Callable[[random.Random], object]
ROOT = Path(__file__).parents[2]
SPEC_FILES = sorted((ROOT / "spec").glob("*.toml"))
KEPT_REPORTS = sorted((ROOT / "reports" / "kept").glob("*/report.json"))
AT_ONCE = 500  # inputs of one part
SPOILING = "".join((Path(__file__).parent / name).read_text() for name in ("parsers.py", "spoiling.py"))
PARSERS: list[Parser] = []


@dataclass(frozen=True)
class Parser:
    """One thing that is parsed, and how it refuses."""

    name: str
    count: int
    prepare: Callable[[Path], Attempt]
    refusals: tuple[type[Exception], ...]

    def fuzz(self, home: Path, count: int, part: int = 0) -> Counter[str]:
        """Outcomes by kind; anything but success or a refusal of one line is a fault. Parts differ."""
        home.mkdir()
        warnings.simplefilter("error")
        attempt, rng = self.prepare(home), random.Random(f"{self.name} {part}")
        return Counter(self._outcome(attempt, rng) for _ in range(count))

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


def try_parsers(home: Path, ledger: Ledger) -> dict[str, Counter[str]]:
    """Outcomes by parser, several parts at a time, each in a process that begins anew."""
    jobs = [(p, part) for p in PARSERS for part in range(-(-p.count // AT_ONCE))]
    new = [job for job in jobs if ledger.known(job[0].name, str(job[1]), SPOILING) is None]
    with ProcessPoolExecutor(ledger.workers, multiprocessing.get_context("spawn")) as pool:
        found = {
            pool.submit(fuzzed, p.name, home / f"fuzz-{PARSERS.index(p)}-{part}", part): (p, part)
            for p, part in new
        }
        for done in as_completed(found):
            p, part = found[done]
            ledger.keep(p.name, str(part), SPOILING, dict(done.result()))
    seen: dict[str, Counter[str]] = {p.name: Counter() for p in PARSERS}
    for p, part in jobs:
        seen[p.name].update(ledger.known(p.name, str(part), SPOILING))
    return seen


def fuzzed(name: str, home: Path, part: int) -> Counter[str]:
    """One part of what a parser is given."""
    found = next(p for p in PARSERS if p.name == name)
    return found.fuzz(home, min(AT_ONCE, found.count - part * AT_ONCE), part)


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


@parser("model.json and parameters.npz (read, fit)", 4000, ValueError)
def _checkpoint(home: Path) -> Attempt:
    config = Config(d_model=4, num_heads=2, num_encoder_layers=1, num_decoder_layers=1)
    parameters = random_parameters("transformer", config, np.random.default_rng(0))
    saved = SavedModel(implementation="numpy_scratch", task="copy", config=config, parameters=parameters)
    saved.write(home)
    about, arrays = ((home / name).read_bytes() for name in ("model.json", "parameters.npz"))
    with zipfile.ZipFile(home / "parameters.npz") as held:
        files = {name: held.read(name) for name in held.namelist()}

    def attempt(rng: random.Random) -> None:
        (home / "model.json").write_bytes(about)
        (home / "parameters.npz").write_bytes(arrays)
        way = rng.choice(("text", "config", "archive", "array"))
        if way == "text":
            (home / "model.json").write_bytes(spoiled_json(rng, json.loads(about)))
        elif way == "config":
            given = json.loads(about)
            given["config"] = replaced(rng, given["config"])
            (home / "model.json").write_text(json.dumps(given))
        elif way == "archive":
            (home / "parameters.npz").write_bytes(spoiled(rng, arrays))
        else:
            chosen = rng.choice(sorted(files))
            with zipfile.ZipFile(home / "parameters.npz", "w") as held:
                for name, content in files.items():
                    held.writestr(name, spoiled(rng, content) if name == chosen else content)
        check_fit(read_model(home))

    return attempt


@parser("config.json, index and safetensors (compare)", 4000, CheckpointError)
def _weights(home: Path) -> Attempt:
    """A small model as transformers saves one: each file spoiled in turn, all parameters read."""
    family = family_named("llama")
    config = family.config(d_model=4, num_heads=2, num_decoder_layers=1, target_vocab=5, max_len=8, d_ff=4)
    drawn = random_parameters("language_model", config, np.random.default_rng(0))
    own = family.names_for(config)
    stored = {own[name]: np.ascontiguousarray(value, np.float32) for name, value in drawn.items()}
    save_file(stored, home / "a.safetensors")
    said = {"hidden_size": 4, "num_attention_heads": 2, "num_hidden_layers": 1, "vocab_size": 5}
    said |= {
        "max_position_embeddings": 8,
        "intermediate_size": 4,
        "model_type": "llama",
        "rms_norm_eps": 1e-5,
    }
    said |= {"num_key_value_heads": 2, "head_dim": 2, "hidden_act": "silu", "pad_token_id": None}
    said |= {"rope_parameters": {"rope_theta": 1e4, "rope_type": "default"}}
    (home / "config.json").write_text(json.dumps(said))
    index = {"weight_map": dict.fromkeys(stored, "a.safetensors")}
    (home / "model.safetensors.index.json").write_text(json.dumps(index))
    good = {path: path.read_bytes() for path in home.iterdir()}
    dict(Checkpoint(home).parameters)  # it is a good one

    def attempt(rng: random.Random) -> None:
        for path, content in good.items():
            path.write_bytes(content)
        chosen = rng.choice(sorted(good))
        content = good[chosen]
        is_json = chosen.suffix == ".json"
        chosen.write_bytes(spoiled_json(rng, json.loads(content)) if is_json else spoiled(rng, content))
        dict(Checkpoint(home).parameters)

    return attempt


@parser("family file (read)", 3000, FamilyError)
def _family(home: Path) -> Attempt:
    files = {path: path.read_bytes() for path in sorted((SPEC_FILES[0].parent / "families").glob("*.toml"))}

    def attempt(rng: random.Random) -> None:
        for path, content in files.items():
            (home / path.name).write_bytes(content)
        chosen = rng.choice(list(files))
        (home / chosen.name).write_bytes(spoiled(rng, files[chosen]))
        read_family(home / chosen.name)

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
    """Lines that reports print to replay a case, of every kind that the kept reports have."""
    load_properties()
    lines = _replay_lines()

    def attempt(rng: random.Random) -> None:
        id, line = rng.choice(lines)
        check_case(spoiled_word(rng, line), [SPEC.by_id[id]], ())

    return attempt


def _replay_lines() -> list[tuple[str, bytes]]:
    """Criterion and line, a few for each criterion."""
    found = {("M1.2", "case=attention[B=1 H=1 T=2 S=2 d_k=1 d_v=1 regime=unit dtype=float32 seed=0]")}
    for path in KEPT_REPORTS:
        for row in (r for m in json.loads(path.read_text())["milestones"] for r in m["criteria"]):
            lines = [row["worst_case"], *([row["failure"]["case"]] if row["failure"] else [])]
            found |= {(row["id"], line) for line in lines if line and row["id"] in SPEC.by_id}
    return sorted((id, line.encode()) for id, line in found)


@parser("--shard, --seeds", 2000, UsageError)
def _parts(home: Path) -> Attempt:
    def attempt(rng: random.Random) -> None:
        if rng.random() < 0.5:
            shard_of(spoiled_word(rng, b"2/3"))
        else:
            seeds_of(spoiled_word(rng, b"0..9"))

    return attempt
