"""Judge one criterion on one implementation: needs, known failures, properties, verdict."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from attest.boundary import JudgedImplementation
from attest.contract import OPERATIONS
from attest.contract.features import FEATURES
from attest.evidence import Evidence, collecting, current
from attest.judging.property import Property, parse_case, parse_drawn, run_property
from attest.machine import lacking, versions_of
from attest.outcomes import NotClaimed, NotOffered, NotRun, Timeout, Violation, Wiring
from attest.records.failure import Failure
from attest.records.record import (
    ERROR,
    FAIL,
    KNOWN,
    NOT_CLAIMED,
    NOT_OFFERED,
    NOT_RUN,
    PASS,
    THIN,
    Record,
    finite,
)
from attest.registry import sentence
from attest.running.tampering import tampering
from attest.spec import Criterion


@dataclass(frozen=True)
class Settings:
    """What a run fixes for every criterion."""

    profile: str = "standard"
    seed: int = 0
    dtype: str | None = None
    device: str = "cpu"
    spec_version: str = ""
    case: str | None = None


def judge(
    criterion: Criterion, properties: Sequence[Property], impl: JudgedImplementation, settings: Settings
) -> Record:
    """The record of this criterion. Only KeyboardInterrupt passes through."""
    record = Record(
        implementation=impl.name,
        criterion=criterion.id,
        milestone=criterion.milestone,
        level=criterion.level,
        seed=settings.seed,
        profile=settings.profile,
        dtype=",".join(impl.dtypes),
        device=impl.device,
        spec_version=settings.spec_version,
        text_hash=criterion.text_hash,
        policy=impl.policy.sentence(),
        claims=impl.claims.sentence(),
        packages=versions_of(impl.packages),
        features=tuple(f for f in criterion.features if f in impl.claims.features),
        widened=max([impl.factor(n) for n in criterion.needs if n in OPERATIONS], default=1.0),
    )
    started = time.perf_counter()
    with collecting() as evidence:
        outcome = _outcome(criterion, properties, impl, settings)
    outcome = {"floor": _floor(properties, settings), **outcome}
    seconds = finite(round(time.perf_counter() - started, 3)) or 0.0  # an implementation may patch the clock
    return record.but(**_seen(evidence), **outcome, seconds=seconds).but(**_thin(outcome, evidence, settings))


def _outcome(
    criterion: Criterion, properties: Sequence[Property], impl: JudgedImplementation, settings: Settings
) -> dict[str, Any]:
    try:
        check_needs(criterion, impl)
        known = _known(impl, criterion.id)
        if known is not None:
            return _judge_witness(known, properties, impl, settings)
        asked = _run_all([p for p in properties if p.runs_in(settings.profile)], impl, settings)
        if not properties:
            return {"verdict": ERROR, "reason": f"no property verifies {criterion.id}", "internal": True}
        return {"verdict": PASS, "reason": _restriction(), "floor": _floor(asked, settings)}
    except NotClaimed as reason:
        return {"verdict": NOT_CLAIMED, "reason": str(reason)}
    except NotOffered as reason:
        if whole := judged_inside(criterion, impl):
            return {"verdict": NOT_CLAIMED, "reason": f"{reason} by itself; {whole} is judged as a whole"}
        return {"verdict": NOT_OFFERED, "reason": str(reason)}
    except NotRun as reason:
        return {"verdict": NOT_RUN, "reason": str(reason)}
    except Wiring as wiring:
        return {"verdict": ERROR, "reason": wiring.seen}
    except Violation as violation:
        return {"verdict": FAIL, "reason": violation.seen, "failure": _failure(violation, properties)}
    except Timeout as error:
        return {"verdict": ERROR, "reason": str(error)}
    except MemoryError:
        return {"verdict": ERROR, "reason": "ran out of memory"}
    except SystemExit as error:
        code = error.code if isinstance(error.code, int | str) else type(error.code).__name__
        return {"verdict": ERROR, "reason": f"the implementation called exit({code})"}
    except KeyboardInterrupt:
        raise
    except Exception as error:
        # An exception that is neither a Violation nor one of the implementation's own is a fault of ours,
        # unless the implementation has broken what it runs beside.
        said = tampering(error)
        return {
            "verdict": ERROR,
            "reason": said or f"the harness failed: {_origin(error)}",
            "internal": not said,
        }
    except BaseException as error:  # no Exception and no signal: only an implementation raises such a thing
        return {"verdict": ERROR, "reason": f"the implementation raised {sentence(error)}"}


def judged_inside(criterion: Criterion, impl: JudgedImplementation) -> str:
    """The model of a port that stands for a part it does not offer; empty where there is none.

    Only a family says that the part is there: other implementations have what they offer.
    """
    models = criterion.seen_in if impl.claims.families else ()
    return next((model for model in models if impl.offers(model)), "")


def _restriction() -> str:
    """What the verdict does not cover because it is not offered, in the refusals' own words."""
    refused = current().refused
    return f"judged without: {'; '.join(sorted(refused))}" if refused else ""


