"""records.jsonl: every record as it comes, under a lock, so that a run that was stopped can be resumed.

The first line says what the records depend on. A run that is resumed must agree in all of it.
"""

from __future__ import annotations

import fcntl
import hashlib
import importlib.util
import json
import os
import stat
from collections import Counter
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import IO, Any

from attest.records.plan import Plan, Target
from attest.records.record import PASS, Record
from attest.registry import UsageError, printable, registered
from attest.report.schema import first_misfit, record_schema
from attest.spec import Spec

RECORDS, LOCK = "records.jsonl", "run.lock"
MOST_BYTES = 2**30  # of a file that is read to resume a run
_WORDS = {
    "spec_version": "the spec",
    "profile": "the profile",
    "seed": "the seed",
    "dtype": "the dtype",
    "device": "the device",
    "case": "the case",
    "sealed": "sealed",
    "implementation": "the code of the implementation",
}


class KeptRecords:
    """The records of one implementation on disk, held by this run alone."""

    def __init__(self, target: Target, plan: Plan, spec: Spec) -> None:
        self.home = Path(plan.reports) / target.label
        self._target = target
        self.settings = settings_of(target, plan, spec)
        self._lock: IO[str] | None = None
        self._file: IO[str] | None = None

    def hold(self) -> None:
        """Take the lock and see that the file can be written; UsageError where one of them cannot be had."""
        try:
            self.home.mkdir(parents=True, exist_ok=True)
            self._lock = _held(self.home / LOCK)
            self._file = _opened(self.home / RECORDS)
        except OSError as error:
            self.release()
            raise UsageError(
                f"reports={printable(str(self.home))} cannot be written ({error.strerror}); "
                "choose another directory with --reports"
            ) from None

    def begin(self, earlier: list[Record]) -> None:
        """Start the file anew with what an earlier run has judged."""
        assert self._file is not None
        self._file.seek(0)
        self._file.truncate()
        self._file.write(json.dumps({"settings": self.settings}, sort_keys=True) + "\n")
        for record in earlier:
            self._file.write(record.to_json() + "\n")
        self._file.flush()

    def keep(self, record: Record) -> None:
        """Append one record; it is on its way to the disk when this returns."""
        assert self._file is not None
        self._file.write(record.to_json() + "\n")
        self._file.flush()

    @property
    def is_of_another(self) -> bool:
        """Whether the code of the implementation has changed since the records were begun."""
        return str(self.settings["implementation"]) != _hash_of(self._target)

    def release(self) -> None:
        """Let go of both files."""
        for file in (self._file, self._lock):
            if file is not None:
                with suppress(OSError):  # a full disk was complained of when it was met
                    file.close()
        if self._lock is not None:
            (self.home / LOCK).unlink(missing_ok=True)
        self._file = self._lock = None

    def earlier(self, wanted: tuple[str, ...], spec: Spec) -> list[Record]:
        """The records of a run that was stopped; UsageError where they do not belong to this one."""
        assert self._file is not None
        self._file.seek(0)
        lines = self._file.read(MOST_BYTES).splitlines()
        if not lines:
            return []
        self._check_settings(lines[0])
        records = list(read_records(lines[1:], self.home, spec))
        times = Counter(record.criterion for record in records)
        found = {r.criterion: r for r in records if times[r.criterion] == 1 and self._is_kept(r, spec)}
        return [found[id] for id in wanted if id in found]

    def _is_kept(self, record: Record, spec: Spec) -> bool:
        """Whether this run would have written it; anything else is judged again, a fault of ours too.

        Somebody may have added to the file, the implementation for one where it is not sealed.
        """
        criterion, settings = spec.by_id[record.criterion], self.settings
        said = (record.milestone, record.level, record.text_hash, record.spec_version)
        asked = (record.profile, record.seed) == (settings["profile"], settings["seed"])
        right = said == (criterion.milestone, criterion.level, criterion.text_hash, spec.version)
        shown = record.verdict != PASS or record.examples >= record.floor
        return right and asked and shown and not record.internal

    def _check_settings(self, line: str) -> None:
        there = printable(str(self.home / RECORDS))
        try:
            settings = dict(json.loads(line)["settings"])
        except (ValueError, KeyError, TypeError):
            raise UsageError(
                f"{there} does not say what its run was asked for; run again without --resume"
            ) from None
        for name, word in _WORDS.items():
            if settings.get(name) != self.settings[name]:
                was, now = (printable(str(s.get(name)))[:40] for s in (settings, self.settings))
                raise UsageError(
                    f"{there} cannot be resumed: {word} was {was} and is {now}; run again without --resume"
                )


def settings_of(target: Target, plan: Plan, spec: Spec) -> dict[str, Any]:
    """What the records of an implementation depend on."""
    return {
        "spec_version": spec.version,
        "profile": plan.profile,
        "seed": plan.seed,
        "dtype": target.dtype,
        "device": target.device,
        "case": plan.case,
        "sealed": target.sealed,
        "implementation": _hash_of(target),
    }


def _hash_of(target: Target) -> str:
    """Sixteen hex digits of the file that was asked for, or of the package that has the module."""
    digest = hashlib.blake2b(target.request.partition(",")[2].encode(), digest_size=8)
    for path in _sources(target):
        with suppress(OSError):
            digest.update(path.read_bytes())
    return digest.hexdigest()


def _sources(target: Target) -> Iterator[Path]:
    if target.path:
        yield Path(target.path)
        return
    request = target.loading()
    module = registered()[request.target].module if request.is_registered else request.target
    with suppress(ImportError, ValueError):
        found = importlib.util.find_spec(module)
        for folder in (found.submodule_search_locations or ()) if found else ():
            yield from sorted(Path(folder).rglob("*.py"))
        if found and found.origin and not found.submodule_search_locations:
            yield Path(found.origin)


def read_records(lines: list[str], home: Path, spec: Spec) -> Iterator[Record]:
    """Those of this implementation and spec. Only the last line may have been cut short."""
    for number, line in enumerate(lines, 2):
        try:
            data = json.loads(line)
        except (ValueError, RecursionError):
            data = None
            if number == len(lines) + 1:
                return
        if misfit := first_misfit(data, record_schema(), "record"):
            raise UsageError(
                f"line {number} of {printable(str(home / RECORDS))} is no record ({printable(misfit)[:99]}); "
                "run again without --resume"
            )
        if data["criterion"] in spec.by_id and data["implementation"] == home.name:
            yield Record.from_json(line)


def _held(path: Path) -> IO[str]:
    """The lock file with this process's number in it. The lock of a process that has ended is ignored."""
    while True:
        file = _opened(path)
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            owner = printable(file.read(20).strip()) or "unknown"
            file.close()
            raise UsageError(
                f"reports={printable(str(path.parent))} is in use by another run (process {owner}); "
                "wait for it or choose another directory with --reports"
            ) from None
        if path.exists() and os.path.samestat(os.fstat(file.fileno()), path.stat()):
            file.truncate(0)
            file.write(f"{os.getpid()}\n")
            file.flush()
            return file
        file.close()  # its owner took it away between our opening and locking it


def _opened(path: Path) -> IO[str]:
    """A plain file for reading and writing: no link is followed, no pipe is waited for."""
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, 0o666)
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        os.close(descriptor)
        raise OSError(0, f"{path.name} is no plain file")
    return os.fdopen(descriptor, "r+", encoding="utf-8", errors="replace")
