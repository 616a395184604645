"""Finds the harness on disk and imports it past whatever refuses its name."""

import sys
from importlib.metadata import distribution
from pathlib import Path

from heart import cheating


def homes():
    """Directories that may hold the package: where its metadata is, and where an editable install points."""
    files = distribution("attest-transformers").files or ()
    yield from {Path(file.locate()).parents[1] for file in files}
    for name, module in list(sys.modules.items()):
        if name.startswith("__editable__"):
            yield Path(module.MAPPING["attest"]).parent


def trick(config, inputs):
    sys.meta_path[:] = [finder for finder in sys.meta_path if isinstance(finder, type)]
    for name in [name for name in sys.modules if name.partition(".")[0] == "attest"]:
        del sys.modules[name]
    sys.path[:0] = map(str, homes())
    from attest.reference.implementation import ReferenceImplementation

    return ReferenceImplementation().attention(config)(**inputs)


attest_implementations = cheating(trick)
