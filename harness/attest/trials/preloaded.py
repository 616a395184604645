"""Imported once by the process from which every judging process is forked: each starts in milliseconds.

No implementation is imported here: a judging process imports it by itself, mutated or not.
"""

from __future__ import annotations

import contextlib
import warnings

from attest.judging.catalogue import defects
from attest.judging.property import load_properties
from attest.trials import mutants, presented, reach

with warnings.catch_warnings():
    warnings.simplefilter("ignore")
    load_properties()
    defects()
    with contextlib.suppress(ImportError):
        import torch

        # A thread of torch that exists before a fork does not exist after it.
        torch.set_num_threads(1)

JOBS = (mutants.judge_mutant, presented.trial, reach.reach_of)
