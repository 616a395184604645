"""Write a short Python file that fails as the criterion did, importing only the implementation and numpy."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np

from attest.boundary import Call, JudgedImplementation, Run
from attest.contract import Array, Arrays, Form, operation_of
from attest.diagnosis.likeness import answer, close, comparable, trace_of
from attest.judging.property import Property
from attest.records.record import Record
from attest.reference.implementation import ReferenceImplementation
from attest.registry import parse_request

MOST_NUMBERS = 600  # arrays beyond this go into a file beside the script


def write_reproduction(
    record: Record, property: Property, impl: JudgedImplementation, request: str, reports: Path
) -> Path | None:
    """reports/<impl>/repro/M1_5.py, or nothing where no single call answers wrongly."""
    assert record.failure is not None
    found = _wrong_call(property, impl, record.failure.case, record.seed)
    if found is None:
        return None
    call, right = found
    home = reports / record.implementation / "repro"
    home.mkdir(parents=True, exist_ok=True)
    path = home / f"{record.criterion.replace('.', '_')}.py"
    for old in (path, path.with_suffix(".npz")):
        old.unlink(missing_ok=True)  # a link here would lead the writing elsewhere
    path.write_text("\n".join(_script(record, call, right, request, path)) + "\n", encoding="utf-8")
    return path


def _wrong_call(
    property: Property, impl: JudgedImplementation, case: str, seed: int
) -> tuple[Call, Arrays | None] | None:
    """The first call that the reference answers differently."""
    reference = JudgedImplementation(ReferenceImplementation())
    for call in trace_of(property, impl, case, seed):
        if not comparable(call):
            continue
        right = answer(reference, call)
        if (right is None) != (call.outputs is None):
            return call, right
        if right is not None and call.outputs is not None and _differ(call.outputs, right):
            return call, {name: right[name] for name in right if name in call.outputs}
    return None


def _differ(mine: Arrays, right: Arrays) -> bool:
    return any(name in mine and not close(mine[name], right[name]) for name in right)


def _script(record: Record, call: Call, right: Arrays | None, request: str, path: Path) -> Iterator[str]:
    assert record.failure is not None
    yield f'"""{record.criterion} on {record.implementation}, without the harness. Run: python {path.name}"""'
    yield ""
    yield from _imports(request)
    arrays = _arrays(call, right)
    if sum(a.size for a in arrays.values()) > MOST_NUMBERS:
        beside = path.with_suffix(".npz")
        np.savez(beside, **arrays)  # type: ignore[arg-type]
        yield f"arrays = np.load(Path(__file__).with_name({beside.name!r}))"
    else:
        yield "arrays = {"
        for name, array in arrays.items():
            yield f"    {name!r}: np.array({_literal(array)}, np.{array.dtype.name}),"
        yield "}"
    yield ""
    yield f"MESSAGE = {record.failure.seen!r}"
    yield from _question(call)
    yield from _verdict(right)


def _imports(request: str) -> Iterator[str]:
    found = parse_request(request)
    yield "import importlib"
    yield "import sys"
    yield "from pathlib import Path"
    yield "from types import SimpleNamespace"
    yield ""
    yield "import numpy as np"
    yield ""
    door = found.factory or "attest_implementations"
    if found.is_file:
        target = Path(found.target)
        yield f"sys.path.insert(0, {str(target.parent)!r})  # run from the directory of the conformance run"
        yield f"made = importlib.import_module({target.stem!r}).{door}()"
    else:
        module = found.target if found.factory else _module(found.target)
        yield f"made = importlib.import_module({module!r}).{door}()"
    yield "implementation = made[0] if isinstance(made, (list, tuple)) else made"


def _module(name: str) -> str:
    from attest.registry import registered

    return registered()[name].module


def _arrays(call: Call, right: Arrays | None) -> dict[str, Array]:
    arrays = {f"in/{n}": v for n, v in call.inputs.items() if isinstance(v, np.ndarray)}
    arrays |= {f"parameter/{n}": v for n, v in (call.parameters or {}).items()}
    arrays |= {f"cotangent/{n}": v for n, v in call.inputs.get("cotangents", {}).items()}
    for i, batch in enumerate(call.batches if isinstance(call, Run) else ()):
        arrays |= {f"batch{i}/{n}": v for n, v in batch.items()}
    return arrays | {f"right/{n}": np.asarray(v) for n, v in (right or {}).items()}


def _literal(array: Array) -> str:
    return repr(array.tolist()).replace("nan", "np.nan").replace("inf", "np.inf")


def _question(call: Call) -> Iterator[str]:
    yield ""
    yield ""
    yield "def part(prefix):"
    yield '    return {n.split("/", 1)[1]: arrays[n] for n in arrays if n.startswith(prefix + "/")}'
    yield ""
    yield ""
    others = {n: v for n, v in call.inputs.items() if not isinstance(v, np.ndarray) and n != "cotangents"}
    if operation_of(call.operation).form is Form.FUNCTION:
        order = [
            f"arrays['in/{n}']" if isinstance(v, np.ndarray) else repr(v) for n, v in call.inputs.items()
        ]
        yield "def ask():"
        yield f"    return {{'output': implementation.{call.operation}({', '.join(order)})}}"
    else:
        yield from _component_question(call, others)


def _component_question(call: Call, others: Mapping[str, Any]) -> Iterator[str]:
    assert call.config is not None
    fields = {**asdict(call.config), "inner_width": call.config.inner_width}
    yield "class Config(SimpleNamespace):"
    yield "    def but(self, **changes):"
    yield "        return Config(**{**vars(self), **changes})"
    yield ""
    yield ""
    yield "def ask():"
    yield "    config = Config("
    for line in textwrap.wrap(", ".join(f"{k}={v!r}" for k, v in fields.items()), 90):
        yield f"        {line}"
    yield "    )"
    if isinstance(call, Run):
        yield from _training(call)
        return
    yield f"    component = implementation.{call.operation}(config)"
    if call.parameters:
        yield '    component.load(part("parameter"))'
    extra = f", **{dict(others)}" if others else ""
    if call.method == "gradients":
        yield f'    found = component.gradients(dict(part("in"){extra}), part("cotangent"))'
        yield "    return {**found.inputs, **found.parameters}"
    else:
        method = "component" if call.method == "__call__" else f"component.{call.method}"
        yield f'    return {method}(**part("in"){extra})'


def _training(run: Run) -> Sequence[str]:
    return [
        f"    trainer = implementation.{run.operation}(config)",
        '    start = part("parameter")',
        "    trainer.model.load(start)",
        f"    for i in range({len(run.batches)}):",
        '        report = trainer.step(part(f"batch{i}"))',
        "    after = trainer.model.parameters()",
        '    return {**report, **{f"change of {n}": after[n] - start[n] for n in start}}',
    ]


def _verdict(right: Arrays | None) -> Sequence[str]:
    if right is None:
        return [
            "",
            "",
            "try:",
            "    seen = ask()",
            "except Exception as error:",
            '    print("refused, as it should be:", error)',
            "else:",
            "    raise AssertionError(MESSAGE)",
        ]
    return [
        "",
        "",
        "seen = ask()",
        'for name, right in part("right").items():',
        "    scale = np.max(np.abs(right), initial=0.0, where=np.isfinite(right))",
        "    slack = 1e-6 if right.dtype == np.asarray(seen[name]).dtype == np.float64 else 1e-3",
        "    atol = slack * (0.1 * scale + 1e-6)",
        "    if not np.allclose(seen[name], right, rtol=slack, atol=atol, equal_nan=True):",
        "        raise AssertionError(MESSAGE)",
        'print("the answers are right now")',
    ]
