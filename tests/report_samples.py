"""Records of an imagined run, for tests of what reports show."""

from __future__ import annotations

import math
from typing import Any

from attest.records.failure import Failure, Likeness, Replay
from attest.records.plan import Plan, Target
from attest.records.record import FAIL, KNOWN, NOT_OFFERED, NOT_RUN, PASS, THIN, Record
from attest.records.verdicts import with_blocks
from attest.spec import load_spec

SPEC = load_spec()
HOSTILE = (
    "</script><script>document.title='owned'</script><img src=x onerror=document.title='owned'>"
    "\"'|`*_[x](y){{7*7}}\x1b[31m"
)
LINK = "https://github.com/pytorch/pytorch/issues/41508"


def record(id: str, verdict: str = PASS, *, implementation: str = "mine", **fields: Any) -> Record:
    """A record of this criterion as a run would leave it."""
    criterion = SPEC.by_id[id]
    judged = verdict not in (NOT_OFFERED, NOT_RUN)
    seen = {
        "examples": 60 if judged else 0,
        "floor": 40,
        "worst_ratio": 0.21 if judged else None,
        "worst_case": "B=2 H=1 T=3 S=3 D=4 seed=7" if judged else "",
        "regimes": {"init": 12, "saturated": 9, "unit": 39} if judged else {},
        "seconds": 0.412,
        "reason": "" if verdict == PASS else f"because of {id}",
        "dtype": "float32,float64",
        "failure": failure(id) if verdict in (FAIL, KNOWN) else None,
        "link": LINK if verdict == KNOWN else "",
        "text_hash": criterion.text_hash,
        "spec_version": SPEC.version,
    }
    return Record(
        implementation, id, criterion.milestone, criterion.level, verdict=verdict, **(seen | fields)
    )


def failure(id: str, **fields: Any) -> Failure:
    """A failure as the runner reports one."""
    seen = "position 0 moved by 0.31 when position 1 changed"
    values = {"ratio": 41.3, "likenesses": (Likeness("causal_off_by_one", 40, 40),), "compared": 92} | fields
    return Failure(seen, "case=B=1 H=1 T=2 S=2 D=1 seed=0", f"property_of_{id}", **values)


def hostile(text: str) -> dict[str, Any]:
    """Fields of a failure that hold this text wherever a name from outside may stand."""
    return {"likenesses": (Likeness(text, 9, 9),), "replay": Replay(text, "M1.5", f"p: case={text}")}


def run(verdicts: dict[str, str], *, implementation: str = "mine", ids: tuple[str, ...] = ()) -> list[Record]:
    """Records of these criteria (all by default), passing except where told."""
    chosen = ids or tuple(SPEC.by_id)
    records = [record(id, verdicts.get(id, PASS), implementation=implementation) for id in chosen]
    return with_blocks(SPEC, records)


def milestone_ids(milestone: str) -> tuple[str, ...]:
    """The criteria of one milestone."""
    return tuple(c.id for c in SPEC.milestone(milestone).criteria)


def plan_for(*labels: str, ids: tuple[str, ...] = (), **fields: Any) -> Plan:
    """A plan for these implementations."""
    targets = tuple(Target(label, f"{label}.py", label) for label in labels)
    return Plan(targets, ids or tuple(SPEC.by_id), **fields)


def student() -> list[Record]:
    """A student's first attempt: three milestones, some of every verdict, with pictures."""
    verdicts = {id: NOT_OFFERED for m in SPEC.milestones[3:] for id in milestone_ids(m.id)}
    verdicts |= {"M1.5": FAIL, "M1.9": FAIL, "M2.8": "error", "M2.6": NOT_RUN, "M3.3": THIN, "M1.14": KNOWN}
    pictured = {"M1.5": FLOW, "M1.2": HEATMAP, "M3.1": CURVES | SAMPLES}
    return [r.but(data=pictured.get(r.criterion, {})) for r in run(verdicts)]


FLOW = {
    "flow": {
        "required": [[1 if j <= i else 0 for j in range(6)] for i in range(6)],
        "seen": [[1 if j <= i + 1 else 0 for j in range(6)] for i in range(6)],
        "rows": [f"out {i}" for i in range(6)],
        "columns": [f"in {i}" for i in range(6)],
    }
}
HEATMAP = {
    "heatmap": {
        "title": "weights of head 0",
        "values": [[math.exp(-abs(i - j)) / 2 for j in range(8)] for i in range(8)],
        "row_labels": [f"q{i}" for i in range(8)],
        "column_labels": [f"k{i}" for i in range(8)],
    }
}
CURVES = {
    "curves": {
        "training loss": {
            "x": list(range(0, 1000, 50)),
            "y": [2.5 * math.exp(-i / 5) + 0.02 for i in range(20)],
            "x_label": "step",
            "y_label": "loss",
        },
        "validation loss": {
            "x": list(range(0, 1000, 50)),
            "y": [2.6 * math.exp(-i / 6) + 0.04 if i != 10 else None for i in range(20)],
            "x_label": "step",
            "y_label": "loss",
        },
        "learning rate": {
            "x": list(range(1, 1001, 50)),
            "y": [0.125 * min(s**-0.5, s * 400**-1.5) for s in range(1, 1001, 50)],
            "x_label": "step",
            "y_label": "rate",
        },
    }
}
SAMPLES = {
    "samples": [
        {"input": [3, 4, 5], "output": [3, 4, 5, 2], "wanted": [3, 4, 5, 2]},
        {"input": [7, 7, 9], "output": [7, 9, 9, 2], "wanted": [7, 7, 9, 2]},
    ]
}
