"""M5: training steps against the reference, logging, accumulation, evaluation, repeatability."""

from __future__ import annotations

from typing import Any

import numpy as np
from hypothesis import strategies as st

from attest.boundary import JudgedImplementation
from attest.boundary.training import JudgedTrainer
from attest.checks.arrays import expect, expect_same_bits
from attest.checks.training import (
    expect_log,
    expect_ratio,
    expect_same_reports,
    expect_same_run,
    expect_step,
    expect_within,
    whole_parameters,
)
from attest.contract import OPERATIONS, Architecture
from attest.contract.parameters import token_tables
from attest.evidence import note_case
from attest.judging.named import ONCE, named
from attest.judging.property import given, verifies
from attest.milestones.m05_training.cases.model import words_of
from attest.milestones.m05_training.cases.training import LONG_RUN, TrainingCase, training_cases
from attest.outcomes import NotOffered

TRIES = 8
PARALLEL = "parallel:true"


def trainer_of(impl: JudgedImplementation, case: TrainingCase) -> JudgedTrainer:
    """A fresh trainer with the case's weights."""
    return case.trainer(impl, case.parameters)


def fixed_case(impl: JudgedImplementation, architecture: Architecture, **fields: Any) -> TrainingCase:
    """A case that is not drawn."""
    return TrainingCase(architecture=architecture, **fields).fitted(impl)


@verifies("M5.6", effort=0.3)
@given(case=training_cases(clips=("one", "one", "middle")))
def steps_equal_the_reference(impl: JudgedImplementation, case: TrainingCase) -> None:
    """Loss, rate, norm and parameters of four steps are right, with norms above and below the limit."""
    trainer, shadow = trainer_of(impl, case), case.shadow()
    for batch in case.batches:
        expect_step(trainer, shadow, [batch])


@verifies("M5.6", effort=0.15)
@given(case=training_cases(schedules=("cosine",), steps=6))
def steps_take_the_rate_of_the_schedule(impl: JudgedImplementation, case: TrainingCase) -> None:
    """Each step takes the schedule's rate during the warm-up and after it, for every offered schedule."""
    case = case.but(warmup=2 + case.warmup % 2)
    try:
        trainer = trainer_of(impl, case)
    except NotOffered:
        case = case.but(schedule="inverse_sqrt")
        trainer = trainer_of(impl, case)
    shadow = case.shadow()
    for batch in case.batches:
        expect_step(trainer, shadow, [batch])


@verifies("M5.6", effort=ONCE)
@given(case=named(LONG_RUN))
def forty_steps_equal_the_reference(impl: JudgedImplementation, case: TrainingCase) -> None:
    """Forty steps are right: none is left out, accumulated or made with other constants."""
    trainer, shadow = trainer_of(impl, case), case.shadow()
    for batch in case.batches:
        expect_step(trainer, shadow, [batch])


@verifies("M5.6", effort=0.1)
@given(case=training_cases(steps=1))
def one_token_is_a_step(impl: JudgedImplementation, case: TrainingCase) -> None:
    """A step on a batch with a single label is that of the label."""
    expect_step(trainer_of(impl, case), case.shadow(), [case.single])


@verifies("M5.6d", effort=0.2)
@given(case=training_cases(smoothing=(0.0, 0.1)))
def padding_teaches_nothing(impl: JudgedImplementation, case: TrainingCase) -> None:
    """After steps on padded batches the pad row of every table, which is not zero, is the same to the bit."""
    tables = token_tables(case.architecture.operation, case.config)
    filled = {name: case.parameters[name].copy() for name in tables}
    for table in filled.values():
        table[case.pad_id] = 0.5
    trainer = case.trainer(impl, {**case.parameters, **filled})
    for batch in case.batches:
        trainer.step({name: case.longer(ids, 1) for name, ids in batch.items()})
    after = whole_parameters(trainer)
    for name, table in filled.items():
        what = f"the row of padding in {name} after {case.steps} steps"
        expect_same_bits(after[name][case.pad_id], table[case.pad_id].astype(after[name].dtype), what)


@verifies("M5.3b", effort=0.2)
@given(case=training_cases(steps=5, smoothing=(0.1,), clips=("one", "middle", "low")))
def accumulated_batches_equal_one_large_batch(impl: JudgedImplementation, case: TrainingCase) -> None:
    """An update from batches of unequal sizes equals the one from all of them joined, clipped once."""
    trainer, shadow = trainer_of(impl, case), case.shadow()
    for parts in (case.batches[:3], case.batches[3:], case.batches[1:3]):
        expect_step(trainer, shadow, [case.joined(parts)], accumulated=parts)


