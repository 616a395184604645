"""Rules for rotary angles as transformers writes them in a config, and as ours.

Since version 5 it is `rope_parameters` with `rope_type` and `rope_theta`; before, `rope_scaling` with `type`
or `rope_type` beside a `rope_theta` of the config.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from attest.contract import Config

MAPPINGS = ("rope_parameters", "rope_scaling")  # the newer first
DEFAULT = "default"  # what transformers calls angles without a rule
ORIGINAL = "original_max_position_embeddings"
# Of each rule: their key, and the field of the config.
KEYS: Mapping[str, Mapping[str, str]] = {
    "linear": {"factor": "rotary_factor"},
    "yarn": {
        "factor": "rotary_factor",
        ORIGINAL: "rotary_original",
        "beta_slow": "rotary_slow_turns",
        "beta_fast": "rotary_fast_turns",
    },
    "llama3": {
        "factor": "rotary_factor",
        ORIGINAL: "rotary_original",
        "low_freq_factor": "rotary_slow_turns",
        "high_freq_factor": "rotary_fast_turns",
    },
}
NEEDED = ("factor", "low_freq_factor", "high_freq_factor")  # without one of these the rule says nothing
USUAL: Mapping[str, Any] = {"beta_slow": 1.0, "beta_fast": 32.0}
OF_OTHERS = ("rope_type", "type", "rope_theta", "partial_rotary_factor")


def rope_parameters(config: Config) -> dict[str, Any]:
    """The rule of a config; beside it stand base and fraction, which the file of the family names."""
    rule = config.rotary_scaling
    if rule == "none":
        return {"rope_type": DEFAULT}
    return {"rope_type": rule, **{key: getattr(config, own) for key, own in KEYS[rule].items()}}


def rule_of(settings: Mapping[str, Any]) -> dict[str, Any]:
    """Fields of the config from a config.json; ValueError with its key for a rule that is not known."""
    where = next((name for name in MAPPINGS if settings.get(name)), MAPPINGS[-1])
    given = settings.get(where) or {}
    if not isinstance(given, Mapping):
        raise ValueError(f"{where}={given!r} is not a mapping; save the model again")
    name = given.get("rope_type", given.get("type", DEFAULT))
    if name in (DEFAULT, None):
        _check_known(where, DEFAULT, given)
        return {}
    if name not in KEYS:
        raise ValueError(f"{where}.rope_type={name!r} is not implemented; known are {', '.join(KEYS)}")
    _check_known(where, name, given)
    found = {"rotary_scaling": name}
    for key, own in KEYS[name].items():
        found[own] = _number(where, key, given.get(key, _usual(key, settings)))
    if "rotary_original" in found:
        found["rotary_original"] = int(found["rotary_original"])
    return found


def _usual(key: str, settings: Mapping[str, Any]) -> Any:
    """Where the original length is not given it is the longest of the config."""
    return settings.get("max_position_embeddings") if key == ORIGINAL else USUAL.get(key)


def _number(where: str, key: str, value: Any) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 < value < math.inf:
        raise ValueError(f"{where}.{key}={value!r} is not a number above 0; save the model again")
    return float(value)


def _check_known(where: str, name: str, given: Mapping[str, Any]) -> None:
    """No key may change the numbers in a way that is not known here."""
    for key, value in given.items():
        if (
            key in KEYS.get(name, ())
            or key in OF_OTHERS
            or value is None
            or (key, value) == ("truncate", True)
        ):
            continue
        if key == "attention_factor" and _is_gain(name, value, given.get("factor")):
            continue
        if key in (ORIGINAL, "finetuned"):
            continue  # says where the rule comes from
        raise ValueError(
            f"{where}.{key}={value!r} is not implemented for {name}; choose a checkpoint without it"
        )


def _is_gain(name: str, value: Any, factor: Any) -> bool:
    """Whether a gain is the one that the rule gives."""
    numbers = all(isinstance(n, int | float) and n > 0 for n in (value, factor))
    return numbers and name == "yarn" and math.isclose(value, 0.1 * math.log(factor) + 1, rel_tol=1e-6)
