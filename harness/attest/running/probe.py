"""Import one plugin in a process of its own and print what it holds: a crash here costs nothing else."""

from __future__ import annotations

import json
import sys

from attest.registry import BrokenPlugin, UsageError, load, parse_request


def main(text: str) -> None:
    """Print one line of JSON: names, or why the plugin is broken."""
    names: list[str] = []
    broken = ""
    try:
        names = [i.name for i in load(parse_request(text))]
        repeated = sorted({n for n in names if names.count(n) > 1})
        if repeated:
            broken = f"{text}: two implementations are named {repeated[0]!r}; give each its own name"
    except (BrokenPlugin, UsageError) as error:
        broken = str(error)
    print("\nattest-probe " + json.dumps({"names": names, "broken": broken}))


if __name__ == "__main__":
    main(sys.argv[1])
