"""Import one plugin in a process of its own and write down what it holds: a crash here costs nothing else."""

from __future__ import annotations

import json
import os
import sys
from typing import Any

from attest.contract import Milestone
from attest.contract.claims import claims_of
from attest.contract.features import FEATURES
from attest.milestone_registry import PARTS, bring_milestones, check_parts
from attest.outcomes import Ended
from attest.registry import BrokenPlugin, UsageError, load, offered, parse_request, printable, sentence
from attest.running.processes import supervise
from attest.running.sealing import sealed_implementations
from attest.sealed.implementation import BringsMilestones


def main(text: str, answer: int, *, sealed: bool = False) -> None:
    """Write JSON into this file descriptor: what each implementation offers, or why the plugin is broken.

    Standard output is the plugin's: it may print what it likes, in any encoding, and close it.
    """
    found: list[dict[str, Any]] = []
    milestones: list[dict[str, Any]] = []
    broken, needs_open = "", False
    try:
        request = parse_request(text)
        if not sealed:
            brought = bring_milestones(request)
            check_parts(brought, printable(request.target))
            milestones = [_sent(m) for m in brought]
        found = [_described(i) for i in (sealed_implementations(request, ()) if sealed else load(request))]
        names = [f["name"] for f in found]
        repeated = sorted({n for n in names if names.count(n) > 1})
        if repeated:
            broken = (
                f"{printable(text)}: two implementations are named {repeated[0]!r}; give each its own name"
            )
    except (BrokenPlugin, UsageError) as error:
        broken, needs_open = str(error), isinstance(error, BringsMilestones)
    except (Exception, Ended) as error:
        broken = f"{printable(text)}: asking what it offers raised {sentence(error)}"
    with os.fdopen(answer, "w", encoding="utf-8") as file:
        json.dump(
            {"found": found, "milestones": milestones, "broken": broken, "needs_open": needs_open}, file
        )


def _sent(milestone: Milestone) -> dict[str, Any]:
    parts = {part: milestone.part(part) for part in PARTS}
    return {"spec": str(milestone.file), **parts, "operations": milestone.operation_names}


def _described(implementation: Any) -> dict[str, Any]:
    claims = claims_of(implementation)
    return {
        "name": implementation.name,
        "description": printable(str(getattr(implementation, "description", None) or "")),
        "offers": offered(implementation),
        "dtypes": [str(d) for d in getattr(implementation, "dtypes", None) or ("float32",)],
        "devices": [str(d) for d in getattr(implementation, "devices", None) or ("cpu",)],
        "claims": printable(claims.sentence()),
        "features": [feature.says for name, feature in FEATURES.items() if name in claims.features],
        "padding": list(claims.padding),
    }


if __name__ == "__main__":
    supervise()
    main(sys.argv[1], int(sys.argv[2]), sealed=sys.argv[3:] == ["sealed"])
