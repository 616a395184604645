"""Correct implementations that say they are compiled: every criterion of MC must let these live."""

from __future__ import annotations

from attest.judging.catalogue import variant
from attest.milestones.compiled.defects.compiled import CompiledReference, OnTorch, looks_at_every_token


@variant("MC")
class counts_its_graphs(CompiledReference):
    """Nothing is wrong with it."""


@variant("MC", spared=("MC.1", "MC.2", "MC.3", "MC.4", "MC.5", "MC.6", "MC.8"))
class everything_on_its_device(OnTorch):
    """A torch model that makes mask and table where its input is."""


@variant("MC")
class looks_now_and_then(looks_at_every_token):
    """Whether all rows have ended is asked every eight tokens."""

    look = "patient"
