"""Generation with the weights as constants of the graph, which inductor then packs for the products.

Asked for by `--impl compiled,freeze=true`: a new set of weights is a new graph, so it pays where one model
generates for long, and not where weights change with every call. The number of rows stays a variable: for a
constant inductor would pack for MKL and not for oneDNN, which takes 1.6 times as long with 16 rows.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from attest.contract import Arrays, Config

from .generation import Generator


def frozen(config: Config) -> bool:
    """Whether the config asks for it."""
    value = dict(config.options).get("freeze", "false")
    if value not in ("true", "false"):
        raise ValueError(f"freeze={value!r} is neither true nor false; give one of them")
    return value == "true"


class FrozenGenerator(Generator):
    """Its graphs hold the weights that were loaded last; `load` drops them."""

    def load(self, parameters: Arrays) -> None:
        super().load(parameters)
        self._functions.clear()

    def compiled(self, name: str, function: Callable[..., Any], **settings: Any) -> Callable[..., Any]:
        settings = {"shared": False, "freezing": True, "cpp_wrapper": True, **settings}
        run = super().compiled(name, function, **settings)

        def call(*args: Any) -> Any:
            # Dynamo, too, has to know that parameters are constants.
            with torch._inductor.config.patch(freezing=True):
                return run(*args)

        return call
