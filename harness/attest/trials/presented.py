"""A file of faulty and correct implementations: what it says of each, and what becomes of each."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

from attest.boundary import JudgedImplementation
from attest.contract import OPERATIONS
from attest.diagnosis.likeness import diagnose
from attest.judging.catalogue import defects
from attest.judging.property import costly_criteria
from attest.outcomes import Timeout
from attest.records.failure import Condition, Confined, Deviant
from attest.records.record import FAIL
from attest.registry import BrokenPlugin, load, offered, parse_request, sentence
from attest.report.wording import likenesses_text, measured_text
from attest.running.timer import cancel_timer, set_timer
from attest.spec import load_spec
from attest.spelling import nearest
from attest.trained.training import use_directory
from attest.trials.judgement import PROFILES, SECONDS, Judgement, Refusal, Step, judgement, unshrunk
from attest.trials.processes import Ended, each_apart

RIGHT, NEAR, WRONG, NONE = "right", "near", "wrong", "none"
COSTLY_SECONDS = 900.0
DIAGNOSIS_SECONDS = 900.0  # of a clock: a busy machine must not change what is said


@dataclass(frozen=True)
class Presented:
    """One implementation of the file and what the file says of it."""

    request: str
    name: str
    correct: bool
    fault: str = ""
    operations: tuple[str, ...] = ()  # it concerns these; empty: all it offers
    milestones: tuple[str, ...] = ()
    criteria: tuple[str, ...] = ()  # only these are asked; empty: all of its milestones
    looks_like: tuple[str, ...] = ()  # known defects whose name would be right
    near: tuple[str, ...] = ()  # and those whose name would help
    offers: tuple[str, ...] = ()


@dataclass(frozen=True)
class Asked:
    """What the command was asked for."""

    milestones: tuple[str, ...] = ()
    criteria: tuple[str, ...] = ()
    profile: str = "standard"
    seeds: tuple[int, ...] = (0,)  # a correct one must pass at each; a faulty one is judged at the first
    costly: bool = False
    everything: bool = False
    diagnose: bool = False


@dataclass(frozen=True)
class Tried:
    """What became of one implementation."""

    presented: Presented
    judgement: Judgement
    said: str = ""  # by the diagnosis of the first failure
    named: tuple[str, ...] = ()  # the defects that it names
    seed: int = 0  # the last one it was judged at

    @property
    def verdict(self) -> str:
        """caught, caught by a should, missed; passes, passes but for a should, refused."""
        first = self.judgement.first
        if self.presented.correct:
            return "passes" if first is None or not first.by_a_must else "refused"
        if first is None:
            return "missed"
        return "caught" if first.by_a_must else f"only {first.level}"

    @property
    def as_it_should_be(self) -> bool:
        """A fault was noticed, or nothing was refused that is correct; and the harness did not break."""
        return self.verdict not in ("missed", "refused") and not self.judgement.harness_failed

    @property
    def diagnosis(self) -> str:
        """Whether a name that the diagnosis gave is one of the file; empty where neither gave any."""
        if not self.said:
            return ""
        names = set(self.named)
        if not names:
            return NONE
        if not self.presented.looks_like:
            return ""
        if names & set(self.presented.looks_like):
            return RIGHT
        return NEAR if names & set(self.presented.near) else WRONG


def presented(request: str) -> list[Presented]:
    """What a file presents, read in a process of its own; BrokenPlugin where it cannot be read."""
    [(_, found)] = each_apart(_described, [request], workers=1)
    if isinstance(found, Ended):
        raise BrokenPlugin(f"{request}: reading it {found.how}")
    if isinstance(found, str):
        raise BrokenPlugin(found)
    return found


def trial(
    everyone: Sequence[Presented], asked: Asked, *, workers: int, on_tried: Callable[[Tried], None]
) -> list[Tried]:
    """Judge each in a process of its own; the results in the order of the file."""
    found: dict[str, Tried] = {}
    for (who, _), result in each_apart(_try, [(who, asked) for who in everyone], workers=workers):
        tried = _ended(who, asked, result) if isinstance(result, Ended) else result
        found[who.name] = tried
        on_tried(tried)
    return [found[who.name] for who in everyone]


def steps(who: Presented, asked: Asked) -> Iterator[Step]:
    """The criteria that concern it: a faulty one may die at quick, a correct one meets what was asked."""
    chosen = [c for c in load_spec().criteria if _concerns(who, asked, c.id)]
    costly = costly_criteria()
    first = PROFILES.index(asked.profile) if who.correct else 0
    for profile in PROFILES[first : PROFILES.index(asked.profile) + 1]:
        for criterion in sorted(chosen, key=lambda c: c.id in costly):
            seconds = COSTLY_SECONDS if criterion.id in costly else SECONDS[profile]
            yield Step(criterion.id, profile, seconds)


def _concerns(who: Presented, asked: Asked, id: str) -> bool:
    spec = load_spec()
    criterion = spec.by_id[id]
    operations = set(who.operations or who.offers)
    milestones = who.milestones or tuple(m.id for m in spec.milestones if set(m.operations) & operations)
    if asked.milestones or asked.criteria:
        wanted = id in asked.criteria or criterion.milestone in asked.milestones
    else:
        wanted = id in who.criteria if who.criteria else criterion.milestone in milestones
    needed = {need for need in criterion.needs if need in OPERATIONS}
    affordable = asked.costly or id not in costly_criteria() or id in asked.criteria
    concerned = not who.operations or bool(needed & set(who.operations))
    return wanted and affordable and concerned and needed <= set(who.offers)


def _try(job: tuple[Presented, Asked]) -> Tried:
    who, asked = job
    implementation = next(i for i in load(parse_request(who.request)) if i.name == who.name)
    tried = _at_seeds(implementation, who, asked)
    first = tried.judgement.first
    if first is not None and not who.correct and (asked.diagnose or who.looks_like):
        said = said_of(implementation, first, tried.seed)
        return replace(tried, said=said.text, named=said.names)
    return tried


def _at_seeds(implementation: Any, who: Presented, asked: Asked) -> Tried:
    """At the first seed, and while a correct one passes at the others too."""
    for seed in asked.seeds:
        with tempfile.TemporaryDirectory(prefix="attest-") as shared:
            use_directory(shared)
            found = judgement(implementation, list(steps(who, asked)), seed=seed, everything=asked.everything)
        tried = Tried(who, found, seed=seed)
        if tried.verdict != "passes" or found.harness_failed:
            break
    return tried


@dataclass(frozen=True)
class Said:
    """What the diagnosis said of a failure, as text and as data."""

    text: str = ""
    names: tuple[str, ...] = ()  # known defects
    places: tuple[str, ...] = ()  # methods of the reference
    condition: Condition | None = None
    relations: tuple[Deviant, ...] = ()


def said_of(implementation: Any, refusal: Refusal, seed: int) -> Said:
    """What the diagnosis says of a failure; it is not asked about an error."""
    property = next((p for p in unshrunk(refusal.criterion) if p.name == refusal.property_name), None)
    if refusal.verdict != FAIL or property is None:
        return Said()
    set_timer(DIAGNOSIS_SECONDS)
    try:
        found = diagnose(property, JudgedImplementation(implementation), refusal.case, seed=seed)
    except (Exception, SystemExit, Timeout) as error:
        return Said(f"the diagnosis failed: {sentence(error)}")
    finally:
        cancel_timer()
    text = likenesses_text(found.notable, found.compared, found.edits)
    names = () if found.edits else tuple(likeness.defect for likeness in found.notable)
    return Said(
        "; ".join((text, *measured_text(found.measured))),
        names,
        (*(edit.place for edit in found.edits), *_confined_to(found.measured.confined)),
        found.measured.condition,
        found.measured.relations,
    )


def _confined_to(confined: Confined | None) -> tuple[str, ...]:
    """The method that only wrong answers run; of several the classes alone, so that none is named."""
    places = confined.places if confined is not None else ()
    return places if len(places) == 1 else tuple(f"{place.partition('.')[0]}." for place in places)


def _ended(who: Presented, asked: Asked, ended: Ended) -> Tried:
    """A process that ends is what a run reports as an error of the criterion that it was judging."""
    how = f"the implementation {ended.how}"
    return Tried(who, Judgement((Refusal("unknown", "must", asked.profile, "error", how),)))


def _described(request: str) -> list[Presented] | str:
    try:
        found = [_presented(request, i) for i in load(parse_request(request))]
    except BrokenPlugin as error:
        return str(error)
    names = [who.name for who in found]
    repeated = next((name for name in names if names.count(name) > 1), None)
    if repeated:
        return f"{request}: two implementations are named {repeated!r}; give each its own name"
    return found


def _presented(request: str, implementation: Any) -> Presented:
    name = implementation.name
    correct = getattr(implementation, "correct", None)
    if not isinstance(correct, bool):
        raise BrokenPlugin(f"{request}: {name} does not say correct = True or correct = False; add one")
    known: dict[str, Sequence[str]] = {
        "operations": tuple(OPERATIONS),
        "milestones": [m.id for m in load_spec().milestones],
        "criteria": tuple(load_spec().by_id),
        "looks_like": tuple(defects()),
        "near": tuple(defects()),
    }
    named = {key: _names(request, implementation, key, allowed) for key, allowed in known.items()}
    fault = str(getattr(implementation, "fault", "") or "")
    offers = tuple(offered(implementation))
    return Presented(request, name, correct, fault, **named, offers=offers)


def _names(request: str, implementation: Any, key: str, known: Sequence[str]) -> tuple[str, ...]:
    given = getattr(implementation, key, ()) or ()
    names = (given,) if isinstance(given, str) else tuple(given)
    for name in names:
        if name not in known:
            where = f"{request}: {implementation.name}.{key} has {name!r}, which is unknown"
            raise BrokenPlugin(f"{where}; {nearest(str(name), list(known))}")
    return names
