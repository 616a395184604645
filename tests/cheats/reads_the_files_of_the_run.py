"""Looks through what is lying about: temporary files, shared memory with a name, and what they hold."""

import contextlib
import os

from heart import cheating, wrong
from reads_descriptors import near

PLACES = ("/dev/shm", "/tmp", "/var/tmp")


def files():
    for place in PLACES:
        for folder, _, names in os.walk(place):
            if "attest-" in folder or place == "/dev/shm":
                yield from (os.path.join(folder, name) for name in names)


def trick(config, inputs):
    mine = wrong(**inputs)["output"]
    for path in files():
        with contextlib.suppress(OSError), open(path, "rb") as file:
            if (found := near(file.read(2**14), mine)) is not None:
                return {"output": found}
    return None


attest_implementations = cheating(trick)
