"""A sealed implementation as the rest of the harness sees it: declarations as data, operations as calls."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Any

from attest.contract import KnownFailure, ShapePolicy
from attest.declared import misdeclared
from attest.outcomes import Ended
from attest.registry import NAME_RULE, BrokenPlugin, Request, printable, sentence
from attest.sealed.outside import Channel, Remote, called


class BringsMilestones(BrokenPlugin):
    """The plugin cannot be judged under seal."""


class SealedImplementation:
    """Has the attributes of the implementation in the other process. Its declarations were read once."""

    def __init__(self, declared: Mapping[str, Any], remote: Remote) -> None:
        said = {name: value for name, value in declared.items() if value is not None}
        said["known_failures"] = [KnownFailure(*map(str, row)) for row in declared["known_failures"]]
        if declared["shape_policy"]:
            said["shape_policy"] = ShapePolicy(**declared["shape_policy"])
        offers = [str(name) for name in said.pop("offers")]
        del said["object"]
        self.__dict__.update(said, remote=remote, **{n: partial(called, remote, n) for n in offers})

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return getattr(self.remote, name)


def opened(channel: Channel, request: Request) -> list[SealedImplementation]:
    """Import the plugin in the other process; BrokenPlugin with one sentence where it cannot be used."""
    source = printable(request.target)
    try:
        answer = asked(channel, request)
        found = [SealedImplementation(declared, declared["object"]) for declared in answer["found"]]
    except (BrokenPlugin, Ended):
        raise
    except Exception as error:
        raise BrokenPlugin(f"{source}: reading its declarations raised {sentence(error)}") from None
    if answer["milestones"]:
        raise BringsMilestones(
            f"{source}: it brings milestones, whose checks run in the process that judges; judge it unsealed"
        )
    for implementation in found:
        fault = _unusable(implementation)
        if fault:
            channel.close()
            raise BrokenPlugin(f"{source}: {printable(fault)}")
    if request.is_registered:
        return [i for i in found if i.name == request.target] or found
    return found


def asked(channel: Channel, request: Request) -> Any:
    """What the plugin holds, as it says."""
    given = {"text": request.text, "target": request.target, "factory": request.factory}
    return channel.ask("open", given, list(map(list, request.options)))


def _unusable(implementation: SealedImplementation) -> str:
    """What it said is checked here too: over there it could have been anything."""
    name = getattr(implementation, "name", None)
    if not isinstance(name, str) or not NAME_RULE.fullmatch(name):
        return f"name={name!r:.60} cannot name a report"
    return misdeclared(implementation)
