"""What is printed about the sizes of a criterion follows from its strategies."""

import re
from pathlib import Path

from attest.judging.reach import judged_up_to
from attest.report.reach_page import FIXED
from attest.spec import load_spec

PAGE = Path(__file__).parent.parent / "docs" / "reach.md"


def test_a_criterion_says_how_far_it_is_judged():
    reach = judged_up_to("M4.2a")
    assert (reach["T"], reach["S"], reach["D"], reach["N"], reach["F"]) == (130, 130, 96, 6, 260)
    assert judged_up_to("M1.7") == {}
    assert "seed" not in reach


def test_the_page_has_a_line_for_every_criterion_and_that_of_the_strategies():
    """Large sizes are the same everywhere; what is drawn may differ between versions of Hypothesis."""
    rows = dict(re.findall(r"^\| (\S+) .* \| (.*) \|$", PAGE.read_text(encoding="utf-8"), re.MULTILINE))
    assert list(rows) == [c.id for c in load_spec().criteria], "run `make docs`"
    for id in ("M4.2a", "M8.18"):
        said = dict(part.split(" = ") for part in rows[id].split(", "))
        large = {name: str(size) for name, size in judged_up_to(id).items() if size > 32}
        assert large.items() <= said.items(), f"{id}: run `make docs`"
    assert rows["M1.7"] == FIXED
