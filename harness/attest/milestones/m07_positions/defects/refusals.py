"""Defects of what M7 refuses: a config that makes no sense becomes another one."""

from __future__ import annotations

from typing import Any

import numpy as np

from attest.contract import Config
from attest.judging.catalogue import defect
from attest.reference.assembly import Parts
from attest.reference.component import ReferenceComponent


class _Mended(ReferenceComponent):
    """The reference for another config, where the one that was given is to be refused."""

    def mended(self, config: Config) -> dict[str, Any]:
        """The fields that are changed in silence."""
        raise NotImplementedError

    def __init__(self, parts: Parts, operation: str, config: Config) -> None:
        changes = self.mended(config)
        super().__init__(parts.but(**changes) if changes else parts, operation, config.but(**changes))


@defect("M7.18")
class unknown_positions_are_none(_Mended):
    """A kind of positions that nobody knows is none at all."""

    def mended(self, config: Config) -> dict[str, Any]:
        known = ("sinusoidal", "learned", "rotary", "alibi", "relative", "none")
        return {} if config.positions in known else {"positions": "none"}


@defect("M7.18")
class unknown_rules_are_none(_Mended):
    """A rule for rotary angles that nobody knows is none at all."""

    def mended(self, config: Config) -> dict[str, Any]:
        known = ("none", "linear", "yarn", "llama3")
        return {} if config.rotary_scaling in known else {"rotary_scaling": "none"}


@defect("M7.18")
class turns_put_in_order(_Mended):
    """Where slow pairs would turn more often than fast ones, the two numbers are exchanged."""

    def mended(self, config: Config) -> dict[str, Any]:
        slow, fast = config.rotary_slow_turns, config.rotary_fast_turns
        return {} if slow < fast else {"rotary_slow_turns": fast, "rotary_fast_turns": slow + 1}


@defect("M7.18")
class fraction_above_one_is_one(_Mended):
    """A fraction above 1 turns the whole head."""

    def mended(self, config: Config) -> dict[str, Any]:
        return {"rotary_fraction": 1.0} if config.rotary_fraction > 1 else {}


@defect("M7.18")
class base_of_zero_is_the_usual_one(_Mended):
    """A base of 0 counts as not given."""

    def mended(self, config: Config) -> dict[str, Any]:
        return {} if config.rotary_base else {"rotary_base": 10000.0}


@defect("M7.18")
class key_heads_made_to_divide(_Mended):
    """Key heads that do not divide the heads become the next smaller number that does."""

    def mended(self, config: Config) -> dict[str, Any]:
        H, G = config.num_heads, config.kv_heads
        fits = G >= 1 and H % G == 0
        return {} if fits else {"num_kv_heads": next(n for n in range(min(G, H), 0, -1) if H % n == 0)}


@defect("M7.18")
class far_distance_raised(_Mended):
    """A farthest distance that is among the near ones is raised until it is not."""

    def mended(self, config: Config) -> dict[str, Any]:
        least = config.relative_buckets // 2 + 1
        return {} if config.relative_distance >= least else {"relative_distance": least}


@defect("M7.18")
class odd_feature_not_turned(ReferenceComponent):
    """Of an odd width the last feature is passed through by `rotary`."""

    def accept(self, inputs: Any) -> dict[str, Any]:
        x = np.asarray(inputs["x"])
        odd = self.operation == "rotary" and x.shape[-1] % 2 == 1 and self.config.rotary_fraction == 1
        return super().accept({**inputs, "x": x[..., :-1]} if odd else inputs)


@defect("M7.18a")
class refuses_a_config_without_a_name(ReferenceComponent):
    """Every config that makes no sense is refused with the same words."""

    def check_config(self) -> None:
        try:
            super().check_config()
        except ValueError:
            raise ValueError("invalid configuration") from None


@defect("M7.18a")
class refuses_by_key_error(ReferenceComponent):
    """A kind of positions that nobody knows is looked up in a table."""

    def check_choices(self) -> None:
        try:
            super().check_choices()
        except ValueError as error:
            raise KeyError(str(error)) from None
