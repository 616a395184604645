"""Imported once by the process from which every judging process is forked, so that each starts in milliseconds.

No implementation is imported here: a judging process imports it by itself, mutated or not.
"""

from __future__ import annotations

import contextlib
import sys
import warnings

from attest.judging.catalogue import defects
from attest.judging.property import load_properties

with warnings.catch_warnings():
    warnings.simplefilter("ignore")
    load_properties()
    defects()
    with contextlib.suppress(ImportError):
        import hypothesis.stateful
        import torch

        # A thread of torch that exists before a fork does not exist after it.
        torch.set_num_threads(1)

LOADED = "hypothesis.stateful" in sys.modules
