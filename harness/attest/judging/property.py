"""How a criterion's properties are written, found and run.

    @verifies("M1.4")
    @given(case=attention_cases(padded=True))
    def masked_keys_are_inert(impl, case): ...

A property takes the implementation behind the boundary and what was drawn. Without `given` it runs once.
One that asks about a whole model and draws no case of it takes the `architecture` too; the encoder-decoder is
the one it gets, unless `attest.judging.asking` puts it to another.
One marked `stateful` returns the class of a Hypothesis state machine, which is then explored.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from inspect import signature
from typing import Any

from attest.boundary import JudgedImplementation
from attest.contract import ENCODER_DECODER
from attest.evidence import current
from attest.judging.asking import resolve
from attest.judging.regimes import large_examples
from attest.milestone_registry import load_parts
from attest.outcomes import NotClaimed, NotOffered, Violation

# Where so many cases in a row are refused and none was offered, no more are tried.
PATIENCE = 24
EXAMPLES = {"quick": 16, "standard": 60, "deep": 400}


class Enough(BaseException):
    """A search is ended before its last example. No Exception, so that Hypothesis lets it pass."""


@dataclass(frozen=True)
class Property:
    """A function that verifies a criterion, with the strategies it draws from."""

    criterion: str
    name: str
    check: Callable[..., None]
    strategies: Mapping[str, Any]
    effort: float
    shrinks: bool
    only: tuple[str, ...]
    steps: int = 0  # of a state machine
    trains: bool = False
    replay: str = ""  # the property that runs a case of the machine again
    costly: bool = False
    first: bool = False
    fixed: Mapping[str, Any] = field(default_factory=dict)  # keywords that are not drawn: the architecture
    large: int = 0  # how many enlarged cases follow those that are drawn
    most: int = 0  # end after so many of the examples of the profile, the same ones; 0: all, and the enlarged

    def examples(self, profile: str) -> int:
        """How many cases are drawn in a profile; 1 where nothing is drawn."""
        return max(3, round(self.effort * EXAMPLES[profile])) if self.strategies or self.steps else 1

    def floor(self, profile: str) -> int:
        """Fewer executed examples than this make the verdict thin."""
        return max(1, self.examples(profile) // 2)

    def runs_in(self, profile: str) -> bool:
        """Costly properties may name the profiles they run in."""
        return not self.only or profile in self.only


_registry: dict[str, list[Property]] = {}
_completions: list[Callable[[], None]] = []


def given(**strategies: Any) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Draw these by Hypothesis; each is a case, a number or a string."""

    def mark(check: Callable[..., None]) -> Callable[..., None]:
        check.strategies = strategies  # type: ignore[attr-defined]
        return check

    return mark


def stateful(*, steps: int, replay: str) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """The property returns a state machine; each run of it takes at most this many steps.

    The machine keeps the evidence's case at the line with which the property `replay` does the same again.
    """

    def mark(check: Callable[..., Any]) -> Callable[..., Any]:
        check.steps, check.replay = steps, replay  # type: ignore[attr-defined]
        return check

    return mark


