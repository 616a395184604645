"""The hooks of the pluggy project `attest`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pluggy

from attest.contract.declarations import Implementation

PROJECT = "attest"
hookspec = pluggy.HookspecMarker(PROJECT)
hookimpl = pluggy.HookimplMarker(PROJECT)


class Hooks:
    """The hook specifications of the pluggy project `attest`."""

    @hookspec
    def attest_implementations(self) -> Sequence[Implementation]:
        """Return the implementations of this plugin, as a list.

        >>> @pluggy.HookimplMarker("attest")
        ... def attest_implementations():
        ...     return [MyTransformer()]
        """
        raise NotImplementedError

    @hookspec
    def attest_milestones(self) -> Sequence[Any]:
        """Return further milestones as pairs: path of a spec file, name of the module with its properties.

        >>> @pluggy.HookimplMarker("attest")
        ... def attest_milestones():
        ...     return [(Path(__file__).parent / "m07_mine.toml", "my_package.m07_criteria")]
        """
        raise NotImplementedError