@verifies("M5.9", effort=0.3)
@given(case=training_cases(steps=1, smoothing=(0.0,)), rows=st.integers(1, 5))
def labels_are_the_input_shifted_by_one(impl: JudgedImplementation, case: TrainingCase, rows: int) -> None:
    """The first loss and gradient are those of labels shifted by one, with any padding."""
    batch = case.joined([case.batches[0], *case.but(steps=2, rows=rows).batches[1:]])
    expect_step(trainer_of(impl, case), case.shadow(), [batch])
    longer = {name: case.longer(ids, 2) for name, ids in batch.items()}
    expect_step(trainer_of(impl, case), case.shadow(), [longer])


@verifies("M5.9")
def the_shortest_target_asks_for_the_end(impl: JudgedImplementation, architecture: Architecture) -> None:
    """A target of BOS EOS has one label, EOS."""
    case = fixed_case(impl, architecture, steps=1, dtype=impl.dtypes[-1], clip="one")
    batch = case.asking_for(np.array([[3, 4]] * 2), np.array([[case.bos_id, case.eos_id]] * 2))
    note_case(f"{case} {architecture.written}=BOS EOS", "shortest")
    expect_step(trainer_of(impl, case), case.shadow(), [batch])


@verifies("M5.9")
def the_longest_target_has_one_column_more_than_max_len(
    impl: JudgedImplementation, architecture: Architecture
) -> None:
    """A target of max_len + 1 columns is accepted, because the model does not read the last."""
    case = fixed_case(impl, architecture, steps=1, dtype=impl.dtypes[-1], clip="one")
    longest = case.config.max_len
    words = words_of(case.rng(5), 4, longest, case.vocab, (case.pad_id, case.bos_id, case.eos_id))
    written = np.pad(words[2:], ((0, 0), (1, 0)), constant_values=case.bos_id)
    written[:, -1] = case.eos_id
    note_case(f"{case} {architecture.written} of {longest + 1} columns, max_len={longest}", "longest")
    batch = case.asking_for(words[:2], written)
    expect_step(trainer_of(impl, case), case.shadow(), [batch])


@verifies("M5.10", effort=0.2)
@given(case=training_cases(smoothing=(0.0,)))
def each_step_sees_its_own_batch_only(impl: JudgedImplementation, case: TrainingCase) -> None:
    """The gradient norm of a step is that of its batch alone."""
    trainer = trainer_of(impl, case)
    shadow = case.shadow()
    for i, batch in enumerate((*case.batches, case.batches[0]), 1):
        wanted = shadow(whole_parameters(trainer), [batch]).norm
        expect_within(trainer.step(batch)["norm"], wanted, f"the gradient norm of step {i}")


@verifies("M5.10")
def training_uses_dropout_and_evaluation_does_not(
    impl: JudgedImplementation, architecture: Architecture
) -> None:
    """Training losses carry dropout noise, also after an evaluation; evaluation losses do not."""
    case = fixed_case(impl, architecture, dropout=0.5, warmup=400, rows=6, clip="one", dtype=impl.dtypes[0])
    trainer = trainer_of(impl, case)
    for when in ("at first", "after an evaluation"):
        note_case(f"{case} {when}", "dropout")
        gaps = []
        for batch in case.batches:
            quiet = float(case.shadow().evaluation_loss(whole_parameters(trainer), [batch]).value)
            gaps.append(abs(trainer.step(batch)["loss"] - quiet))
        # Half of all numbers are dropped: four noisy losses this near the quiet ones are not chance.
        near = f"within {max(gaps):.2g} of those without"
        seen = f"the losses of four steps with dropout {case.dropout} {when} are {near}"
        expect(max(gaps) > 1e-3, f"{seen}; training should be in train mode")
        trainer.evaluate(case.batches)


@verifies("M5.10")
def every_step_draws_noise_of_its_own(impl: JudgedImplementation, architecture: Architecture) -> None:
    """Steps on the same batch at nearly zero rate have losses that differ by their dropout."""
    case = fixed_case(impl, architecture, dropout=0.5, warmup=10**8, rows=6, clip="one", dtype=impl.dtypes[0])
    note_case(f"{case} the same batch four times", "dropout")
    trainer = trainer_of(impl, case)
    losses = [trainer.step(case.batches[1])["loss"] for _ in range(4)]
    seen = f"four steps on the same batch with dropout {case.dropout} gave losses within {np.ptp(losses):.2g}"
    expect(np.ptp(losses) > 1e-3, f"{seen}; each should draw other noise")