def verifies(
    *criteria: str,
    effort: float = 1.0,
    shrinks: bool = True,
    only: tuple[str, ...] = (),
    trains: bool = False,
    costly: bool = False,
    first: bool = False,
    large: int = 0,
) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Register a property for these criteria. `effort` multiplies the profile's number of examples.

    After the drawn cases come as many `large` ones for each operation, at most two, in every profile: some of
    those that were drawn, with the sizes of `attest.judging.regimes`.

    Diagnosis does not run a property that `trains` a model: each comparison would be a training. The
    self-test tries the criterion of a `costly` property only on the defects that name it. The criterion of
    a property that comes `first` is judged before the others, which use the model that it has trained.
    """

    def register(check: Callable[..., None]) -> Callable[..., None]:
        strategies = getattr(check, "strategies", {})
        steps, replay = getattr(check, "steps", 0), getattr(check, "replay", "")
        fixed = {"architecture": ENCODER_DECODER} if "architecture" in signature(check).parameters else {}
        for id in criteria:
            found = Property(
                criterion=id,
                name=check.__name__,
                check=check,
                strategies=strategies,
                effort=effort,
                shrinks=shrinks,
                only=only,
                steps=steps,
                trains=trains,
                replay=replay,
                costly=costly,
                first=first,
                fixed=fixed,
                large=large,
            )
            register_property(found)
        return check

    return register


def register_property(property: Property) -> None:
    """Add a property to those of its criterion."""
    _registry.setdefault(property.criterion, []).append(property)


def after_loading(complete: Callable[[], None]) -> Callable[[], None]:
    """Call this whenever the milestones have been loaded, before what is asked elsewhere is resolved."""
    _completions.append(complete)
    return complete


def load_properties() -> Mapping[str, list[Property]]:
    """Every property by criterion id, of the milestones of this package and of plugins."""
    load_parts("properties")
    for complete in _completions:
        complete()
    resolve(_registry, register_property)
    return _registry


def costly_criteria() -> frozenset[str]:
    """Criteria that train or time a model."""
    return frozenset(id for id, found in load_properties().items() if any(p.costly for p in found))


def run_property(
    property: Property, impl: JudgedImplementation, *, profile: str, seed: int, witness: str | None = None
) -> None:
    """Run to the end or raise the Violation of the smallest failing case, which then knows its case.

    Where backends are declared it runs once for each.
    """
    for backend in impl.backends:
        try:
            with impl.on(backend):
                _run(property, impl, profile, seed, witness)
        except Violation as violation:
            violation.case = current().case  # the last example that ran is the smallest failing one
            violation.property = property.replay or property.name
            violation.seen += f" (backend {backend})" if backend else ""
            raise


def _run(
    property: Property, impl: JudgedImplementation, profile: str, seed: int, witness: str | None
) -> None:
    if property.steps:
        if not property.most:
            _explore(property, impl, profile, seed)
    elif not property.strategies:
        current().begin("", ())
        property.check(impl, **property.fixed)
    elif witness is not None:
        _example(property, impl, parse_drawn(witness))
    else:
        _search(property, impl, profile, seed)


def _search(property: Property, impl: JudgedImplementation, profile: str, seed: int) -> None:
    import hypothesis
    from hypothesis import strategies

    tally = {"offered": 0, "refused": 0}
    passed: list[dict[str, Any]] = []
    refusals: list[NotOffered] = []

    @_settings(property, profile)  # type: ignore[untyped-decorator]
    @hypothesis.seed(seed)
    @hypothesis.given(strategies.fixed_dictionaries(dict(property.strategies)))
    def search(drawn: dict[str, Any]) -> None:
        if property.most and sum(tally.values()) >= property.most:
            raise Enough
        if not tally["offered"] and tally["refused"] >= PATIENCE:
            hypothesis.reject()
        try:
            _example(property, impl, drawn)
            tally["offered"] += 1
            passed.append(drawn)
        except NotOffered as refusal:
            refusals.append(refusal)
            tally["refused"] += 1
            hypothesis.reject()  # another case is drawn instead: the verdict does not hang on the draw
        except Violation:
            tally["offered"] += 1
            raise
        ratio = current().example_ratio
        if ratio > 0:
            hypothesis.target(min(ratio, 1e6), label="error over bound")

    try:
        _reporting_flakes(search)
    except hypothesis.errors.Unsatisfiable:
        raise _refused(refusals) from None
    except Enough:
        return
    for large in large_examples(passed, property.large):
        with suppress(NotOffered):
            _example(property, impl, large)


def _refused(refusals: Sequence[NotOffered]) -> NotOffered:
    """Not claimed where no case was; not offered where one was claimed and refused."""
    for refusal in refusals:
        if not isinstance(refusal, NotClaimed):
            return NotOffered(str(refusal))
    return NotClaimed(str(refusals[0])) if refusals else NotOffered("no case is offered")


def _explore(property: Property, impl: JudgedImplementation, profile: str, seed: int) -> None:
    import hypothesis
    from hypothesis.stateful import run_state_machine_as_test

    machine: Any = property.check(impl, **property.fixed)  # type: ignore[func-returns-value]
    hypothesis.seed(seed)(machine)

    def explore() -> None:
        run_state_machine_as_test(machine, settings=_settings(property, profile))

    _reporting_flakes(explore)


def _settings(property: Property, profile: str) -> Any:
    from hypothesis import HealthCheck, Phase, Verbosity, settings

    return settings(
        max_examples=property.examples(profile),
        deadline=None,
        database=None,
        phases=[Phase.generate, Phase.target, *([Phase.shrink] if property.shrinks else [])],
        report_multiple_bugs=False,
        print_blob=False,
        suppress_health_check=list(HealthCheck),
        verbosity=Verbosity.quiet,  # else it prints the steps of a state machine that takes another course
        stateful_step_count=max(1, property.steps),
    )


def _reporting_flakes(run: Callable[[], None]) -> None:
    from hypothesis.errors import Flaky

    try:
        run()
    except Violation:
        raise
    except Flaky as error:
        raise Violation(_two_outcomes(error)) from error


def _two_outcomes(error: BaseException) -> str:
    """Hypothesis ran the same case twice; one of the outcomes is in the group that it raises."""
    failed = [e.seen for e in getattr(error, "exceptions", ()) if isinstance(e, Violation)]
    what = "the implementation is not deterministic: the same case "
    if failed:
        return f"{what}failed at first ({failed[0]}) and passed when it was run again"
    return f"{what}took another course when it was run again"


def _example(property: Property, impl: JudgedImplementation, drawn: Mapping[str, Any]) -> None:
    fitted = {k: v.fitted(impl) if hasattr(v, "fitted") else v for k, v in drawn.items()}
    regimes = tuple(r for v in fitted.values() for r in getattr(v, "regimes", ()))
    regimes += (f"backend {impl.backend}",) if impl.backend else ()
    current().begin(print_drawn(fitted), regimes)
    try:
        property.check(impl, **fitted, **property.fixed)
    except NotOffered as refusal:
        current().refuse("" if isinstance(refusal, NotClaimed) else str(refusal), regimes)
        raise


def print_drawn(drawn: Mapping[str, Any]) -> str:
    """What was drawn as one line that `parse_drawn` reads back."""
    return " ".join(f"{name}={value}" for name, value in drawn.items())


def print_case(property: str, drawn: str) -> str:
    """A drawn line with the property that it is for, since several properties of a criterion draw alike."""
    return f"{property}: {drawn}"


def parse_case(line: str) -> tuple[str, str]:
    """The property and the drawn line of a case; no property where only the line is given."""
    property, colon, drawn = line.partition(": ")
    return (property, drawn) if colon and re.fullmatch(r"\w+", property) else ("", line)


def parse_drawn(line: str) -> dict[str, Any]:
    """Read a line of `print_drawn`; ValueError where it cannot be."""
    from attest.judging.cases import parse_value

    # A value ends where the next name begins: words such as `zero queries` have blanks in them.
    parts = re.findall(r"(\w+)=(\w+\[[^\]]*\]|\S.*?)(?=\s+\w+=|\s*$)", line)
    if not parts:
        raise ValueError(f"case={line!r} has no name=value; paste the whole line of the report")
    return {name: parse_value(text) for name, text in parts}
