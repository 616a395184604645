"""The same verdicts, reasons and smallest cases with 1 and with 8 workers, sealed and open."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from attest.spec import load_spec

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
    def alibi_slopes(self, heads):
        return os._exit(9) if heads > 4 else 2.0 ** (-8.0 * np.arange(1, heads + 1) / heads)
    def relative_buckets(self, *args, **named):
        raise KeyboardInterrupt
    def rotary(self, config):
        return lambda x, positions: {"output": x.copy()}
    def linear_attention(self, config):
        return lambda **inputs: os.kill(os.getpid(), 11)
    def chunked_attention(self, config):
        def attend(q, k, v, **more):
            powers = np.exp(q @ np.swapaxes(k, -1, -2) / np.sqrt(q.shape[-1]))
            return {"output": powers / powers.sum(-1, keepdims=True) @ v}
        return attend
    def rms_norm(self, config):
        return lambda x: {"output": x / np.sqrt((x * x).mean(-1, keepdims=True) + config.norm_eps)}
    def softmax(self, config):
        def normalised(x):
            powers = np.exp(x)
            return {"output": powers / powers.sum(-1, keepdims=True)}
        return normalised
    def sgd(self, config):
        return sys.exit(3)
    def confusion_matrix(self, wanted, written, classes):
        counts = np.zeros((classes, classes), np.int64)
        np.add.at(counts, (np.asarray(written), np.asarray(wanted)), 1)
        return counts

def attest_implementations():
    return [Subject()]
"""


def judged(
    home: Path, mode: str, workers: int, criteria: list[str]
) -> dict[tuple[str, str], tuple[str, ...]]:
    """Verdict, reason and smallest case of every criterion."""
    out = home / f"{mode}-{workers}"
    words = [word for id in criteria for word in ("-c", id)]
    words += ["--impl", "misbehaves.py", "--impl", "numpy_scratch", "--seed", "0"]
    words += ["--profile", "quick", "-n", str(workers), "--reports", str(out), f"--{mode}"]
    run = subprocess.run([ATTEST, "run", *words], cwd=home, capture_output=True, text=True, check=False)
    assert run.returncode == 1, run.stdout + run.stderr
    found = {}
    for path in out.glob("*/report.json"):
        for row in (r for m in json.loads(path.read_text())["milestones"] for r in m["criteria"]):
            case = row["failure"]["case"] if row["failure"] else ""
            found[path.parent.name, row["id"]] = row["verdict"], row["reason"], case
    return found


# What trains is left out: it takes minutes, and its steps are asked in the other criteria.
ASKED = {
    " ".join(milestones): [
        c.id
        for c in load_spec().criteria
        if c.milestone in milestones and not any("trainer" in need for need in c.needs)
    ]
    for milestones in (("M1", "M2"),)
}


@pytest.mark.slow
@pytest.mark.parametrize("criteria", ASKED.values(), ids=list(ASKED))
def test_workers_and_seals_change_no_verdict(tmp_path, criteria):
    (tmp_path / "misbehaves.py").write_text(MISBEHAVES)
    first, *others = [judged(tmp_path, mode, workers, criteria) for mode in MODES for workers in (1, 8)]
    assert {verdict for verdict, *_ in first.values()} >= {"pass", "fail"}
    assert len(first) == 2 * len(criteria)
    for other in others:
        assert other == first
