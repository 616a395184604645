"""Read the files of `spec/families`. A wrong one is refused in one sentence with file, key and remedy."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import Any, NoReturn

from attest.contract.config import ANY, OPTIONS, RULES, Config, Holds
from attest.contract.operation import OPERATIONS
from attest.contract.parameters import shapes
from attest.families.family import ALTERNATIVE, LAYER, Family, HuggingFaceNames
from attest.registry import UsageError, printable
from attest.spec import spec_directory
from attest.spec_file import parsed
from attest.spelling import nearest

KEYS = frozenset(
    "title inherits operation operations dtypes prefix fixed free names huggingface".split()  # noqa: SIM905
)
TABLES = ("fixed", "free", "names", "huggingface")
DTYPES = ("float64", "float32", "bfloat16", "float16")
LARGEST_FILE = 200_000  # bytes; the longest of ours has 6,000


class FamilyError(ValueError):
    """A family file that cannot be used; the message names file, key and remedy."""


def directory() -> Path:
    """Where the files of families are."""
    return spec_directory() / "families"


@cache
def families() -> Mapping[str, Family]:
    """Every family by name, in order."""
    return {path.stem: read_family(path) for path in sorted(directory().glob("*.toml"))}


def family_named(name: str) -> Family:
    """The family of this name; UsageError with the nearest one where there is none."""
    if name not in families():
        raise UsageError(f"family={printable(str(name))!r} is unknown; {nearest(str(name), families())}")
    return families()[name]


def read_family(path: Path) -> Family:
    """Read and check one file, and what it inherits from a file beside it."""
    data = _inherited(path, _read(path), seen=(path.stem,))
    title, operation = _text(path, data, "title"), _text(path, data, "operation")
    operations = tuple(_texts(path, data, "operations"))
    for name in (operation, *operations):
        if name not in OPERATIONS:
            refuse(path, f"operations: {name!r} is unknown; {nearest(name, OPERATIONS)}")
    if operation not in operations:
        refuse(path, f"operation={operation!r} is not among operations; add it there")
    fixed = {n: _value(path, "fixed", n, v) for n, v in _table(path, data, "fixed").items()}
    free = {n: _values(path, n, v) for n, v in _table(path, data, "free").items()}
    if both := sorted(fixed.keys() & free.keys()):
        refuse(path, f"free.{both[0]} is in fixed too; keep one of them")
    dtypes = tuple(_texts(path, data, "dtypes")) if "dtypes" in data else Family.dtypes
    if unknown := [d for d in dtypes if d not in DTYPES]:
        refuse(path, f"dtypes: {unknown[0]!r} is unknown; use some of {', '.join(DTYPES)}")
    prefix = _text(path, data, "prefix") if "prefix" in data else ""
    names = _names(path, _table(path, data, "names"))
    found = Family(
        path.stem, title, operation, operations, fixed, free, names, _huggingface(path, data), dtypes, prefix
    )
    _check_names(path, found)
    return found


def refuse(path: Path, rule: str) -> NoReturn:
    """Raise a FamilyError that begins with the file's name."""
    raise FamilyError(printable(f"{path.name}: {rule}"))


def _read(path: Path) -> dict[str, Any]:
    data = parsed(path, refuse, LARGEST_FILE)
    for key in data:
        if key not in KEYS:
            refuse(path, f"{key} is not a key of a family; {nearest(key, KEYS)}")
    return data


def _inherited(path: Path, data: dict[str, Any], seen: tuple[str, ...]) -> dict[str, Any]:
    """With the keys of the family it inherits from; those of its own come first."""
    if "inherits" not in data:
        return data
    name = _text(path, data, "inherits")
    above = path.parent / f"{name}.toml"
    if name in seen or not name.isidentifier() or not above.is_file():
        refuse(path, f"inherits={name!r} names no other family; name a file beside this one, without .toml")
    base = _inherited(above, _read(above), (*seen, name))
    joined = {key: value for key, value in {**base, **data}.items() if key != "inherits"}
    for key in TABLES:
        joined[key] = {**_table(above, base, key), **_table(path, data, key)}
    for key in ("constants", "fields"):
        inner = [_table(p, _table(p, d, "huggingface"), key) for p, d in ((above, base), (path, data))]
        joined["huggingface"][key] = {**inner[0], **inner[1]}
    freed = set(_table(path, data, "free"))
    joined["fixed"] = {name: v for name, v in joined["fixed"].items() if name not in freed}
    return joined


def _table(path: Path, data: Mapping[str, Any], key: str) -> dict[str, Any]:
    value = data.get(key, {})
    if not isinstance(value, dict):
        refuse(path, f"{key} is no table; begin it with [{key}]")
    return dict(value)


