"""The same verdicts, reasons and smallest cases with 1 and with 8 workers, sealed and open."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

ATTEST = Path(sys.executable).with_name("attest")
MODES = ("open", "sealed") if sys.platform == "linux" else ("open",)
# Wrong, broken and deadly in turns, and right in some of it: every kind of verdict is there.
MISBEHAVES = """
import os, sys
import numpy as np

class Subject:
    name = "misbehaves"
    dtypes = ("float32", "float64")
    def attention(self, config):
        def attend(q, k, v, mask=None, causal=False):
            if causal and q.shape[-2] > k.shape[-2]:
                os._exit(7)
            scores = q @ np.swapaxes(k, -1, -2) / np.sqrt(q.shape[-1])
            if mask is not None:
                scores = np.where(mask, scores, -1e9)
            if causal:
                scores = np.where(np.tri(*scores.shape[-2:], k.shape[-2] - q.shape[-2]), scores, -1e9)
            powers = np.exp(scores - scores.max(-1, keepdims=True))
            weights = powers / powers.sum(-1, keepdims=True)
            return {"output": (weights @ v).astype(q.dtype), "weights": weights.astype(q.dtype)}
        return attend
    def causal_mask(self, T, S):
        return sys.exit(3) if T > S else np.tri(T, S, S - T, dtype=bool)
    def length_mask(self, lengths, size):
        raise KeyboardInterrupt
    def token_mask(self, *args):
        np.array = None
        return None

def attest_implementations():
    return [Subject()]
"""


def judged(home: Path, mode: str, workers: int) -> dict[tuple[str, str], tuple[str, str, str]]:
    """Verdict, reason and smallest case of every criterion of M1 and M2."""
    out = home / f"{mode}-{workers}"
    words = ["--impl", "misbehaves.py", "--impl", "numpy_scratch", "-m", "M1", "-m", "M2", "--seed", "0"]
    words += ["--profile", "quick", "-n", str(workers), "--reports", str(out), f"--{mode}"]
    run = subprocess.run([ATTEST, "run", *words], cwd=home, capture_output=True, text=True, check=False)
    assert run.returncode == 1, run.stdout + run.stderr
    found = {}
    for path in out.glob("*/report.json"):
        for row in (r for m in json.loads(path.read_text())["milestones"] for r in m["criteria"]):
            case = row["failure"]["case"] if row["failure"] else ""
            found[path.parent.name, row["id"]] = row["verdict"], row["reason"], case
    return found


@pytest.mark.slow
def test_workers_and_seals_change_no_verdict(tmp_path):
    (tmp_path / "misbehaves.py").write_text(MISBEHAVES)
    first, *others = [judged(tmp_path, mode, workers) for mode in MODES for workers in (1, 8)]
    assert {verdict for verdict, *_ in first.values()} >= {"pass", "fail", "error"}
    assert len(first) > 70
    for other in others:
        assert other == first
