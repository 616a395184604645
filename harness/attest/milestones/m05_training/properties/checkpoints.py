"""M5: a saved run continues to the bit."""

from __future__ import annotations

import tempfile

from hypothesis import strategies as st

from attest.boundary import JudgedImplementation
from attest.checks.training import expect_log, expect_same_reports, expect_same_run
from attest.judging.property import given, verifies
from attest.milestones.m05_training.cases.training import TrainingCase, training_cases


@verifies("M5.11", effort=0.15)
@given(case=training_cases(dropout=0.3, steps=5), saved_after=st.integers(1, 3))
def a_saved_run_continues_to_the_bit(
    impl: JudgedImplementation, case: TrainingCase, saved_after: int
) -> None:
    """n steps, save, load and m steps equal n + m steps to the bit, for the new trainer and the saved one."""
    straight = case.trainer(impl, case.parameters)
    wanted = [straight.step(batch) for batch in case.batches]
    saved = case.trainer(impl, case.parameters)
    first = [saved.step(batch) for batch in case.batches[:saved_after]]
    resumed = case.trainer(impl)
    with tempfile.TemporaryDirectory() as directory:
        saved.save(directory)
        resumed.load(directory)
    expect_same_run(resumed.parameters(), saved.parameters(), "after save and load")
    for trainer, which in ((resumed, "of the resumed run"), (saved, "of the saved run")):
        rest = [trainer.step(batch) for batch in case.batches[saved_after:]]
        expect_same_reports([*first, *rest], wanted, which)
        expect_same_run(trainer.parameters(), straight.parameters(), f"at the end {which}")


@verifies("M5.11", effort=0.1)
@given(case=training_cases(dropout=0.3, steps=3))
def a_checkpoint_is_of_its_moment(impl: JudgedImplementation, case: TrainingCase) -> None:
    """A checkpoint saved in the middle and loaded later restores the middle of the run."""
    trainer = case.trainer(impl, case.parameters)
    trainer.step(case.batches[0])
    with tempfile.TemporaryDirectory() as directory:
        trainer.save(directory)
        kept = trainer.parameters()
        wanted = [trainer.step(batch) for batch in case.batches[1:]]
        end = trainer.parameters()
        trainer.load(directory)
    expect_same_run(trainer.parameters(), kept, "after going back to the checkpoint")
    seen = [trainer.step(batch) for batch in case.batches[1:]]
    expect_same_reports(seen, wanted, "after going back to the checkpoint")
    expect_same_run(trainer.parameters(), end, "at the end, after going back to the checkpoint")


@verifies("M5.11", effort=0.1)
@given(case=training_cases(dropout=0.3, steps=5))
def the_last_checkpoint_counts(impl: JudgedImplementation, case: TrainingCase) -> None:
    """The second checkpoint saved into a directory replaces the first, for a trainer of any seed."""
    straight = case.trainer(impl, case.parameters)
    saved = case.trainer(impl, case.parameters)
    resumed = case.trainer(impl, seed=case.seed + 1)
    wanted = [straight.step(batch) for batch in case.batches]
    with tempfile.TemporaryDirectory() as directory:
        for batch in case.batches[:2]:
            saved.step(batch)
            saved.save(directory)
        resumed.load(directory)
    expect_same_run(resumed.parameters(), saved.parameters(), "after a second save and load")
    logged = resumed.fit(case.batches[2:], 1)
    expect_log(logged, wanted, range(3, 6), 1)
    expect_same_run(
        resumed.parameters(), straight.parameters(), "at the end of a run resumed under a new seed"
    )