def _text(path: Path, data: Mapping[str, Any], key: str) -> str:
    value = data.get(key)
    if not isinstance(value, str) or not value.strip():
        refuse(path, f"{key} is missing or no text; write it in quotes")
    return value


def _texts(path: Path, data: Mapping[str, Any], key: str) -> list[str]:
    value = data.get(key)
    if not isinstance(value, list) or not value or not all(isinstance(v, str) for v in value):
        refuse(path, f"{key} is no list of texts; name at least one")
    return value


def _value(path: Path, where: str, name: str, value: Any) -> Any:
    """A value of an option; false stands for None where a number or a word may be left out."""
    if name not in OPTIONS:
        refuse(path, f"{where}.{name} is no option of the config; {nearest(name, OPTIONS)}")
    rule = RULES[name]
    if value is False and rule.optional and rule.holds is not Holds.FLAG:
        return None
    right = (int, float) if rule.holds.type is float else (rule.holds.type,)
    if not isinstance(value, right) or (isinstance(value, bool) and rule.holds is not Holds.FLAG):
        refuse(path, f"{where}.{name}={value!r} is of the wrong kind; give {rule.holds.value}")
    if rule.choices and value not in rule.choices:
        refuse(path, f"{where}.{name}={value!r} is unknown; use one of {', '.join(rule.choices)}")
    return float(value) if rule.holds.type is float else value


def _values(path: Path, name: str, given: Any) -> Any:
    if given == ANY:
        _value(path, "free", name, None if name not in OPTIONS else _sample(name))
        return ANY
    if not isinstance(given, list) or not given:
        refuse(path, f'free.{name}={given!r} is no list of values; give some, or "any"')
    return tuple(_value(path, "free", name, value) for value in given)


def _sample(name: str) -> Any:
    return OPTIONS[name].known[0]


def _names(path: Path, table: Mapping[str, Any]) -> dict[str, str]:
    """Each canonical name is one of ours, each name elsewhere is given once."""
    owners: dict[str, str] = {}
    for canonical, own in table.items():
        if not isinstance(own, str) or not own:
            refuse(path, f"names.{canonical!r}={own!r} is no text; write the name elsewhere in quotes")
        if (LAYER in canonical) != (LAYER in own):
            refuse(path, f"names.{canonical!r}: {LAYER} stands on one side only; write it on both")
        for part in own.split(ALTERNATIVE):
            if part in owners:
                refuse(path, f"names: {part!r} is two names for one tensor, {owners[part]} and {canonical}; "
                             "keep one")  # fmt: skip
            owners[part] = canonical
    return dict(table)


def _huggingface(path: Path, data: Mapping[str, Any]) -> HuggingFaceNames:
    table = _table(path, data, "huggingface")
    known = ("model", "config", "attentions", "constants", "fields")
    for key in table:
        if key not in known:
            refuse(path, f"huggingface.{key} is unknown; {nearest(key, known)}")
    fields = _table(path, table, "fields")
    for key, own in fields.items():
        if not isinstance(own, str) or not hasattr(Config(), own):
            refuse(path, f"huggingface.fields.{key}={own!r} is no field of the config; {_near_field(own)}")
    model, config = _text(path, table, "model"), _text(path, table, "config")
    attentions = HuggingFaceNames.attentions
    if "attentions" in table:
        attentions = tuple(_texts(path, table, "attentions"))
    return HuggingFaceNames(model, config, attentions, _table(path, table, "constants"), fields)


def _near_field(name: Any) -> str:
    return nearest(str(name), [*RULES, "kv_heads", "d_head", "inner_width"])


def _check_names(path: Path, family: Family) -> None:
    """A name that no model of the family has leads nowhere."""
    known = {_by_layer(name) for config in _configs(family) for name in shapes(family.operation, config)}
    for canonical in family.names:
        if canonical not in known:
            refuse(path, f"names.{canonical!r} maps nowhere: no such parameter; {nearest(canonical, known)}")
    if missing := sorted(known - family.names.keys() - {"projection.weight"}):
        refuse(path, f"names lacks {missing[0]!r}; give the name it has elsewhere")


def _configs(family: Family) -> Iterator[Config]:
    """Configs that together have every parameter of the family."""
    flags = [name for name, given in family.free.items() if given != ANY and set(given) == {True, False}]
    base = family.config(d_model=8, num_heads=2, num_encoder_layers=1, num_decoder_layers=1)
    yield base
    for name in flags:
        yield base.but(**{name: True})
        yield base.but(**{name: False})


def _by_layer(name: str) -> str:
    return ".".join(LAYER if word.isdigit() else word for word in name.split("."))
