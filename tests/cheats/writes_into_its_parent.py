"""Writes a passing record into every pipe of the process that started it."""

import contextlib
import json
import os

from forges_a_record import RECORD
from heart import cheating


def trick(config, inputs):
    told = json.dumps({"record": json.dumps({**RECORD, "examples": 60, "failure": None, "blocked_by": []})})
    for descriptor in range(3, 64):
        path = f"/proc/{os.getppid()}/fd/{descriptor}"
        with contextlib.suppress(OSError):
            if "pipe:" in os.readlink(path):
                os.write(os.open(path, os.O_WRONLY | os.O_NONBLOCK), f"{told}\n".encode())


attest_implementations = cheating(trick)
