"""The language of names: where a parameter with a canonical name lies in somebody's model or checkpoint.

A name is the module's own, with suffixes that are applied from left to right:

    "in_proj_weight[0/3]"       the first of three equal parts of the first axis
    "w.T"                       the transpose
    "qkv.weight[0/3 of H]"      the same, packed by head: the first axis is (H, 3, d)
    "qkv.weight[k of q,k,v]"    the keys, where queries, keys and values have H d, G d and G d rows
    "qkv.weight[k of q,k,v of G]"  the same, packed by key head: the first axis is (G, H/G + 2, d)
    "q_proj.weight.pairs"       rows of each head as interleaved rotary pairs want them; ours are in halves
    "norm.weight+1"             the gain is 1 plus what is stored
    "heads.{}.q.weight"         heads.0.q.weight, heads.1.q.weight ... joined on the first axis
    "layers.{i}.q.weight"       for every layer, where the canonical name has {i} too
    "wi.weight | wi_1.weight"   the one that is there

Here H is num_heads, G num_kv_heads and d the width of a head. Arrays and tensors are both understood: a
suffix gives a view, so that values can be written through it.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from itertools import count
from typing import Any

from attest.contract import Config

LAYER, HEAD, ALTERNATIVE = "{i}", "{}", " | "
_SUFFIX = re.compile(r"(\.T|\.pairs|\+1|\[(\d+)/(\d+)( of H)?\]|\[([qkv]) of ([qkv](?:,[qkv])*)( of G)?\])$")


@dataclass(frozen=True)
class Suffix:
    """One step from a stored array to the canonical one."""

    kind: str  # transpose, pairs, part, head_part, named or group_part
    index: int = 0
    total: int = 1
    letters: str = ""  # of a named part: what follows one another


@dataclass(frozen=True)
class Place:
    """The stored arrays of one parameter, the steps to it, and what is added to it."""

    owned: tuple[str, ...]
    suffixes: tuple[Suffix, ...] = ()
    shift: float = 0.0


def places(names: Mapping[str, str], owned: Collection[str]) -> dict[str, Place]:
    """Where each canonical name lies among the names that are there; {i} is counted up on both sides."""
    found: dict[str, Place] = {}
    for canonical, name in names.items():
        for full, own in _by_layer(canonical, name, owned):
            found[full] = place_of(own, owned)
    return found


def _by_layer(canonical: str, name: str, owned: Collection[str]) -> Iterator[tuple[str, str]]:
    if LAYER not in name:
        yield canonical, name
        return
    for i in count():
        numbered = name.replace(LAYER, str(i))
        if not set(place_of(numbered, owned).owned) & set(owned):
            return
        yield canonical.replace(LAYER, str(i)), numbered


def place_of(name: str, owned: Collection[str]) -> Place:
    """Read one name. Of alternatives the first that is there; of the first one's parts where none is."""
    choices = [_one(part, owned) for part in name.split(ALTERNATIVE)]
    return next((p for p in choices if p.owned and p.owned[0] in owned), choices[0])


def _one(name: str, owned: Collection[str]) -> Place:
    suffixes: list[Suffix] = []
    stem, shift = name, 0.0
    while found := _SUFFIX.search(stem):
        stem = stem[: found.start()]
        if found[1] == "+1":
            shift = 1.0
        else:
            suffixes.insert(0, _suffix(found))
    parts = [stem]
    if HEAD in stem:
        parts = list(_while_owned((stem.replace(HEAD, str(i)) for i in count()), owned))
    return Place(tuple(parts), tuple(suffixes), shift)


def _suffix(found: re.Match[str]) -> Suffix:
    if found[1] in (".T", ".pairs"):
        return Suffix("transpose" if found[1] == ".T" else "pairs")
    if found[5]:
        letters = found[6].replace(",", "")
        if found[5] not in letters or len(set(letters)) < len(letters):
            raise ValueError(f"{found[1]} must name one of different parts; write it as [k of q,k,v]")
        return Suffix("group_part" if found[7] else "named", letters.index(found[5]), letters=letters)
    return Suffix("head_part" if found[4] else "part", int(found[2]), int(found[3]))


