"""Assertions about training steps: what a step reports and the parameters after it, against the reference."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from attest.boundary.training import JudgedTrainer
from attest.checks.arrays import expect, expect_close, expect_near, expect_same_bits, expect_shape
from attest.contract import Array, Arrays
from attest.contract.parameters import shapes
from attest.outcomes import Expected
from attest.reference.training.shadow import ExpectedStep, Shadow


def expect_within(seen: float, wanted: Expected, what: str) -> None:
    """One number within its bound."""
    expect_close(np.asarray(seen, np.float64), wanted, what)


def expect_ratio(seen: float, wanted: float, tolerance: float, what: str) -> None:
    """One number within a relative tolerance."""
    allowed = max(tolerance * abs(wanted), 1e-30)
    expect_near(np.asarray(seen, np.float64), np.asarray(wanted, np.float64), allowed, what)


def whole_parameters(trainer: JudgedTrainer) -> dict[str, Array]:
    """The model's parameters, once all of them are there with their shapes."""
    found = trainer.parameters()
    for name, shape in shapes(trainer.architecture.operation, trainer.config).items():
        expect(name in found, f"{name} is not among the model's parameters")
        expect_shape(found[name], shape, name)
    return found


def expect_step(
    trainer: JudgedTrainer, shadow: Shadow, batches: Sequence[Arrays], *, accumulated: Sequence[Arrays] = ()
) -> None:
    """The trainer's next step is the reference's; with `accumulated`, its update from those batches is."""
    wanted = shadow(whole_parameters(trainer), batches)
    number = shadow.moments.steps
    report = trainer.accumulate(accumulated) if accumulated else trainer.step(batches[0])
    expect_report(report, wanted, f"step {number}")
    after = whole_parameters(trainer)
    for name, value in wanted.parameters.items():
        expect_close(after[name], value, f"{name} after step {number}")


def expect_report(report: dict[str, float], wanted: ExpectedStep, which: str) -> None:
    """Loss, rate and norm."""
    expect_within(report["loss"], wanted.loss, f"the loss of {which}")
    expect_ratio(report["rate"], wanted.rate, 1e-6, f"the rate of {which}")
    expect_within(report["norm"], wanted.norm, f"the gradient norm of {which}")


def expect_same_run(seen: Arrays, wanted: Arrays, what: str) -> None:
    """The same parameters to the bit."""
    for name, value in wanted.items():
        expect(name in seen, f"{name} is not among the model's parameters")
        expect_same_bits(seen[name], value, f"{name} {what}")


def expect_same_reports(
    seen: Sequence[dict[str, float]], wanted: Sequence[dict[str, float]], what: str
) -> None:
    """The same losses and rates to the bit."""
    for i, (one, other) in enumerate(zip(seen, wanted), 1):
        for name in ("loss", "rate"):
            expect_same_bits(np.asarray(one[name]), np.asarray(other[name]), f"the {name} of step {i} {what}")


def expect_log(
    logged: Sequence[dict[str, float]], reports: Sequence[dict[str, float]], trained: range, log_every: int
) -> None:
    """An entry for each of the trained steps that is a multiple of log_every, as `reports` has it."""
    due = [step for step in trained if step % log_every == 0]
    steps = [entry["step"] for entry in logged]
    which = f"steps {trained[0]} to {trained[-1]} with log_every={log_every}"
    expect(steps == due, f"{which} logged steps {_listed(steps)}, should log {_listed(due)}")
    for entry in logged:
        report = reports[int(entry["step"]) - 1]
        for name in ("loss", "rate"):
            expect_ratio(entry[name], report[name], 1e-6, f"the logged {name} of step {entry['step']:g}")


def _listed(steps: list[float] | list[int]) -> str:
    return ", ".join(f"{step:g}" for step in steps) or "none"
