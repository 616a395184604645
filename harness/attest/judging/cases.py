"""A case: sizes, a regime and a seed. It prints as one line, reads back, and makes its arrays on the CPU."""

from __future__ import annotations

import ast
import math
import re
from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from functools import cached_property
from typing import Any, ClassVar, Self

import numpy as np
from hypothesis import strategies as st

from attest.boundary import JudgedComponent, JudgedImplementation
from attest.contract import OPERATIONS, Array, Arrays, Config, Kind, Operation, float_dtype
from attest.judging.options import first_offered, picked_options, read_options, written_options
from attest.judging.regimes import LENGTH, large_sizes
from attest.outcomes import Expected
from attest.reference.oracle import bounded_gradients, expected, random_parameters

REGIMES = ("unit", "init", "saturated", "tiny", "large", "offset")
SCALE = {"unit": 1.0, "init": 1.0, "saturated": 1.0, "tiny": 1e-3, "large": 30.0, "offset": 1.0}
# Not drawn: numbers beyond the range of float16, which streams of deep models reach and only a norm reads.
SCALE["beyond_half"] = 1e6
OFFSET = 20.0

_kinds: dict[str, type[Case]] = {}


@dataclass(frozen=True, kw_only=True)
class Case:
    """Base of every case: fields are numbers and words only, so that a line holds all of it.

    `fitted` is the only place that reads an implementation's shape policy. It leaves two numbers of it in the
    case: `least`, the smallest size that is allowed, and `fixed`, whether every config costs a build.
    """

    kind: ClassVar[str] = ""
    lengths: ClassVar[tuple[str, ...]] = ()  # fields that a shape policy keeps at or above its minimum
    masks: ClassVar[tuple[str, ...]] = ()  # fields that name the form of a mask

    regime: str = "unit"
    dtype: str = "float32"
    seed: int = 0
    least: int = 1
    fixed: bool = False

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        _kinds[cls.kind] = cls

    def __str__(self) -> str:
        """Fields that differ from the default; a line with all of them is read as well."""
        told = [(f.name, getattr(self, f.name)) for f in fields(self) if getattr(self, f.name) != f.default]
        return f"{self.kind}[{' '.join(f'{name}={value}' for name, value in told)}]"

    def but(self, **changes: Any) -> Self:
        """A copy with some fields changed."""
        return replace(self, **changes)

    @property
    def regimes(self) -> tuple[str, ...]:
        """What the evidence counts this case under."""
        sizes = [f"{name}=1" for name in self.lengths if getattr(self, name) == 1]
        return (self.regime, self.dtype, *sizes)

    @property
    def hides(self) -> bool:
        """Whether one of its masks may hide something."""
        return any(getattr(self, name) not in ("none", "all") for name in self.masks)

    @property
    def narrowed(self) -> Mapping[str, Any]:
        """The fields to change where every config costs a build: one of the few configs that are kept."""
        return {}

    def fitted(self, impl: JudgedImplementation) -> Self:
        """This case in a dtype the implementation offers and within its shape policy."""
        policy = impl.policy
        case = self if self.dtype in impl.dtypes else self.but(dtype=impl.dtypes[0])
        if policy.one_config:
            case = case.but(dtype=impl.dtypes[0], fixed=True, **self.narrowed)
        small = {n: policy.min_size for n in case.lengths if 0 < getattr(case, n) < policy.min_size}
        unmasked = [n for n in case.masks if getattr(case, n) == "none"] if policy.always_mask else []
        return case.but(least=policy.min_size, **small, **dict.fromkeys(unmasked, "all"))

    def sharpest(self, impl: JudgedImplementation, *, rebuild: bool = True) -> Self:
        """In the most exact dtype; without `rebuild` its own where every config costs a build."""
        return self if self.fixed and not rebuild else self.but(dtype=impl.sharpest)

    def rng(self, *salt: int) -> np.random.Generator:
        """A generator of this case's seed; a salt makes another stream."""
        return np.random.default_rng([self.seed, *salt])

    def draw(self, rng: np.random.Generator, *shape: int, regime: str | None = None) -> Array:
        """Values of the regime's scale in the boundary's dtype."""
        regime = self.regime if regime is None else regime
        values = rng.standard_normal(shape) * self.in_range(SCALE[regime])
        return (values + OFFSET if regime == "offset" else values).astype(float_dtype(self.dtype))

    def in_range(self, value: float) -> float:
        """A large number as this dtype can hold it: float16 ends at 65504."""
        return min(value, 1e4) if self.dtype == "float16" and math.isfinite(value) else value

    @property
    def sharp(self) -> bool:
        """Whether the literal tolerance of the acceptance criteria applies."""
        return self.regime in ("init", "unit")


