"""M10: it learns the digit operations. The weakest evidence, and the last."""

from __future__ import annotations

from attest.boundary import JudgedImplementation
from attest.boundary.training import JudgedTrainer
from attest.checks.arrays import expect
from attest.evidence import current, note_case
from attest.judging.property import verifies
from attest.trained.digits import BATCH, SIZES, TRAINING, DigitOperations
from attest.trained.epochs import EPOCHS, Training, train_by_epochs
from attest.trained.evaluation import Answered, answered, by_operation, confusion, mistakes

GOAL = 0.95  # of the test questions
FEW = 8  # epochs, in which all operations but SUM are learned
HARD = "SUM"


@verifies("M10.10", only=("quick",), trains=True, costly=True)
def six_operations_are_learned_in_eight_epochs(impl: JudgedImplementation) -> None:
    """Every operation but the sum, which needs all forty."""
    seen, task = learned(impl, FEW)
    for name, row in by_operation(seen, task.splits["train"]).items():
        share = 100 * row["accuracy"]
        good = name == HARD or row["accuracy"] >= GOAL
        expect(good, f"after {FEW} epochs {share:.1f} % of the {name} questions are right, should be 95 %")


@verifies("M10.10", only=("standard", "deep"), trains=True, costly=True)
def the_operations_are_learned(impl: JudgedImplementation) -> None:
    """At least 95 % of the test questions, to the last token."""
    seen, _ = learned(impl, EPOCHS)
    share = 100 * seen.accuracy
    expect(seen.accuracy >= GOAL, f"{share:.1f} % of the test questions are right, should be 95 %")


def learned(impl: JudgedImplementation, epochs: int) -> tuple[Answered, DigitOperations]:
    """What the best of so many epochs answers to the test questions."""
    note_case(f"operations: 8,000 examples, d_model 64, 4 heads, 1+1 layers, {epochs} epochs", "operations")
    task = DigitOperations()
    steps = epochs * -(-SIZES["train"] // BATCH)
    trainer = JudgedTrainer(impl, TRAINING.but(dtype=impl.dtypes[0], total_steps=steps))
    training = train_by_epochs(impl, task, trainer, epochs=epochs)
    seen = answered(impl, task, trainer.config, training.parameters, task.splits["test"])
    show(training, seen)
    return seen, task


def show(training: Training, seen: Answered) -> None:
    """Curves, confusion matrix and mistakes for the report."""
    epochs = list(range(1, len(training.losses) + 1))
    said = {"training loss": ("loss", training.losses), "validation": ("share right", training.accuracies)}
    current().data["curves"] = {
        name: {"x": epochs, "y": [float(f"{v:.5g}") for v in y], "x_label": "epoch", "y_label": label}
        for name, (label, y) in said.items()
    }
    counts = confusion(seen)
    current().data["heatmap"] = {
        "title": f"{len(seen.questions)} test questions: wanted digit by written digit",
        "values": counts.tolist(),
        "column_labels": [*range(counts.shape[1] - 1), "other"],
    }
    current().data["samples"] = [
        {"input": wrong["question"], "output": wrong["written"], "wanted": wrong["wanted"]}
        for wrong in mistakes(seen)
    ]
