"""The model a run trains once and shares: by file lock and canonical parameters on disk."""

from __future__ import annotations

import fcntl
import tempfile
import time
import zlib
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

import numpy as np

from attest.boundary import JudgedImplementation
from attest.boundary.training import JudgedTrainer, finite_number
from attest.contract import Architecture, Array, Config
from attest.outcomes import Timeout, Violation
from attest.trained.models import SavedModel, failure_of, is_written, read_model, write_failure
from attest.trained.tasks import EOS, PAD, TRAINING, Batch, Task, Written

STEPS = 1000
LOOK_EVERY = 25  # steps between two looks at the validation loss
GOAL, EXACT = 0.1, 0.97
HELD_OUT, EVALUATED_TOGETHER = 256, 64

_directory: Path | None = None


def use_directory(path: str) -> None:
    """Where this run keeps what it trains."""
    global _directory
    if path:
        _directory = Path(path)


def shared_directory() -> Path:
    """The run's directory, or a new temporary one outside a run."""
    global _directory
    if _directory is None:
        _directory = Path(tempfile.mkdtemp(prefix="attest-"))
    return _directory


@dataclass(frozen=True)
class Trained:
    """A trained model as canonical parameters, and how its training went."""

    architecture: Architecture
    config: Config
    parameters: dict[str, Array]
    losses: list[tuple[int, float, float]]  # step, loss, rate
    validation: list[tuple[int, float]]  # step, loss without smoothing and dropout
    step_below: int | None  # the first look at which the validation loss was below the goal
    validation_loss: float
    exact: float
    seconds: float


HISTORY = tuple(f.name for f in fields(Trained) if f.name not in ("architecture", "config", "parameters"))


def trained(impl: JudgedImplementation, task: Task) -> Trained:
    """The model this run has trained on the task; the first caller trains it.

    A training that failed is shared too: the next caller gets the same Violation at once.
    """
    directory = shared_directory() / _key(impl, task)
    with _locked(shared_directory() / f"{_key(impl, task)}.lock"):
        if not is_written(directory):
            _attempt(impl, task, directory)
    if failure := failure_of(directory):
        raise Violation(failure)
    return recalled(read_model(directory))


def _key(impl: JudgedImplementation, task: Task) -> str:
    options = zlib.crc32(repr(impl.options).encode())
    where = impl.device.replace(":", "")
    return f"{impl.name}-{impl.dtypes[0]}-{where}-{options:08x}-{task.architecture}-{task.name}"


@contextmanager
def _locked(path: Path) -> Iterator[None]:
    """One process at a time; the lock of a process that dies is released with it."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


def _attempt(impl: JudgedImplementation, task: Task, directory: Path) -> None:
    try:
        saved(impl.name, task, train(impl, task)).write(directory)
    except Violation as violation:
        write_failure(directory, violation.seen)
    except Timeout as stopped:
        write_failure(directory, f"training on {task.name} {stopped}")
        raise


def saved(implementation: str, task: Task, model: Trained) -> SavedModel:
    """A trained model as it is written."""
    history = {name: getattr(model, name) for name in HISTORY}
    return SavedModel(
        implementation=implementation,
        task=task.name,
        config=model.config,
        parameters=model.parameters,
        architecture=task.architecture,
        history=history,
    )


def recalled(model: SavedModel) -> Trained:
    """The inverse; JSON has lists where rows were tuples."""
    history = dict(model.history)
    for name in ("losses", "validation"):
        history[name] = [tuple(row) for row in history[name]]
    return Trained(model.architecture, model.config, model.parameters, **history)


def train(
    impl: JudgedImplementation,
    task: Task,
    *,
    on_step: Callable[[int, dict[str, float], float | None], None] = lambda step, report, validation: None,
    steps: int = STEPS,
    trainer: JudgedTrainer | None = None,
) -> Trained:
    """Train to 97 % exact or to the last step, looking at held-out data on the way."""
    config = TRAINING.but(dtype=impl.dtypes[0])
    trainer = trainer or JudgedTrainer(impl, config, architecture=task.architecture)
    held_out = task.held_out(HELD_OUT)
    validation = [task.batch(part) for part in _parts(held_out)]
    started = time.perf_counter()
    losses: list[tuple[int, float, float]] = []
    looks: list[tuple[int, float]] = []
    exact = 0.0
    for step, batch in zip(range(1, steps + 1), task.batches("train", config.seed)):
        report = trainer.step(batch)
        losses.append((step, finite_number(report["loss"], f"the loss of step {step}"), report["rate"]))
        if step % LOOK_EVERY and step != steps:
            on_step(step, report, None)
            continue
        seen = trainer.evaluate(validation)["loss"]
        looks.append((step, finite_number(seen, f"the validation loss at step {step}")))
        on_step(step, report, seen)
        if seen < GOAL or step == steps:
            exact = exact_share(impl, task, config, trainer.parameters(), held_out)
        if exact >= EXACT:
            break
    below = next((step for step, loss in looks if loss < GOAL), None)
    seconds = round(time.perf_counter() - started, 2)
    found = dict(trainer.parameters())
    loss = looks[-1][1]
    return Trained(task.architecture, config, found, losses, looks, below, loss, exact, seconds)


def exact_share(
    impl: JudgedImplementation,
    task: Task,
    config: Config,
    parameters: dict[str, Array],
    sequences: Sequence[Any],
) -> float:
    """How many come out right to the last token: by greedy generation, or by argmax where there is none."""
    right = 0
    for part in _parts(sequences):
        batch = task.batch(part)
        written = written_by(impl, task, config, parameters, batch)
        right += sum(
            tuple(map(int, row[: len(ids) + 1])) == (*task.answer(ids), EOS)
            for row, ids in zip(written, part)
        )
    return right / len(sequences)


def written_by(
    impl: JudgedImplementation, task: Written, config: Config, parameters: dict[str, Array], batch: Batch
) -> Array:
    """(B, L): what the model writes for these prompts, or where it cannot, its best next tokens."""
    architecture = task.architecture
    length = batch[architecture.written].shape[1] - 1
    if impl.offers(architecture.generate):
        generator = impl.build(architecture.generate, config)
        generator.load(parameters)
        asked = {architecture.prompt_keyword: batch[architecture.prompt], "max_len": length}
        tokens = generator(**asked, method="greedy")["tokens"]
        rows = tokens.reshape(len(tokens), -1)[:, :length]
        return np.pad(rows, ((0, 0), (0, length - rows.shape[1])), constant_values=PAD)
    model = impl.build(architecture.operation, config)
    model.load(parameters)
    written: Array = model(**architecture.inputs(batch))["logits"].argmax(-1)
    return written


def _parts(sequences: Sequence[Any]) -> list[Sequence[Any]]:
    return [sequences[i : i + EVALUATED_TOGETHER] for i in range(0, len(sequences), EVALUATED_TOGETHER)]
