"""docs/reach.md: how far each criterion goes, made from what its properties draw."""

from __future__ import annotations

from collections.abc import Iterator

from attest.judging.reach import judged_up_to
from attest.spec import Spec

HEAD = """# How far a pass goes

A criterion that passes says something about the sizes that it drew, and nothing beyond them. Below are the
largest of each size among what a quick run draws with seed 0 and the large cases that follow in every
profile. Standard and deep draw more of the small ones. The letters are those of `spec/conventions.md`:
B batch, T queries or target length, S keys or source length, D width, H heads, F inner width, V vocabulary,
N layers. `attest explain M1.2` prints one line of this page. It is made by `attest docs --reach --write`.
"""
FIXED = "fixed cases; no size is drawn"


def reach_page(spec: Spec) -> str:
    """The whole page."""
    return "\n".join([HEAD, *_tables(spec)]) + "\n"


def _tables(spec: Spec) -> Iterator[str]:
    for milestone in spec.milestones:
        yield f"## {milestone.id} {milestone.title}\n"
        yield "| criterion | judged up to |\n|---|---|"
        for criterion in milestone.criteria:
            sizes = ", ".join(f"{name} = {size}" for name, size in judged_up_to(criterion.id).items())
            yield f"| {criterion.id} {criterion.title} | {sizes or FIXED} |"
        yield ""
