"""The tasks by name."""

from __future__ import annotations

from attest.contract import ENCODER_DECODER, Architecture
from attest.trained import digits, folder, grammar, sentiment
from attest.trained.tasks import RULES, Task
from attest.trained.texts import TEXTS

TASKS = (*RULES, digits.NAME)
OF_ONE_STACK = (*TEXTS, grammar.NAME, sentiment.NAME, folder.NAME)


def task_named(name: str, architecture: Architecture = ENCODER_DECODER) -> Task | digits.DigitOperations:
    """The task; ValueError where there is none of this name."""
    if name not in TASKS:
        raise ValueError(f"task={name!r} is unknown; choose one of {', '.join(TASKS)}")
    if name == digits.NAME:
        return digits.DigitOperations(architecture=architecture)
    return Task(name, architecture)


def known_task(name: str) -> str:
    """The name of a task of pairs, of text or of classes; ValueError where there is none."""
    return name if name in OF_ONE_STACK else task_named(name).name