@verifies("M5.10")
def training_drops_out_in_every_sublayer(impl: JudgedImplementation, architecture: Architecture) -> None:
    """The first step leaves alone what was dropped, in every sublayer and embedded input.

    With one position per stream, a number of the bias that a sublayer ends with, or of the embedding of the
    one id, has no gradient where it was dropped, and Adam's first step does not move it. The others move.

    Half of 16 numbers are dropped, and up to TRIES trainers are asked. Dropout on attention weights, which
    is allowed, can leave a whole array alone if it drops the one key of all 4 heads, with probability 1/16;
    such a step tells nothing. So a correct trainer is refused with probability below 7 * (1/16 + 2^-15)^8,
    which is 2e-9.
    """
    fields: dict[str, Any] = {"H": 4, "d_k": 4, "dropout": 0.5, "clip": "one", "dtype": impl.dtypes[0]}
    plain = fixed_case(impl, architecture, steps=1, **fields)
    if plain.fixed:
        return  # batches of one row are not offered there, and every config costs a build
    for case in (plain, *parallel(plain, impl)):
        expect_dropped_everywhere(impl, case)


def parallel(case: TrainingCase, impl: JudgedImplementation) -> list[TrainingCase]:
    """The case with layers whose sublayers stand side by side, where that is claimed."""
    record = OPERATIONS[case.architecture.operation]
    other = case.but(norm="pre", options=PARALLEL)
    return [other] if "parallel" in record.reads and not other.unclaimed(impl) else []


def expect_dropped_everywhere(impl: JudgedImplementation, case: TrainingCase) -> None:
    """Some first step leaves part of each array alone."""
    quiet: set[str] = set(noisy_arrays(case))
    for seed in range(TRIES):
        note_case(f"{case} seed={seed}, one position per stream", "dropout")
        quiet -= partly_moved(case.trainer(impl, case.parameters, seed=seed), case)
        if not quiet:
            return
    seen = f"the first step of {TRIES} trainers with dropout {case.dropout} moved all of {min(quiet)}"
    expect(False, f"{seen}; dropout should leave some of them without a gradient")


def noisy_arrays(case: TrainingCase) -> dict[str, Any]:
    """What ends in dropout, and the part of the array that one position reaches."""
    ends = (".output.bias", ".outer.bias")
    found: dict[str, Any] = {name: slice(None) for name in case.parameters if name.endswith(ends)}
    batch = case.one_position
    reached = {stream: batch[stream][0, 0] for stream in case.architecture.streams}
    tables = {f"{stream}_embedding.weight": row for stream, row in reached.items()}
    if not case.config.embedding_norm:  # behind which every number of the embedding counts for all of them
        tables["embedding.weight"] = reached[case.architecture.written]
    return found | {name: row for name, row in tables.items() if name in case.parameters}


def partly_moved(trainer: JudgedTrainer, case: TrainingCase) -> set[str]:
    """The arrays of which one step on one position moves some numbers and leaves others to the bit."""
    trainer.step(case.one_position)
    after = whole_parameters(trainer)
    moved = {
        name: after[name][part] != case.parameters[name][part] for name, part in noisy_arrays(case).items()
    }
    return {name for name, changed in moved.items() if changed.any() and not changed.all()}


@verifies("M5.10")
def evaluation_leaves_the_mode(impl: JudgedImplementation, architecture: Architecture) -> None:
    """After an evaluation the model is in the mode it was in before."""
    case = fixed_case(impl, architecture, dropout=0.5, rows=6, dtype=impl.dtypes[0])
    trainer = trainer_of(impl, case)
    inputs = architecture.inputs(case.batches[1])
    trainer.model.eval()
    quiet = trainer.model(**inputs)["logits"]
    for mode in ("train", "eval"):
        note_case(f"{case} mode={mode}", "mode")
        trainer.model.train(7) if mode == "train" else trainer.model.eval()
        before = trainer.model(**inputs)["logits"]
        trainer.evaluate(case.batches)
        expect_same_bits(trainer.model(**inputs)["logits"], before, f"logits in {mode} mode after evaluate")
        expect(mode == "eval" or not np.array_equal(before, quiet), "train mode has no dropout")


@verifies("M5.8", effort=0.2)
@given(case=training_cases(steps=5), log_every=st.sampled_from((2, 1, 3, 5, 9)))
def loss_and_rate_are_logged_every_n_steps(
    impl: JudgedImplementation, case: TrainingCase, log_every: int
) -> None:
    """Steps N, 2N, ... and no others are logged, each with its loss and its rate."""
    twin = trainer_of(impl, case)
    reports = [twin.step(batch) for batch in case.batches]
    logged = trainer_of(impl, case).fit(case.batches, log_every)
    expect_log(logged, reports, range(1, case.steps + 1), log_every)


