"""Import one plugin in a process of its own and print what it holds: a crash here costs nothing else."""

from __future__ import annotations

import json
import sys
from typing import Any

from attest.contract import Milestone
from attest.milestone_registry import PARTS, bring_milestones, check_parts
from attest.registry import BrokenPlugin, UsageError, load, offered, parse_request, printable


def main(text: str) -> None:
    """Print one line of JSON: what each implementation offers, or why the plugin is broken."""
    found: list[dict[str, Any]] = []
    milestones: list[dict[str, Any]] = []
    broken = ""
    try:
        request = parse_request(text)
        brought = bring_milestones(request)
        check_parts(brought, printable(request.target))
        milestones = [_sent(m) for m in brought]
        found = [_described(i) for i in load(request)]
        names = [f["name"] for f in found]
        repeated = sorted({n for n in names if names.count(n) > 1})
        if repeated:
            broken = (
                f"{printable(text)}: two implementations are named {repeated[0]!r}; give each its own name"
            )
    except (BrokenPlugin, UsageError) as error:
        broken = str(error)
    print("\nattest-probe " + json.dumps({"found": found, "milestones": milestones, "broken": broken}))


def _sent(milestone: Milestone) -> dict[str, Any]:
    parts = {part: milestone.part(part) for part in PARTS}
    return {"spec": str(milestone.file), **parts, "operations": milestone.operation_names}


def _described(implementation: Any) -> dict[str, Any]:
    return {
        "name": implementation.name,
        "description": printable(str(getattr(implementation, "description", None) or "")),
        "offers": offered(implementation),
        "dtypes": [str(d) for d in getattr(implementation, "dtypes", None) or ("float32",)],
        "devices": [str(d) for d in getattr(implementation, "devices", None) or ("cpu",)],
    }


if __name__ == "__main__":
    main(sys.argv[1])
