"""Sentences and commands made from the data of a failure. Nothing reads them back."""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Sequence
from pathlib import Path

from attest.contract.features import FEATURES
from attest.records.failure import FEW, Confined, Deviant, Edited, Failure, Likeness, Measured, Replay
from attest.report.rows import MilestoneRow


def claimed_text(milestone: MilestoneRow) -> str:
    """The features that a milestone was judged for, in words; one of a plugin's own keeps its name."""
    claimed = milestone.get("claimed", ())
    return ", ".join(FEATURES[name].says if name in FEATURES else name for name in claimed)


def verdict_text(milestone: MilestoneRow) -> str:
    """The verdict of a milestone with what it is for: conforms (rotary, grouped)."""
    told = claimed_text(milestone)
    return f"{milestone['verdict']} ({told})" if told else milestone["verdict"]


def looks_like(failure: Failure) -> str:
    """The defects it behaves like, in one line; empty where no defect was compared."""
    return likenesses_text(failure.likenesses, failure.compared, failure.edits)


def likenesses_text(likenesses: Sequence[Likeness], compared: int, edits: Sequence[Edited] = ()) -> str:
    """The same from the likenesses, how many defects were compared, and changes of the reference."""
    if edits:
        return " or ".join(edit_text(edit) for edit in edits)
    if likenesses:
        return " or ".join(likeness_text(likeness) for likeness in likenesses)
    return f"none of {compared} known defects" if compared else ""


def edit_text(edit: Edited) -> str:
    """What the reference would have to say to give the same answers."""
    cases = _counted(edit.cases, "case")
    unsure = ", too few to be sure" if edit.confidence == "low" else ""
    unsure += f", and {edit.left_out} were left out, where an answer is no number" if edit.left_out else ""
    read = f"`{edit.after}` in place of `{edit.before}`"
    return (
        f"the reference with {read} in {edit.place} (agrees on {edit.cases - edit.apart} of {cases}{unsure})"
    )


def measured_text(measured: Measured) -> Iterator[str]:
    """What is true of the wrong answers, a sentence each."""
    condition, spread = measured.condition, measured.spread
    if condition is not None:
        others = f"all {condition.right} other answers are right"
        if condition.right_under_it:
            without = condition.right - condition.right_under_it
            others = f"{condition.right_under_it} answers under it are right, and all {without} others"
        yield f"wrong only {_when(condition.test)}: {_counted(condition.wrong, 'wrong answer')}, {others}"
    for relation in measured.relations:
        if relation.relation == "precision":
            yield f"{relation.answers} answers in {relation.what} are as exact as {relation.value} would be"
        else:
            yield f"{_place(relation.what)} is {_relation(relation)} in {_each(relation.answers)}"
    if spread is not None:
        wrong, right = (_listed(names) for names in (spread.wrong, spread.right))
        yield f"wrong is {wrong}, while {right} is right in {_each(spread.answers)}"
    if measured.confined is not None:
        yield _confined(measured.confined)


def _confined(confined: Confined) -> str:
    """Where the reference goes for wrong answers alone."""
    places = " and ".join(confined.places)
    wrong, right = _counted(confined.wrong, "wrong answer"), _counted(confined.right, "right one")
    return f"lines of {places} run in each of {wrong} and in none of {right}"


def _when(test: str) -> str:
    return test if test.startswith(("with ", "without ")) else f"where {test}"


def _relation(relation: Deviant) -> str:
    number = relation.value
    return {
        "factor": f"{number} times the right one",
        "factors": "a multiple of the right one, by a factor of its own,",
        "offset": f"the right one plus {number}",
        "zero": "zero",
        "input": f"what was given as {number}",
        "order": "the right numbers in another order",
    }[relation.relation]


def _place(what: str) -> str:
    """.parameters['key.bias'] as parameters key.bias; nothing is the answer itself."""
    return what.replace("['", " ").replace("']", "").removeprefix(".").strip() or "the answer"


def _listed(names: Sequence[str]) -> str:
    shown = [_place(name) for name in names[:FEW]]
    return ", ".join(shown) + (f" and {len(names) - FEW} more" if len(names) > FEW else "")


def _each(count: int) -> str:
    return "the only wrong answer" if count == 1 else f"each of {count} wrong answers"


def _counted(count: int, what: str) -> str:
    return f"{count} {what}" if count == 1 else f"{count} {what}s"


def likeness_text(likeness: Likeness) -> str:
    """A defect, how often it agrees, and how sure that is."""
    cases = _counted(likeness.cases, "case")
    return (
        f"{likeness.defect} (agrees on {likeness.agrees} of {cases}{doubt(likeness.cases, likeness.basis)})"
    )


def doubt(cases: int, basis: str) -> str:
    """Why an agreement may be chance, as the end of a sentence; empty where it is clear."""
    if cases < FEW:
        return ", too few to be sure"
    return "" if basis == "answers" else ", by the class of an exception only"


def replay_command(replay: Replay) -> str:
    """A command that fails in the same way, to be pasted into a shell."""
    words = ["pytest", f"--impl={replay.request.replace(f'{Path.cwd()}/', '')}"]
    words += ["--criterion", replay.criterion, "--attest-seed", str(replay.seed)]
    if replay.profile != "standard":
        words += ["--attest-profile", replay.profile]
    if replay.dtype and "dtype=" not in replay.request:
        words += ["--attest-dtype", replay.dtype]
    if replay.device != "cpu" and "device=" not in replay.request:
        words += ["--attest-device", replay.device]
    if replay.case:
        words += ["--attest-case", replay.case]
    return shlex.join(words)
