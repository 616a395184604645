"""A failure as data: what was seen, which defects it is like, how to see it again. Reports make the prose."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Literal

FEW = 4  # telling cases: with fewer, an agreement may be chance

Basis = Literal["answers", "exceptions", "complaint"]
Confidence = Literal["high", "low"]


@dataclass(frozen=True)
class Likeness:
    """A known defect, and on how many telling cases the implementation does the same.

    `basis` says what was the same: the answers, only the class of an exception, or only the complaint of the
    property (where no answer can be compared).
    """

    defect: str
    agrees: int
    cases: int
    basis: Basis = "answers"

    @property
    def share(self) -> float:
        """The share of the compared cases in which both do the same."""
        return self.agrees / self.cases

    @property
    def confidence(self) -> Confidence:
        """Low where the agreement may be chance."""
        return "high" if self.cases >= FEW and self.basis == "answers" else "low"


@dataclass(frozen=True)
class Edited:
    """A change of one method of the reference after which it gives the implementation's answers."""

    place: str  # the class and the method: Ranking.length_penalty
    before: str
    after: str
    cases: int  # that it was compared on
    left_out: int = 0  # cases that it was not compared on: an answer of them is no number
    apart: int = 0  # cases of those compared in which it does not agree

    @property
    def confidence(self) -> Confidence:
        """Low where the agreement may be chance."""
        return "high" if self.cases >= FEW else "low"


Relation = Literal["factor", "factors", "offset", "zero", "input", "order", "precision"]


@dataclass(frozen=True)
class Condition:
    """Under what settings all wrong answers were given."""

    settings: tuple[str, ...]  # what it is about
    test: str  # as it reads: schedule='cosine'
    wrong: int
    right: int
    right_under_it: int = 0


@dataclass(frozen=True)
class Deviant:
    """How wrong answers relate to the right ones, in each of them."""

    relation: Relation
    what: str  # the output or gradient
    value: str = ""  # the factor, the number added, or the input that came back
    answers: int = 0


@dataclass(frozen=True)
class Spread:
    """Which of the things that are answered together are wrong, and which are always right."""

    wrong: tuple[str, ...]
    right: tuple[str, ...]
    answers: int


@dataclass(frozen=True)
class Confined:
    """The methods of the reference with lines that run in every wrong answer and in no right one."""

    places: tuple[str, ...]
    wrong: int
    right: int


@dataclass(frozen=True)
class Measured:
    """What is true of the wrong answers, whatever their cause."""

    condition: Condition | None = None
    relations: tuple[Deviant, ...] = ()
    spread: Spread | None = None
    confined: Confined | None = None

    @classmethod
    def from_data(cls, data: Mapping[str, Any]) -> Measured:
        """The inverse of `dataclasses.asdict`."""
        condition, spread, confined = data["condition"], data["spread"], data.get("confined")
        return cls(
            Condition(**{**condition, "settings": tuple(condition["settings"])}) if condition else None,
            tuple(Deviant(**relation) for relation in data["relations"]),
            Spread(tuple(spread["wrong"]), tuple(spread["right"]), spread["answers"]) if spread else None,
            Confined(**{**confined, "places": tuple(confined["places"])}) if confined else None,
        )


@dataclass(frozen=True)
class Replay:
    """What a run needs to see the failure again. An empty case: the property draws nothing."""

    request: str
    criterion: str
    case: str = ""
    seed: int = 0
    profile: str = "standard"
    dtype: str | None = None
    device: str = "cpu"


@dataclass(frozen=True)
class Reproduction:
    """A file below the directory of the report that fails by itself, or the reason why there is none."""

    file: str = ""
    reason: str = ""


@dataclass(frozen=True)
class Failure:
    """What is known about a failure. `compared` counts the defects that were really put to the cases."""

    seen: str
    case: str
    property: str
    ratio: float | None = None
    limit: str = ""  # what `ratio` counts in, where the sentence `seen` says it
    required: str = ""
    likenesses: tuple[Likeness, ...] = ()
    compared: int = 0
    edits: tuple[Edited, ...] = ()  # where no known defect agrees on all cases
    measured: Measured = Measured()
    replay: Replay | None = None
    reproduction: Reproduction = Reproduction()

    def but(self, **changes: Any) -> Failure:
        """A copy with some fields changed."""
        return replace(self, **changes)

    @classmethod
    def from_data(cls, data: Mapping[str, Any]) -> Failure:
        """The inverse of `dataclasses.asdict`."""
        parts: dict[str, Any] = dict(data)
        parts["likenesses"] = tuple(Likeness(**likeness) for likeness in data["likenesses"])
        parts["edits"] = tuple(Edited(**edit) for edit in data.get("edits", ()))
        parts["measured"] = Measured.from_data(data["measured"]) if "measured" in data else Measured()
        parts["replay"] = Replay(**data["replay"]) if data["replay"] else None
        parts["reproduction"] = Reproduction(**data["reproduction"])
        return cls(**parts)
