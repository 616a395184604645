"""What was tried and what came of it, line by line in a file, so that it can be stopped and go on.

A line counts for the harness and the attack that it was written for; where either has changed, the attack is
tried again. After a fault was mended it is enough to try again what was not clean (`--mended`).
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Lock
from typing import Any, TypeVar

from attest.running.sealing import fingerprint

Job = TypeVar("Job")


class Ledger:
    """Outcomes by table of the page and name of the attack."""

    def __init__(self, path: Path, *, resume: bool, mended: bool, workers: int) -> None:
        self.workers = workers
        self._path, self._lock, self._harness = path, Lock(), fingerprint()
        self._found: dict[str, Any] = {}
        path.parent.mkdir(parents=True, exist_ok=True)
        lines = path.read_text(encoding="utf-8").splitlines() if resume and path.exists() else []
        for line in lines:
            harness, key, outcome = json.loads(line)
            if not _fault(outcome) if mended else harness == self._harness:
                self._found[key] = outcome
            else:
                self._found.pop(key, None)
        if not resume:
            path.write_text("", encoding="utf-8")

    def known(self, table: str, name: str, attack: str) -> Any:
        """What came of it; None where it was not tried."""
        return self._found.get(self._key(table, name, attack))

    def keep(self, table: str, name: str, attack: str, outcome: Any) -> None:
        """Write it down and show it."""
        key = self._key(table, name, attack)
        with self._lock:
            self._found[key] = outcome
            with self._path.open("a", encoding="utf-8") as file:
                file.write(json.dumps([self._harness, key, outcome]) + "\n")
            print(f"{table[:40]:<40} {name[:70]:<70} {outcome or 'clean'}", flush=True)

    def each(self, act: Callable[[Job], None], jobs: Iterable[Job]) -> None:
        """Several at once: most attacks wait most of the time."""
        with ThreadPoolExecutor(self.workers) as pool:
            for _ in pool.map(act, list(jobs)):
                pass

    def _key(self, table: str, name: str, attack: str) -> str:
        digest = hashlib.blake2b(attack.encode("utf-8", "surrogatepass"), digest_size=8)
        return f"{table}|{name}|{digest.hexdigest()}"


def _fault(outcome: Any) -> bool:
    """Whether more happened than may: a sentence, or counts of other kinds than these two."""
    return bool(set(outcome) - {"accepted", "refused"})
