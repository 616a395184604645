"""The same criteria over several seeds: a run each, in a directory of its own, and one merged report."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from pathlib import Path

from attest.registry import UsageError, printable
from attest.report.merge import merge_files
from attest.report.writing import write_document

MOST_SEEDS = 10_000


def seeds_of(text: str) -> range:
    """`3..7` as the seeds 3, 4, 5, 6 and 7."""
    match = re.fullmatch(r"(\d{1,15})\.\.(\d{1,15})", text, re.ASCII)
    first, last = (int(part) for part in match.groups()) if match else (1, 0)
    if not 0 <= last - first < MOST_SEEDS:
        raise UsageError(f"seeds={printable(text)[:40]!r} is no range; write for example 0..9")
    return range(first, last + 1)


def run_seeds(seeds: Sequence[int], reports: Path, run: Callable[[list[str]], int]) -> int:
    """The worst exit code of these runs; where one is stopped, what is there is merged all the same."""
    code = 0
    homes: list[Path] = []
    for seed in seeds:
        home = reports / f"seed-{seed}"
        homes.append(home)
        code = max(code, run([f"--attest-seed={seed}", f"--attest-reports={home}"]))
        if code > 1:
            break
    labels = {path.parent.name for home in homes for path in home.glob("*/report.json")}
    for label in sorted(labels):
        parts = [home / label / "report.json" for home in homes if (home / label / "report.json").exists()]
        write_document(merge_files(parts, of_one_shard=True), reports / label)
    return code
