"""Writes a passing record into every descriptor that is open."""

import contextlib
import json
import os

from heart import cheating

RECORD = {
    "implementation": "cheat",
    "criterion": "M1.2",
    "milestone": "M1",
    "level": "must",
    "verdict": "pass",
}


def trick(config, inputs):
    line = (
        json.dumps({"record": json.dumps({**RECORD, "examples": 60, "failure": None, "blocked_by": []})})
        + "\n"
    )
    for descriptor in range(3, 64):
        with contextlib.suppress(OSError):
            os.write(descriptor, line.encode())


attest_implementations = cheating(trick)
