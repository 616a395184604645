"""The mode of a module: with dropout in training, without it in evaluation."""

from collections.abc import Iterator
from contextlib import contextmanager

from torch import nn


@contextmanager
def in_mode(module: nn.Module, *, training: bool) -> Iterator[None]:
    """In this mode inside; afterwards the module is in the mode it was in."""
    before = module.training
    module.train(training)
    try:
        yield
    finally:
        module.train(before)
