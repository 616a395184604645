"""Weights that make tokens likelier by given numbers, whether or not the projection has a bias.

Without one, a feature is kept apart from the others: the embedding of every token has the same number there,
no sublayer writes to it, and the projection reads the offsets from it. Shapes: D width, V vocabulary.
"""

from __future__ import annotations

import numpy as np

from attest.contract import Architecture, Array, Config
from attest.reference.oracle import expected

Parameters = dict[str, Array]
WRITES = (
    ".output.weight",
    ".output.bias",
    ".outer.weight",
    ".outer.bias",
)  # what adds to the residual stream
APART = 4.0  # the number of the feature, in units of the others
ALONE = 1e6  # the same where the others must not count: what they are is lost in the sixth digit of a square


def without_bias(config: Config, architecture: Architecture, made: Parameters, offsets: Array) -> Parameters:
    """These parameters, with about `offsets` (V,) added to the logits of every position."""
    name = _table(made)
    table = made[name].copy()
    table[:, 0] = APART * (1 + table.std())  # above what sinusoids can take away
    kept = {**made, **_kept_apart(made), name: table}
    last = architecture.last_norm(config)
    if f"{last}.bias" in kept:  # a norm that subtracts the mean could turn the feature's sign
        kept[f"{last}.weight"][0], kept[f"{last}.bias"][0] = 0.0, 1.0
    return _read_from_feature(config, architecture, kept, offsets)


def always_saying(config: Config, architecture: Architecture, made: Parameters, logits: Array) -> Parameters:
    """Parameters of a model whose logits are these (V,) at every position, to six digits or better."""
    table = np.zeros_like(made[_table(made)])
    table[:, 0] = ALONE
    silent = {name: np.zeros_like(x) for name, x in made.items() if name.endswith(WRITES)}
    last = architecture.last_norm(config)
    gain = np.zeros_like(made[f"{last}.weight"])
    gain[0] = 1.0
    weight = np.zeros_like(made[f"{architecture.projection}.weight"])
    kept = {**made, **_kept_apart(made), **silent, _table(made): table, f"{last}.weight": gain}
    kept |= {name: np.zeros_like(made[name]) for name in (f"{last}.bias",) if name in made}
    return _read_from_feature(
        config, architecture, {**kept, f"{architecture.projection}.weight": weight}, logits
    )


def _table(made: Parameters) -> str:
    """The name of the embedding of what is written."""
    return "embedding.weight" if "embedding.weight" in made else "target_embedding.weight"


def _kept_apart(made: Parameters) -> Parameters:
    """No sublayer and no table of positions writes to the first feature, and norms leave it as it is."""
    found = {}
    for name, value in made.items():
        if "norm" in name and name.endswith(("weight", "bias")):
            found[name] = value.copy()
            found[name][0] = 1.0 if name.endswith("weight") else 0.0
        if name.endswith(WRITES):
            found[name] = value.copy()
            found[name][0] = 0.0
        if name == "position_embedding.weight":
            found[name] = value.copy()
            found[name][:, 0] = 0.0
    return found


def _read_from_feature(
    config: Config, architecture: Architecture, made: Parameters, offsets: Array
) -> Parameters:
    """The projection with the offsets over what the feature is in front of it, asked of the reference."""
    name = f"{architecture.projection}.weight"
    probe = np.zeros_like(made[name])
    probe[:, 0] = 1.0
    ids = np.array([[i for i in range(len(probe)) if i != config.pad_id][: config.max_len]])
    read = architecture.reading(ids[:, :1], ids)
    level = expected(architecture.operation, config, {**made, name: probe}, read)
    weight = made[name].copy()
    weight[:, 0] = offsets / np.median(level["logits"].value)
    return {**made, name: weight}
