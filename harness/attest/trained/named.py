"""The tasks by name."""

from __future__ import annotations

from attest.contract import ENCODER_DECODER, Architecture
from attest.trained import digits
from attest.trained.tasks import RULES, Task
from attest.trained.texts import TEXTS

TASKS = (*RULES, digits.NAME)


def task_named(name: str, architecture: Architecture = ENCODER_DECODER) -> Task | digits.DigitOperations:
    """The task; ValueError where there is none of this name."""
    if name not in TASKS:
        raise ValueError(f"task={name!r} is unknown; choose one of {', '.join(TASKS)}")
    if name == digits.NAME:
        return digits.DigitOperations(architecture=architecture)
    return Task(name, architecture)


def known_task(name: str) -> str:
    """The name of a task of pairs or of text; ValueError where there is none."""
    return name if name in TEXTS else task_named(name).name
