"""A plugin that brings a milestone with an operation of its own, and two implementations of it."""

from pathlib import Path

import numpy as np
import pluggy
from softcap_milestone.operation import SOFTCAP

import attest

hookimpl = pluggy.HookimplMarker("attest")


class Softcap:
    """5 * tanh(x / 5)."""

    name = "softcap"
    dtypes = ("float32", "float64")

    def softcap(self, config):
        return lambda x: {"output": 5 * np.tanh(x / 5)}


class HardCap:
    """Cuts off instead of bending."""

    name = "hard_cap"

    def softcap(self, config):
        return lambda x: {"output": np.clip(x, -5, 5)}


@hookimpl
def attest_implementations():
    return [Softcap(), HardCap()]


@hookimpl
def attest_milestones():
    return [
        attest.Milestone(
            spec=Path(__file__).parent / "m20_softcap.toml",
            properties="softcap_milestone.properties",
            defects="softcap_milestone.defects",
            variants="softcap_milestone.variants",
            operations=[SOFTCAP],
        )
    ]
