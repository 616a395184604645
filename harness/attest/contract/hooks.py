"""The hooks of the pluggy project `attest`."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pluggy

from attest.contract.declarations import Implementation
from attest.contract.milestones import Milestone

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
    def attest_milestones(self) -> Sequence[Milestone | tuple[str | Path, str]]:
        """Return further milestones, as a list.

        >>> @pluggy.HookimplMarker("attest")
        ... def attest_milestones():
        ...     here = Path(__file__).parent
        ...     parts = {"properties": "mine.properties", "defects": "mine.defects"}
        ...     return [attest.Milestone(spec=here / "m20_mine.toml", **parts)]

        A milestone without defects may be a pair: its spec file, the module of its properties.
        """
        raise NotImplementedError
