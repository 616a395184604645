"""How much longer a run takes that fails: processor time with a fault over that without one.

    python -m attest.trials.cost eager tests/unseen/held_out.toml every=5

Of every so many faults of the file (`attest.trials.unseen` says what stands in it), the milestone of the
first cause is run at quick, as `attest run` does it: with shrinking, diagnosis and reproduction of failures.
"""

from __future__ import annotations

import resource
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from functools import cache
from pathlib import Path

from attest.trials.unseen import read_faults

PLUGIN = """
from pathlib import Path

from attest.trials.sources import load_changed
from attest.trials.unseen import read_faults


def faulty():
    fault = read_faults({request!r}, Path({path!r}), None)[{number}]
    return load_changed(fault.package, {{fault.path: fault.changed}})
"""


@cache
def seconds(implementation: str, milestone: str) -> float:
    """Of the processor, for one run of one milestone."""
    with tempfile.TemporaryDirectory(prefix="attest-") as reports:
        words = ["run", "--impl", implementation, "-m", milestone, "--profile", "quick", "-n", "0"]
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        ended = subprocess.run(
            [sys.executable, "-m", "attest.cli", *words, "--reports", reports],
            capture_output=True,
            check=False,
        )
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
    if ended.returncode not in (0, 1):
        raise RuntimeError(f"attest {' '.join(words)} ended with {ended.returncode}")
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def main(arguments: Sequence[str]) -> int:
    """Print a line for each fault, and how many take at most three times as long."""
    request, path, *rest = arguments
    every = next((int(word.removeprefix("every=")) for word in rest if word.startswith("every=")), 1)
    ratios = []
    for number, fault in list(enumerate(read_faults(request, Path(path), None)))[::every]:
        milestone = fault.cause[0].partition(".")[0]
        with tempfile.TemporaryDirectory(prefix="attest-") as folder:
            plugin = Path(folder) / "faulty_plugin.py"
            text = PLUGIN.format(request=request, path=str(Path(path).resolve()), number=number)
            plugin.write_text(text, encoding="utf-8")
            passing, failing = seconds(request, milestone), seconds(f"{plugin}:faulty", milestone)
        ratios.append(failing / passing)
        told = f"{failing:6.1f} s, passing {passing:5.1f} s, {ratios[-1]:4.1f} times"
        print(f"{milestone:<3} {told} | {fault.text[:90]}", flush=True)
    within, middle = sum(ratio <= 3 for ratio in ratios), sorted(ratios)[len(ratios) // 2]
    print(f"at most three times: {within} of {len(ratios)}; in the middle {middle:.1f}")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
