"""The text of a reproduction: recorded steps as Python, and one check. No harness is needed."""

from __future__ import annotations

import math
import tempfile
import textwrap
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np

from attest.contract import Array, Config
from attest.diagnosis.claims import Changed, Claim, Number, Raises, Refuses, Right
from attest.diagnosis.recording import Once, Ref, Step
from attest.registry import read_request, registered

MOST_NUMBERS = 600  # arrays beyond this go into a file beside the script
DERIVED = tuple(name for name, value in vars(Config).items() if isinstance(value, property))


class Unwritable(Exception):
    """An argument that no line of Python can make again."""


class Script:
    """Collects the lines of the body and the arrays they need."""

    def __init__(self, steps: Sequence[Step], kept: Sequence[int], claim: Claim, message: str) -> None:
        self.steps, self.kept, self.claim, self.message = steps, kept, claim, message
        self.arrays: dict[str, Array] = {}
        self._configs: dict[Config, str] = {}
        self._folders: dict[str, str] = {}
        self.lines = self._lines()

    def _lines(self) -> list[str]:
        body = [line for k in self.kept if k != self.claim.step for line in [f"got{k} = {self._call(k)}"]]
        check = list(self._check())
        made = [f"{name} = {_config(config)}" for config, name in self._configs.items()]
        folders = [f"{name} = tempfile.mkdtemp()" for name in self._folders.values()]
        return [f"MESSAGE = {self.message!r}", *folders, *made, *body, *check]

    def _call(self, k: int) -> str:
        step = self.steps[k]
        target = self._reference(step.target)
        args = [self._text(a, f"{k}/{i}") for i, a in enumerate(step.args)]
        arrays = {n: a for n, a in step.kwargs.items() if isinstance(a, np.ndarray)}
        if arrays:
            self.arrays |= {f"{k}/{n}": a for n, a in arrays.items()}
            args.append(f'**part("{k}")')
        args += [f"{n}={self._text(a, f'{k}/{n}')}" for n, a in step.kwargs.items() if n not in arrays]
        return f"{target}{'' if step.method == '__call__' else f'.{step.method}'}({', '.join(args)})"

    def _reference(self, ref: Ref) -> str:
        return "implementation" if ref.step is None else f"got{ref.step}{ref.suffix()}"

    def _text(self, value: Any, place: str) -> str:
        """An expression that makes the value again."""
        if isinstance(value, Ref):
            return self._reference(value)
        if isinstance(value, np.ndarray):
            self.arrays[place] = value
            return f'arrays["{place}"].copy()'
        if isinstance(value, Config):
            return self._configs.setdefault(value, f"config{len(self._configs)}")
        if isinstance(value, Once):
            return f"iter({self._text(value.items, place)})"
        if isinstance(value, Mapping):
            if value and all(isinstance(item, np.ndarray) for item in value.values()):
                self.arrays |= {f"{place}/{name}": item for name, item in value.items()}
                return f'part("{place}")'
            pairs = [f"{n!r}: {self._text(v, f'{place}/{n}')}" for n, v in value.items()]
            return f"{{{', '.join(pairs)}}}"
        if isinstance(value, list | tuple):
            inner = ", ".join(self._text(item, f"{place}/{i}") for i, item in enumerate(value))
            return f"[{inner}]" if isinstance(value, list) else f"({inner}{',' if value else ''})"
        return self._plain(value)

    def _plain(self, value: Any) -> str:
        if isinstance(value, np.generic):
            return f"np.{value.dtype.name}({number(float(value))})"
        if isinstance(value, str) and value.startswith(tempfile.gettempdir()):
            return self._folders.setdefault(value, f"folder{len(self._folders)}")
        if isinstance(value, float):
            return number(value)
        if isinstance(value, str | bytes | bool | int | None):
            return repr(value)
        if callable(value):
            return "lambda *given: None"  # a listener of the property; what it heard is not checked here
        raise Unwritable(f"a call takes a {type(value).__name__}, which a script cannot make")

    def _check(self) -> Iterator[str]:
        k, claim = self.claim.step, self.claim
        if isinstance(claim, Raises | Refuses):
            yield from _about_exceptions(claim, self._call(k))
            return
        if isinstance(claim, Changed):
            self.arrays[f"{k}/{claim.name}"] = self.steps[k].kwargs[claim.name]
            call = self._call(k).replace(f'part("{k}")', "given")
            yield f'given = part("{k}")'
            yield call
            yield f'if not np.array_equal(given[{claim.name!r}], arrays["{k}/{claim.name}"], equal_nan=True):'
            yield "    raise AssertionError(MESSAGE)"
        else:
            yield f"got{k} = {self._call(k)}"
        if isinstance(claim, Number):
            yield from _about_a_number(claim)
        if isinstance(claim, Right):
            self.arrays |= {f"right/{place}": array for place, array in claim.arrays}
            for place, _ in claim.arrays:
                yield f"check(got{k}{place}, arrays[{f'right/{place}'!r}])"
        yield 'print("the answers are right now")'


