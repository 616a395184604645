"""Sentences and commands made from the data of a failure. Nothing reads them back."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from pathlib import Path

from attest.contract.features import FEATURES
from attest.records.failure import FEW, Failure, Likeness, Replay
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
    return likenesses_text(failure.likenesses, failure.compared)


def likenesses_text(likenesses: Sequence[Likeness], compared: int) -> str:
    """The same from the likenesses and the number of defects that were compared."""
    if likenesses:
        return " or ".join(likeness_text(likeness) for likeness in likenesses)
    return f"none of {compared} known defects" if compared else ""


def likeness_text(likeness: Likeness) -> str:
    """A defect, how often it agrees, and how sure that is."""
    cases = "1 case" if likeness.cases == 1 else f"{likeness.cases} cases"
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
