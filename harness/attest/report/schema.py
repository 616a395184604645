"""Check a document against a schema: the keywords that schema.json uses, with what is wrong in one sentence.

jsonschema reads the same file in the tests, which hold the two to the same answers; a run does not need it.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any

Schema = Mapping[str, Any]
_KINDS: Mapping[str, tuple[type, ...]] = {
    "object": (dict,),
    "array": (list,),
    "string": (str,),
    "integer": (int,),
    "number": (int, float),
    "boolean": (bool,),
    "null": (type(None),),
}


@cache
def report_schema() -> Schema:
    """What report.json must look like."""
    schema: Schema = json.loads(Path(__file__).with_name("schema.json").read_text(encoding="utf-8"))
    return schema


@cache
def record_schema() -> Schema:
    """What a line of records.jsonl after the first must look like."""
    whole = json.loads(Path(__file__).with_name("records.schema.json").read_text(encoding="utf-8"))
    return {"$ref": "#/$defs/record", "$defs": whole["$defs"]}


def first_misfit(document: Any, schema: Schema, where: str = "report") -> str:
    """Where the document is not as the schema says, and what is required there; empty where it is."""
    return next(_misfits(document, schema, schema, where), "")


def _misfits(value: Any, rule: Schema, whole: Schema, where: str) -> Iterator[str]:
    if "$ref" in rule:
        rule = {**whole["$defs"][rule["$ref"].removeprefix("#/$defs/")], **rule}
    yield from _simple(value, rule, where)
    if isinstance(value, dict):
        yield from _of_object(value, rule, whole, where)
    if isinstance(value, list):
        yield from _of_array(value, rule, whole, where)
    yield from _combined(value, rule, whole, where)


def _simple(value: Any, rule: Schema, where: str) -> Iterator[str]:
    kinds = rule.get("type", [])
    kinds = [kinds] if isinstance(kinds, str) else kinds
    if kinds and not any(_is(value, kind) for kind in kinds):
        yield f"{where} is no {' or '.join(kinds)}"
    if "const" in rule and not _equal(value, rule["const"]):
        yield f"{where} is not {rule['const']!r}"
    if "enum" in rule and not any(_equal(value, choice) for choice in rule["enum"]):
        yield f"{where} is none of {', '.join(str(choice) for choice in rule['enum'])}"
    if isinstance(value, str):
        # re.search with $ accepts a newline at the end, which a path made of an id must not hold
        if "pattern" in rule and not re.search(rule["pattern"].replace("$", r"\Z"), value):
            yield f"{where} does not have the form {rule['pattern']}"
        if len(value) < rule.get("minLength", 0):
            yield f"{where} is empty"
    if _is(value, "number") and value < rule.get("minimum", value):
        yield f"{where} is below {rule['minimum']}"


def _is(value: Any, kind: str) -> bool:
    if isinstance(value, bool):
        return kind == "boolean"
    if kind == "integer" and isinstance(value, float):
        return value.is_integer()
    return isinstance(value, _KINDS[kind])


def _equal(value: Any, other: Any) -> bool:
    return type(value) is type(other) and bool(value == other)


def _of_object(value: Mapping[str, Any], rule: Schema, whole: Schema, where: str) -> Iterator[str]:
    yield from (f"{where} lacks {name}" for name in rule.get("required", ()) if name not in value)
    known, other = rule.get("properties", {}), rule.get("additionalProperties", True)
    for name, part in value.items():
        if name in known:
            yield from _misfits(part, known[name], whole, f"{where}.{name}")
        elif other is False:
            yield f"{where} has the unknown part {name[:40]!r}"
        elif other is not True:
            yield from _misfits(part, other, whole, f"{where}.{name[:40]}")


def _of_array(value: Sequence[Any], rule: Schema, whole: Schema, where: str) -> Iterator[str]:
    if len(value) < rule.get("minItems", 0):
        yield f"{where} is empty"
    if rule.get("uniqueItems") and len({json.dumps(part, sort_keys=True) for part in value}) < len(value):
        yield f"{where} names something twice"
    for place, part in enumerate(value):
        yield from _misfits(part, rule.get("items", {}), whole, f"{where}[{place}]")


def _combined(value: Any, rule: Schema, whole: Schema, where: str) -> Iterator[str]:
    for part in rule.get("allOf", ()):
        if "if" in part:
            holds = not any(_misfits(value, part["if"], whole, where))
            part = part.get("then" if holds else "else", {})
        yield from _misfits(value, part, whole, where)
    for keyword in ("oneOf", "anyOf"):
        choices = [list(_misfits(value, choice, whole, where)) for choice in rule.get(keyword, ())]
        if choices and all(choices):
            yield min(choices, key=len)[0]