@dataclass(frozen=True, kw_only=True)
class OperationCase(Case):
    """A case of one operation. Its inputs follow from the record: a word of a shape is a field of the case.

    `settings` maps fields of the case to fields of the config; `constants` are fields of every config.
    `stands_for` names the word of a shape or the field of the config of further fields that are sizes.

    The options in `free` come from what the implementation claims: `pick`, one drawn integer, takes a row of
    the table in which every claimed pair of values appears, among those that hold the options in `wants`.
    Fitting writes the row into `options`, so that the line of the case replays it.
    """

    operates: ClassVar[str] = ""
    settings: ClassVar[Mapping[str, str]] = {}
    stands_for: ClassVar[Mapping[str, str]] = {}
    constants: ClassVar[Mapping[str, Any]] = {"num_heads": 1}
    free: ClassVar[tuple[str, ...]] = ()
    # Rows of options where every config costs a build: one for each of the most values that an option has.
    # Of what a criterion wants there are two.
    most_rows: ClassVar[int] = 6

    pick: int = 0  # 0: the options are those that are written
    wants: str = ""  # options as a word, as in positions:rotary,window:3
    options: str = ""  # the same

    @property
    def operation(self) -> str:
        """The name of the operation; a class of several operations has a field for it."""
        return self.operates

    @property
    def record(self) -> Operation:
        """The operation."""
        return OPERATIONS[self.operation]

    def fitted(self, impl: JudgedImplementation) -> Self:
        """Also with sizes that fit each other, and with options that are offered."""
        return super().fitted(impl).picked(impl).settled().offered(impl)

    def picked(self, impl: JudgedImplementation) -> Self:
        """With the options of a row that the implementation claims; NotClaimed where there is none."""
        if not self.pick:
            return self
        plain, wanted = self.but(pick=0, wants="", options=""), read_options(self.wants)
        most = self.most_rows if self.fixed else 0
        ends = bool(most and wanted)  # criteria want many things
        row = picked_options(impl, self.operation, self.free, self.pick, plain.config, wanted, most, ends)
        return plain.but(options=written_options(row))

    @property
    def chosen(self) -> dict[str, Any]:
        """The options that differ from the model of 2017, by field of the config."""
        return read_options(self.options)

    def settled(self) -> Self:
        """With fields that follow from others."""
        return self

    def enlarged(self, width: int) -> Self:
        """This case with the sizes of `attest.judging.regimes`, and so wide."""
        meanings = {**{name: name for name in self.lengths}, **self.settings, **self.stands_for}
        own = {f.name for f in fields(self)}
        sizes = large_sizes(
            {name: meaning for name, meaning in meanings.items() if name in own},
            width,
            attends="num_heads" in self.record.reads,
        )
        return self.but(**sizes).settled()

    def with_rows(self, rows: int) -> Self:
        """This case with so many rows in a batch."""
        return self.but(B=rows).settled() if "B" in self.lengths else self

    def with_heads(self, heads: int) -> Self:
        """This case with so many heads, and as wide as they ask for where the width is drawn apart."""
        own = {f.name for f in fields(self)}
        meanings = {**{name: name for name in self.lengths}, **self.stands_for, **self.settings}
        counted = [n for n, meaning in meanings.items() if n in own and meaning in ("H", "num_heads")]
        if not counted:
            return self
        wide = [n for n, meaning in self.settings.items() if n in own and meaning == "d_model"]
        return self.but(**dict.fromkeys(counted, heads), **dict.fromkeys(wide, 4 * heads)).settled()

    def beyond_half(self) -> Self:
        """This case with inputs beyond the range of float16, where a norm reads them before anything else."""
        reads = self.record.reads
        if "x" not in self.record.takes or "norm_eps" not in reads:
            return self
        if "num_heads" not in reads:
            return self.but(regime="beyond_half")
        if "norm" not in reads or (not self.pick and self.config.norm != "pre"):
            return self
        wants = ",".join(word for word in (self.wants, "norm:pre" if self.pick else "") if word)
        return self.but(regime="beyond_half", wants=wants)

    @property
    def is_large(self) -> bool:
        """Whether one of its lengths is that of an enlarged case."""
        return any(getattr(self, name) >= LENGTH for name in self.lengths)

    @property
    def fallbacks(self) -> tuple[dict[str, Any], ...]:
        """Changes of options, tried in turn where the builder does not have those of the case."""
        return ()

    def offered(self, impl: JudgedImplementation) -> Self:
        """The case itself, or the first fallback that is offered; the case where none is."""
        return first_offered(impl, self.operation, self, *self.fallbacks) if self.fallbacks else self

    @property
    def config(self) -> Config:
        """What the builder gets."""
        own = {field: getattr(self, name) for name, field in self.settings.items()}
        return Config(**{**self.constants, **own, **self.chosen, "dtype": self.dtype})

    @cached_property
    def parameters(self) -> dict[str, Array]:
        """Random ones, of the regime's scale."""
        return random_parameters(self.operation, self.config, self.rng(1), regime=self.regime)

    @cached_property
    def inputs(self) -> dict[str, Any]:
        """Floating inputs of the regime, and the masks the case has."""
        rng, made = self.rng(), {}
        for name, port in self.record.takes.items():
            if port.kind is Kind.FLOATING:
                made[name] = self.draw(rng, *self.sizes(port.shape))
            if port.kind is Kind.MASK and (mask := self.mask_of(name)) is not None:
                made[name] = mask
        return made

    def sizes(self, shape: str) -> tuple[int, ...]:
        """The lengths that the words of a shape have in this case."""
        return tuple(getattr(self, word) for word in shape.split())

    def mask_of(self, name: str) -> Array | None:
        """The mask as it is passed, None where the case has none."""
        return None

    def is_mask(self, name: str) -> bool:
        """Whether an input is a mask."""
        return self.record.takes[name].kind is Kind.MASK

    @property
    def own_lengths(self) -> tuple[int, int]:
        """T and S; T again where there is no S."""
        T = int(getattr(self, "T", 1))
        return T, int(getattr(self, "S", T))

    def at_length(self, T: int, S: int) -> Self:
        """The same config and parameters at other lengths."""
        lengths = {"T": T, "S": S}
        return self.but(**{name: n for name, n in lengths.items() if name in self.lengths}).settled()

    def with_inputs(self, **changes: Any) -> dict[str, Any]:
        """The inputs with some arrays replaced; None leaves one out."""
        return {name: x for name, x in {**self.inputs, **changes}.items() if x is not None}

    def alone(self, row: int) -> dict[str, Any]:
        """The inputs of one row of the batch, as a batch of the least size that is allowed."""
        batch, rows = self.sizes("B")[0], [row] * self.least
        full = max(np.ndim(x) for x in self.inputs.values())
        return {
            name: x[rows] if np.ndim(x) and len(x) == batch and _has_rows(self.record, name, x, full) else x
            for name, x in self.inputs.items()
        }

    def loaded(self, impl: JudgedImplementation, parameters: Arrays | None = None) -> JudgedComponent:
        """The component in eval mode with the case's parameters, or others."""
        component = impl.build(self.operation, self.config)
        component.load(self.parameters if parameters is None else parameters)
        return component

    def unloaded(self, impl: JudgedImplementation) -> JudgedComponent:
        """A component that nothing was loaded into yet."""
        config = impl.with_run_options(self.config)
        return JudgedComponent(self.operation, impl.construct(self.operation, config), config, impl)

    @cached_property
    def expected(self) -> dict[str, Expected]:
        """The reference's outputs."""
        return self.expected_for()

    @property
    def output(self) -> Expected:
        """The first of the reference's outputs."""
        return self.expected[self.record.output]

    def expected_for(
        self, inputs: Arrays | None = None, parameters: Arrays | None = None
    ) -> dict[str, Expected]:
        """The reference's outputs for other inputs or parameters."""
        given = self.inputs if inputs is None else inputs
        return expected(
            self.operation, self.config, self.parameters if parameters is None else parameters, given
        )

    def output_for(self, inputs: Arrays | None = None, parameters: Arrays | None = None) -> Expected:
        """The first of the reference's outputs for other inputs or parameters."""
        return self.expected_for(inputs, parameters)[self.record.output]

    def specified(self, seen: Array, other: Array) -> Array:
        """What was seen; `other` where the spec leaves the output open."""
        return seen

    def cotangents(self) -> dict[str, Array]:
        """Random ones for the first output."""
        name, shape = next(iter(self.record.gives.items()))
        return {name: self.draw(self.rng(11), *self.sizes(shape), regime="unit")}

    def gradients_for(self, inputs: Arrays | None = None) -> dict[str, Expected]:
        """The reference's gradients by input and parameter."""
        given = self.inputs if inputs is None else inputs
        return bounded_gradients(self.operation, self.config, self.parameters, given, self.cotangents())

    def literal(self, tolerance: float) -> float:
        """A tolerance of the acceptance criteria; in half precision, which cannot meet it, the bound."""
        exact = self.dtype in ("float32", "float64")
        return tolerance if exact else float(np.max(self.output.bound))


