"""What `attest classify` and `attest fill` share: a trained model read, built and asked."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    from attest.contract import Architecture, Array
    from attest.trained.models import SavedModel


def read_checkpoint(checkpoint: str, architecture: Architecture) -> SavedModel:
    """What `attest train` wrote for a model of this architecture; one sentence where it is of another."""
    from attest.trained.lessons import command_for
    from attest.trained.models import check_fit, read_model

    os.environ.setdefault("OMP_NUM_THREADS", "1")
    try:
        model = read_model(Path(checkpoint))
        check_fit(model)
    except ValueError as error:
        raise click.UsageError(str(error)) from None
    if model.architecture != architecture:
        raise click.UsageError(
            f"checkpoint={checkpoint!r} holds a model of task={model.task!r}; use `{command_for(model.task)}`"
        )
    return model


def logits_of(model: SavedModel, impl: str | None, ids: Array) -> Array:
    """The logits of the model, by the implementation that trained it or another one."""
    from attest.cli.flow import judged_implementations
    from attest.cli.generate import registered
    from attest.evidence import collecting
    from attest.outcomes import NotOffered, Violation

    judged = judged_implementations(impl or registered(model.implementation))[0]
    try:
        with collecting():
            built = judged.build(model.architecture.operation, model.config.but(dtype=judged.dtypes[0]))
            built.load(model.parameters)
            return built(**{model.architecture.written: ids})["logits"]
    except NotOffered as reason:
        raise click.UsageError(f"{judged.name}: {reason}; name another one with --impl") from None
    except Violation as violation:
        raise click.ClickException(f"{judged.name}: {violation.seen}") from None


def probabilities(logits: Array) -> Array:
    """Softmax over the last axis, in float64."""
    import numpy as np

    powers: Array = np.exp(logits.astype(np.float64) - logits.max(-1, keepdims=True))
    found: Array = powers / powers.sum(-1, keepdims=True)
    return found