@verifies("M5.8", effort=0.15)
@given(case=training_cases(dropout=0.3, steps=5), log_every=st.sampled_from((2, 3, 4)))
def fit_makes_the_steps_of_step(impl: JudgedImplementation, case: TrainingCase, log_every: int) -> None:
    """Fit makes the same steps as step, after a step and after another fit, dropout included."""
    twin, trainer = trainer_of(impl, case), trainer_of(impl, case)
    wanted = [twin.step(batch) for batch in (*case.batches, *case.batches[:4])]
    trainer.step(case.batches[0])
    logged = trainer.fit(case.batches[1:], log_every)
    logged += trainer.fit(case.batches[:4], log_every, once=False)
    expect_log(logged, wanted, range(2, len(wanted) + 1), log_every)
    expect_same_run(trainer.parameters(), twin.parameters(), "after fit, against the same steps one by one")


@verifies("M5.10c", effort=0.15)
@given(case=training_cases(dropout=0.3, steps=3))
def the_same_seed_gives_the_same_run(impl: JudgedImplementation, case: TrainingCase) -> None:
    """Two trainers of one seed take the same steps to the bit, also when others run in between."""
    alone = case.trainer(impl)
    start = whole_parameters(alone)
    wanted = [alone.step(batch) for batch in case.batches]
    one, other = (
        case.trainer(impl),
        case.trainer(impl, seed=case.seed + 1),
    )
    expect_same_run(one.parameters(), start, "of a second trainer with the same seed")
    for others in (other, *(case.trainer(impl, seed=case.seed + by) for by in (2, 256))):
        seed, found = others.config.seed, whole_parameters(others)
        moved = any(not np.array_equal(value, start[name]) for name, value in found.items())
        expect(moved, f"the seeds {case.seed} and {seed} give the same initial parameters")
    seen = []
    for batch in case.batches:
        other.step(case.batches[0])
        seen.append(one.step(batch))
    expect_same_reports(seen, wanted, "of a second run with the same seed")
    expect_same_run(one.parameters(), alone.parameters(), "after a second run with the same seed")


@verifies("M5.13", effort=0.2)
@given(case=training_cases(dropout=0.3, smoothing=(0.1, 0.0)))
def evaluation_is_the_loss_per_token(impl: JudgedImplementation, case: TrainingCase) -> None:
    """The loss is per token over all batches, unsmoothed and without dropout, for any split."""
    trainer = trainer_of(impl, case)
    wanted = case.shadow().evaluation_loss(whole_parameters(trainer), case.batches)
    whole = [case.joined(case.batches)]
    for batches, once, how in (
        (case.batches, False, "batch by batch"),
        (case.batches, True, "from batches that can be read once"),
        (whole, False, "in one batch"),
    ):
        seen = trainer.evaluate(batches, once=once)
        expect_within(seen["loss"], wanted, f"the evaluated loss, {how},")
        expect_ratio(seen["perplexity"], float(np.exp(seen["loss"])), 1e-5, "perplexity, against exp(loss),")


@verifies("M5.13", effort=0.1)
@given(case=training_cases(steps=1))
def one_token_is_evaluated(impl: JudgedImplementation, case: TrainingCase) -> None:
    """The loss of a batch with a single label is that of the label."""
    trainer = trainer_of(impl, case)
    wanted = case.shadow().evaluation_loss(whole_parameters(trainer), [case.single])
    expect_within(trainer.evaluate([case.single])["loss"], wanted, "the evaluated loss of one token")


@verifies("M5.13", effort=0.1)
@given(case=training_cases(dropout=0.3, steps=3))
def evaluation_follows_the_parameters(impl: JudgedImplementation, case: TrainingCase) -> None:
    """Evaluating the same list of batches after a step uses the new parameters."""
    trainer, kept = trainer_of(impl, case), case.batches
    for turn, batch in enumerate(case.batches):
        wanted = case.shadow().evaluation_loss(whole_parameters(trainer), case.batches)
        what = f"the evaluated loss after {turn} steps"
        expect_within(trainer.evaluate(kept, copied=False)["loss"], wanted, what)
        trainer.step(batch)


@verifies("M5.13", effort=0.15)
@given(case=training_cases(dropout=0.3, steps=3))
def evaluation_changes_nothing(impl: JudgedImplementation, case: TrainingCase) -> None:
    """The next steps are the same to the bit with and without an evaluation."""
    watched, unwatched = trainer_of(impl, case), trainer_of(impl, case)
    seen, wanted = [], []
    for batch in case.batches:
        before = watched.parameters()
        watched.evaluate(case.batches)
        expect_same_run(watched.parameters(), before, "after evaluate")
        seen.append(watched.step(batch))
        wanted.append(unwatched.step(batch))
    expect_same_reports(seen, wanted, "with an evaluation before it")
    expect_same_run(watched.parameters(), unwatched.parameters(), "after steps with evaluations between")