def _has_rows(record: Operation, name: str, x: Array, full: int) -> bool:
    """Whether the first axis is the batch; a mask may leave that axis out, or never have it."""
    port = record.takes[name]
    if port.kind is not Kind.MASK:
        return True
    return port.words[0] in ("B", "...") and x.ndim >= min(full, 3)


def seeds() -> st.SearchStrategy[int]:
    """Seeds of arrays; small ones first when shrinking."""
    return st.integers(0, 2**16 - 1)


def picks() -> st.SearchStrategy[int]:
    """Rows of the table of claimed options, the plainest first when shrinking."""
    return st.integers(1, 2**12)


def dtypes() -> st.SearchStrategy[str]:
    """What equality is judged in; mapped into what the implementation offers."""
    return st.sampled_from(("float32", "float64"))


def regimes() -> st.SearchStrategy[str]:
    """The input regimes, the mild one first."""
    return st.sampled_from(REGIMES)


LARGEST_SIZE = 4096  # of a case that is typed; what is drawn stays far below


def parse_value(text: str) -> Any:
    """A case, a number or a word, as `print_drawn` wrote it."""
    match = re.fullmatch(r"(\w+)\[(.*)\]", text)
    if not match:
        return _literal(text)
    kind, body = match.groups()
    if kind not in _kinds:
        raise ValueError(f"case kind={kind!r} is unknown; one of {', '.join(sorted(filter(None, _kinds)))}")
    pairs = dict(part.partition("=")[::2] for part in body.split())
    known = [f.name for f in fields(_kinds[kind])]
    if unknown := [name for name in pairs if name not in known]:
        raise ValueError(f"{kind}[{unknown[0]}=...] is unknown; a case of this kind has {', '.join(known)}")
    values = {name: _literal(value) for name, value in pairs.items()}
    for given in fields(_kinds[kind]):
        if given.default is None:  # a size that may be left out
            continue
        wants_word = not isinstance(given.default, int | float)
        if given.name in values and wants_word != isinstance(values[given.name], str):
            what = "a word" if wants_word else "a number"
            raise ValueError(f"{kind}[{given.name}={pairs[given.name]}] is not {what}; paste the whole line")
        _check_number(kind, given.name, values.get(given.name), given.default)
    return _kinds[kind](**values)


def _check_number(kind: str, name: str, value: Any, default: Any) -> None:
    """What no strategy draws: a size below 0 or beyond memory, a fraction in place of a whole number."""
    if not isinstance(value, int | float) or not isinstance(default, int):
        return
    is_size = name.isupper() or name.startswith("d_")
    fits = isinstance(value, int) and (not is_size or 0 <= value <= LARGEST_SIZE) and abs(value) < 2**63
    if not fits:
        rule = f"a whole number from 0 to {LARGEST_SIZE}" if is_size else "a whole number below 2**63"
        raise ValueError(f"{kind}[{name}={str(value)[:30]}] is no value of a case; give {rule}")


def _literal(text: str) -> Any:
    if text in ("nan", "inf", "-inf"):
        return float(text)
    try:
        return ast.literal_eval(text)
    except (ValueError, SyntaxError, MemoryError, RecursionError):  # thousands of brackets exhaust its parser
        return text