def _while_owned(names: Iterator[str], owned: Collection[str]) -> Iterator[str]:
    for name in names:
        if name not in owned:
            return
        yield name


def view(value: Any, place: Place, config: Config) -> Any:
    """The stored array as the canonical one sees it; it may have an axis for heads or pairs in front."""
    heads = 0  # axes in front that count heads
    for suffix in place.suffixes:
        if suffix.kind == "pairs":
            value = _pairs(value, heads, config)
        else:
            value = _STEPS[suffix.kind](value, suffix, config)
        heads = _AXES_OF_HEADS.get(suffix.kind, heads)
    return value


def flat(viewed: Any, stored: Any) -> Any:
    """A view with as many axes as what is stored."""
    return viewed if viewed.ndim == stored.ndim else viewed.reshape(-1, *stored.shape[1:])


def _transposed(value: Any, suffix: Suffix, config: Config) -> Any:
    return value.swapaxes(0, 1)


def _part(value: Any, suffix: Suffix, config: Config) -> Any:
    rows = value.shape[0]
    if rows % suffix.total or suffix.index >= suffix.total:
        raise ValueError(
            f"[{suffix.index}/{suffix.total}] does not divide an axis of {rows}; check the suffix"
        )
    size = rows // suffix.total
    return value[suffix.index * size : (suffix.index + 1) * size]


def _head_part(value: Any, suffix: Suffix, config: Config) -> Any:
    rows, groups = value.shape[0], config.num_heads * suffix.total
    if rows % groups or suffix.index >= suffix.total:
        raise ValueError(
            f"[{suffix.index}/{suffix.total} of H] does not divide an axis of {rows} into {config.num_heads} "
            "heads; check the suffix"
        )
    return value.reshape(config.num_heads, suffix.total, rows // groups, *value.shape[1:])[:, suffix.index]


def _named_part(value: Any, suffix: Suffix, config: Config) -> Any:
    sizes = [heads * config.d_head for heads in _heads_of(suffix, config)]
    _check_rows(value, suffix, sum(sizes))
    start = sum(sizes[: suffix.index])
    return value[start : start + sizes[suffix.index]]


def _group_part(value: Any, suffix: Suffix, config: Config) -> Any:
    groups = config.kv_heads
    heads = [number // groups for number in _heads_of(suffix, config)]
    _check_rows(value, suffix, groups * sum(heads) * config.d_head)
    start = sum(heads[: suffix.index])
    packed = value.reshape(groups, sum(heads), config.d_head, *value.shape[1:])
    return packed[:, start : start + heads[suffix.index]]


def _heads_of(suffix: Suffix, config: Config) -> list[int]:
    """How many heads queries, keys and values have, in the order in which they are stored."""
    return [config.num_heads if letter == "q" else config.kv_heads for letter in suffix.letters]


def _check_rows(value: Any, suffix: Suffix, wanted: int) -> None:
    if value.shape[0] != wanted:
        raise ValueError(
            f"[{suffix.letters[suffix.index]} of {','.join(suffix.letters)}] wants an axis of {wanted}, "
            f"not {value.shape[0]}; check the suffix"
        )


def _pairs(value: Any, axes: int, config: Config) -> Any:
    """(heads, d, ...) as (heads, d/2, 2, ...) with the last two swapped; a view, to be written through."""
    d = config.d_head
    rows = value.shape[axes]
    if rows % d or d % 2 or config.rotary_fraction != 1.0:
        raise ValueError(
            f".pairs needs heads of an even width that are turned whole; {rows} rows of {d} are not"
        )
    heads = value.shape[:axes] if axes else (rows // d,)
    rest = value.shape[axes + 1 :]
    return value.reshape(*heads, d // 2, 2, *rest).swapaxes(len(heads), len(heads) + 1)


_AXES_OF_HEADS = {"head_part": 1, "group_part": 2}
_STEPS = {
    "transpose": _transposed,
    "part": _part,
    "head_part": _head_part,
    "named": _named_part,
    "group_part": _group_part,
}