def _about_exceptions(claim: Claim, call: str) -> Iterator[str]:
    words = claim.words if isinstance(claim, Refuses) else ()
    yield "try:"
    yield f"    {call}"
    if isinstance(claim, Raises):
        yield "except Exception as error:"
        yield "    raise AssertionError(MESSAGE) from error"
        yield 'print("nothing is raised now")'
        return
    yield f"except {'ValueError' if words else 'Exception'} as error:"
    if words:
        yield f"    if not all(named(word, error) for word in {words!r}):"
        yield "        raise AssertionError(MESSAGE) from error"
    yield '    print("refused, as it should be:", error)'
    if words:
        yield "except Exception as error:"
        yield "    raise AssertionError(MESSAGE) from error"
    yield "else:"
    yield "    raise AssertionError(MESSAGE)"


def _about_a_number(claim: Number) -> Iterator[str]:
    index = f"[{', '.join(map(str, claim.index))}]" if claim.index else ""
    yield f"seen = float(got{claim.step}{claim.place}{index})"
    if claim.wanted is None:
        yield "if not np.isfinite(seen):"
    else:
        there = f"float(got{claim.also}{claim.other}{index})"
        yield f"wanted = {there if claim.also is not None else number(claim.wanted)}"
        yield f"if not (seen == wanted or abs(seen - wanted) <= {number(claim.allowed)}):"
    yield "    raise AssertionError(MESSAGE)"


def _config(config: Config) -> str:
    fields = {**asdict(config), **{name: getattr(config, name) for name in DERIVED}}
    lines = textwrap.wrap(", ".join(f"{k}={_field(v)}" for k, v in fields.items()), 90)
    return "Config(\n" + "\n".join(f"    {line}" for line in lines) + "\n)"


def _field(value: Any) -> str:
    return number(value) if isinstance(value, float) else repr(value)


def number(value: float) -> str:
    """A float as Python reads it back, whatever it is."""
    if math.isnan(value):
        return "np.nan"
    return repr(value) if math.isfinite(value) else f"{'-' if value < 0 else ''}np.inf"


def literal(array: Array) -> str:
    """An array as Python reads it back."""
    text = repr(array.tolist()).replace("nan", "np.nan").replace("inf", "np.inf")
    return f"np.array({text}, np.{array.dtype.name})"


# What every body may use. `check` is as wide as the diagnosis: wider than rounding, narrower than a defect.
TOOLS = """
class Config(SimpleNamespace):
    def __hash__(self):
        return hash(repr(self))

    def but(self, **changes):
        return Config(**{**vars(self), **changes})


def part(prefix):
    names = [n for n in arrays if n.rpartition("/")[0] == prefix]
    return {n.rpartition("/")[2]: arrays[n].copy() for n in names}


def named(word, error):
    return re.search(rf"(?<![A-Za-z0-9_]){re.escape(word)}(?![A-Za-z0-9_])", str(error)) is not None


def check(seen, right):
    seen = np.asarray(seen)
    scale = np.max(np.abs(right), initial=0.0, where=np.isfinite(right))
    slack = 1e-6 if right.dtype == seen.dtype == np.float64 else 1e-3
    atol = slack * (0.1 * scale + 1e-6)
    if seen.shape != right.shape or not np.allclose(seen, right, rtol=slack, atol=atol, equal_nan=True):
        raise AssertionError(MESSAGE)
"""
IMPORTS = ("importlib", "re", "sys", "tempfile")


def text_of(script: Script, title: str, request: str, name: str, path: Path) -> Iterator[str]:
    """The whole file; large arrays are saved beside it."""
    yield f'"""{title}, without the harness. Run: python {path.name}"""'
    yield ""
    yield from (f"import {module}" for module in IMPORTS)
    yield "from pathlib import Path"
    yield "from types import SimpleNamespace"
    yield ""
    yield "import numpy as np"
    yield ""
    yield from _implementation(request, name)
    if sum(a.size for a in script.arrays.values()) > MOST_NUMBERS:
        beside = path.with_suffix(".npz")
        np.savez(beside, **script.arrays)  # type: ignore[arg-type]
        yield f"arrays = dict(np.load(Path(__file__).with_name({beside.name!r})))"
    else:
        yield "arrays = {"
        yield from (f"    {key!r}: {literal(array)}," for key, array in script.arrays.items())
        yield "}"
    yield ""
    yield from TOOLS.splitlines()
    yield ""
    yield ""
    yield from script.lines


def _implementation(request: str, name: str) -> Iterator[str]:
    """Lines that import the implementation as the run did."""
    found = read_request(request)
    door = found.factory or "attest_implementations"
    module = found.target
    if found.is_file:
        target = Path(found.target)
        yield f"sys.path.insert(0, {str(target.parent)!r})  # run from the directory of the conformance run"
        module = target.stem
    elif not found.factory:
        module = registered()[found.target].module
    yield f"made = importlib.import_module({module!r}).{door}()"
    yield "made = list(made) if isinstance(made, (list, tuple)) else [made]"
    yield f"implementation = next((i for i in made if i.name == {name!r}), made[0])"
    options = tuple(pair for pair in found.options if pair[0] not in ("dtype", "device"))
    if options:
        yield f"implementation.options = {options!r}"