def _run_all(
    properties: Sequence[Property], impl: JudgedImplementation, settings: Settings
) -> list[Property]:
    """Run every property, so that one whose operation is not offered does not hide another's failure.

    A property whose cases are not claimed is left out of what is returned; where all are, the criterion is
    not claimed.
    """
    refusals: list[NotOffered] = []
    asked = []
    for property in properties:
        try:
            _run(property, impl, settings)
            asked.append(property)
        except NotOffered as reason:
            refusals.append(reason)
    refusals.sort(key=lambda reason: isinstance(reason, NotClaimed))
    if refusals and (not isinstance(refusals[0], NotClaimed) or len(refusals) == len(properties)):
        raise refusals[0]
    return asked


def _floor(properties: Sequence[Property], settings: Settings) -> int:
    """How many examples these properties need at least."""
    return sum(p.floor(settings.profile) for p in properties if p.runs_in(settings.profile))


def _run(property: Property, impl: JudgedImplementation, settings: Settings) -> None:
    if settings.case is None:
        run_property(property, impl, profile=settings.profile, seed=settings.seed)
        return
    wanted, drawn = parse_case(settings.case)
    names = set(property.strategies)
    if wanted and wanted != property.name:
        return
    if not names and not property.steps:
        run_property(property, impl, profile=settings.profile, seed=settings.seed)
    elif set(parse_drawn(drawn)) == names:
        run_property(property, impl, profile=settings.profile, seed=settings.seed, witness=drawn)


def check_needs(criterion: Criterion, impl: JudgedImplementation) -> None:
    """NotClaimed, NotOffered or NotRun when something the criterion needs is missing.

    `gradients` cannot be looked up here: it is a method of a component, and whether there is one is known
    once the property has built its component. The boundary then answers NotOffered, with the same effect.
    """
    if criterion.features and not impl.claims.features.intersection(criterion.features):
        raise NotClaimed(_claims_none(criterion.features))
    for need in criterion.needs:
        if need in OPERATIONS and not impl.offers(need):
            raise NotOffered(f"{need} is not offered")
        if need == "compiled" and not impl.compiled:
            raise NotOffered("the implementation does not declare compiled = True")
    reason = lacking(criterion.needs)
    if reason:
        raise NotRun(reason)


def _claims_none(features: Sequence[str]) -> str:
    told = [FEATURES[name].says for name in features]
    return f"{' or '.join(told)} {'is' if len(told) == 1 else 'are'} not claimed"


def _known(impl: JudgedImplementation, criterion: str) -> Any:
    declared = getattr(impl.implementation, "known_failures", None) or ()
    return next((k for k in declared if k.criterion == criterion), None)


def _judge_witness(
    known: Any, properties: Sequence[Property], impl: JudgedImplementation, settings: Settings
) -> dict[str, Any]:
    for property in properties:
        if not property.runs_in(settings.profile):
            continue
        try:
            drawn = set(parse_drawn(known.witness)) if property.strategies else set()
        except ValueError as error:
            reason = f"the witness of this known failure cannot be read: {error}"
            return {"verdict": ERROR, "reason": reason, "link": known.link}
        if property.strategies and drawn != set(property.strategies):
            continue
        try:
            witness = known.witness if property.strategies else None
            run_property(property, impl, profile=settings.profile, seed=settings.seed, witness=witness)
        except Violation as violation:
            failure = _failure(violation, properties)
            return {"verdict": KNOWN, "reason": known.reason, "link": known.link, "failure": failure}
    reason = f"declared a known failure ({known.reason}) but its witness passes; remove the declaration"
    return {"verdict": ERROR, "reason": reason, "link": known.link}


def _seen(evidence: Evidence) -> Mapping[str, Any]:
    return {
        "examples": evidence.examples,
        "regimes": dict(sorted(evidence.regimes.items())),
        "worst_ratio": finite(evidence.worst_ratio),
        "worst_case": evidence.worst_case,
        "data": evidence.data,
    }


def _thin(outcome: Mapping[str, Any], evidence: Evidence, settings: Settings) -> Mapping[str, Any]:
    floor = outcome["floor"]
    if outcome["verdict"] != PASS or evidence.examples >= floor or settings.case is not None:
        return {}
    reason = f"ran {evidence.examples} examples, fewer than its floor of {floor}"
    return {"verdict": THIN, "reason": "; ".join(filter(None, (reason, outcome["reason"])))}


def _failure(violation: Violation, properties: Sequence[Property]) -> Failure:
    return Failure(
        violation.seen,
        violation.case,
        violation.property or properties[0].name,
        finite(violation.ratio),
        violation.deviation.limit if violation.deviation else "",
    )


def _origin(error: BaseException) -> str:
    trace = error.__traceback__
    while trace and trace.tb_next:
        trace = trace.tb_next
    where = f"{trace.tb_frame.f_code.co_name}, line {trace.tb_lineno}" if trace else "unknown place"
    return f"{sentence(error)} (in {where})"
