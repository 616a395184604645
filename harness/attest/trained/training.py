"""The model a run trains once and shares: by file lock and canonical parameters on disk."""

from __future__ import annotations

import fcntl
import json
import os
import tempfile
import time
import zlib
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Any

import numpy as np

from attest.boundary import JudgedImplementation
from attest.boundary.training import JudgedTrainer, finite_number
from attest.contract import Array, Config
from attest.outcomes import Timeout, Violation
from attest.trained.tasks import EOS, PAD, TRAINING, Batch, Task

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

    config: Config
    parameters: dict[str, Array]
    losses: list[tuple[int, float, float]]  # step, loss, rate
    validation: list[tuple[int, float]]  # step, loss without smoothing and dropout
    step_below: int | None  # the first look at which the validation loss was below the goal
    validation_loss: float
    exact: float
    seconds: float


def trained(impl: JudgedImplementation, task: str) -> Trained:
    """The model this run has trained on the task; trained now by whoever asks first.

    A training that failed is shared too: whoever asks next meets the same Violation at once.
    """
    path = shared_directory() / f"{_key(impl)}-{task}.npz"
    with _locked(path.with_suffix(".lock")):
        if not path.exists():
            _attempt(impl, task, path)
    return _read(path)


def _key(impl: JudgedImplementation) -> str:
    options = zlib.crc32(repr(impl.options).encode())
    return f"{impl.name}-{impl.dtypes[0]}-{impl.device.replace(':', '')}-{options:08x}"


@contextmanager
def _locked(path: Path) -> Iterator[None]:
    """One process at a time; the lock of a process that dies is released with it."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


def _attempt(impl: JudgedImplementation, task: str, path: Path) -> None:
    try:
        _write(path, train(impl, task), "")
    except Violation as violation:
        _write(path, None, violation.seen)
    except Timeout as stopped:
        _write(path, None, f"training on {task} {stopped}")
        raise


def _write(path: Path, model: Trained | None, error: str) -> None:
    arrays: dict[str, Any] = {}
    about: dict[str, Any] = {"error": error}
    if model is not None:
        about |= {f.name: getattr(model, f.name) for f in fields(model)} | {"config": asdict(model.config)}
        arrays = {f"parameter/{name}": value for name, value in about.pop("parameters").items()}
    part = path.with_suffix(".part")
    with part.open("wb") as file:
        np.savez(file, about=np.array(json.dumps(about)), **arrays)
    os.replace(part, path)


def _read(path: Path) -> Trained:
    with np.load(path, allow_pickle=False) as held:
        about = json.loads(str(held["about"]))
        names = [name for name in held.files if name != "about"]
        parameters = {name.removeprefix("parameter/"): held[name] for name in names}
    error = about.pop("error")
    if error:
        raise Violation(error)
    about["config"]["options"] = tuple(map(tuple, about["config"]["options"]))
    about["config"] = Config(**about["config"])
    for name in ("losses", "validation"):
        about[name] = [tuple(row) for row in about[name]]
    return Trained(parameters=parameters, **about)


def train(
    impl: JudgedImplementation,
    task: str,
    *,
    on_step: Callable[[int, dict[str, float], float | None], None] = lambda step, report, validation: None,
    steps: int = STEPS,
    trainer: JudgedTrainer | None = None,
) -> Trained:
    """Train to 97 % exact or to the last step, looking at held-out data on the way."""
    config = TRAINING.but(dtype=impl.dtypes[0])
    trainer = trainer or JudgedTrainer(impl, config)
    held_out = Task(task).held_out(HELD_OUT)
    validation = [Task(task).batch(part) for part in _parts(held_out)]
    started = time.perf_counter()
    losses: list[tuple[int, float, float]] = []
    looks: list[tuple[int, float]] = []
    exact = 0.0
    for step, batch in zip(range(1, steps + 1), Task(task).batches("train", config.seed)):
        report = trainer.step(batch)
        losses.append((step, finite_number(report["loss"], f"the loss of step {step}"), report["rate"]))
        if step % LOOK_EVERY and step != steps:
            on_step(step, report, None)
            continue
        seen = trainer.evaluate(validation)["loss"]
        looks.append((step, finite_number(seen, f"the validation loss at step {step}")))
        on_step(step, report, seen)
        if seen < GOAL or step == steps:
            exact = exact_share(impl, config, trainer.parameters(), Task(task), held_out)
        if exact >= EXACT:
            break
    below = next((step for step, loss in looks if loss < GOAL), None)
    seconds = round(time.perf_counter() - started, 2)
    return Trained(config, dict(trainer.parameters()), losses, looks, below, looks[-1][1], exact, seconds)


def exact_share(
    impl: JudgedImplementation,
    config: Config,
    parameters: dict[str, Array],
    task: Task,
    sequences: Sequence[Any],
) -> float:
    """How many come out right to the last token: by greedy generation, or by argmax where there is none."""
    right = 0
    for part in _parts(sequences):
        batch = task.batch(part)
        written = written_by(impl, config, parameters, batch)
        right += sum(
            tuple(map(int, row[: len(ids) + 1])) == (*task.answer(ids), EOS)
            for row, ids in zip(written, part)
        )
    return right / len(sequences)


def written_by(
    impl: JudgedImplementation, config: Config, parameters: dict[str, Array], batch: Batch
) -> Array:
    """(B, L): what the model writes for these sources, or where it cannot, its best next tokens."""
    length = batch["target"].shape[1] - 1
    if impl.offers("generate"):
        generator = impl.build("generate", config)
        generator.load(parameters)
        tokens = generator(source=batch["source"], max_len=length, method="greedy")["tokens"]
        rows = tokens.reshape(len(tokens), -1)[:, :length]
        return np.pad(rows, ((0, 0), (0, length - rows.shape[1])), constant_values=PAD)
    model = impl.build("transformer", config)
    model.load(parameters)
    written: Array = model(source=batch["source"], target=batch["target"][:, :-1])["logits"].argmax(-1)
    return written


def _parts(sequences: Sequence[Any]) -> list[Sequence[Any]]:
    return [sequences[i : i + EVALUATED_TOGETHER] for i in range(0, len(sequences), EVALUATED_TOGETHER)]
