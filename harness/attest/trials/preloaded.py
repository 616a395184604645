"""Imported once by the process from which every judging process is forked: each starts in milliseconds.

No implementation is imported here: a judging process imports it by itself, mutated or not.
"""

from __future__ import annotations

import contextlib
import warnings

from attest.boundary import JudgedImplementation
from attest.judging.catalogue import defects
from attest.judging.property import load_properties
from attest.reference.implementation import ReferenceImplementation
from attest.running.judging import Settings, judge
from attest.spec import load_spec
from attest.trials import mutants, presented, reach
from attest.trials.judgement import unshrunk

with warnings.catch_warnings():
    warnings.simplefilter("ignore")
    load_properties()
    defects()
    with contextlib.suppress(ImportError):
        import torch

        # A thread of torch that exists before a fork does not exist after it.
        torch.set_num_threads(1)
        torch.ones(2, 2).matmul(torch.ones(2, 2)).softmax(-1).sum()
    # What Hypothesis and the reference make at their first use, every judging process would make again.
    # Without a timer, which would begin a thread.
    judge(
        load_spec().by_id["M1.2"],
        unshrunk("M1.2"),
        JudgedImplementation(ReferenceImplementation()),
        Settings(profile="quick"),
    )

JOBS = (mutants.judge_mutant, presented.trial, reach.reach_of)
