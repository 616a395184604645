"""What a teacher reads: Markdown pages that open with the acceptance criteria and show failures in full."""

from __future__ import annotations

import pytest

from attest.outcomes import Deviation
from attest.records.failure import Likeness
from attest.report.document import report_document
from attest.report.failure_text import failure_lines
from attest.report.markdown import escaped, index_page, linked, milestone_page
from report_samples import HOSTILE, LINK, SPEC, failure, hostile, record, run, student


def page(records, id="M1", label="mine"):
    document = report_document(label, records, SPEC)
    return milestone_page(document, next(m for m in document["milestones"] if m["id"] == id))


def test_the_page_opens_with_its_acceptance_criteria_and_their_verdicts():
    lines = page(student()).splitlines()
    assert lines[0] == "# M1 Scaled dot-product attention: does not conform"
    assert lines.index("## Acceptance criteria") < 6
    assert lines.index("## Acceptance criteria") < lines.index("## Criteria") < lines.index("## Failures")
    row = next(line for line in lines if line.startswith("| AC4 |"))
    assert "**not met**" in row
    assert "M1.5" in row


def test_the_table_gives_verdict_level_examples_and_worst_error():
    row = next(line for line in page(student()).splitlines() if line.startswith("| M1.2 "))
    assert row == "| M1.2 Attention equals its formula | must | pass | 60 | 0.21 |"


def test_a_failure_shows_what_a_reader_needs():
    text = page(student())
    at = text.index("### M1.5 ")
    block = text[at : text.index("### M1.9")]
    for part in ("required", "seen", "case", "looks like", "replay"):
        assert f"\n  {part} " in block, part
    assert "position 0 moved by 0.31 when position 1 changed" in block
    assert "(error 41.3 times the bound)" in block
    assert "causal_off_by_one (agrees on 40 of 40 cases)" in block
    assert "pytest --impl=mine --criterion M1.5 --attest-seed 0" in block
    assert escaped(SPEC.by_id["M1.5"].hint) in block


def test_the_error_over_the_bound_is_said_once():
    deviation = Deviation("output", (0,), 3.0, 1.0, 3.0, "the bound")
    said = failure("M1.5", ratio=3.0, limit="the bound").but(seen=str(deviation))
    said = record("M1.5", "fail", failure=said)
    assert page([said]).count("times the bound") == 1


def test_known_failures_stand_apart_with_their_link():
    text = page(student())
    assert text.index("## Known failures") > text.index("## Failures")
    assert f"Reported at <{LINK}>" in text[text.index("## Known failures") :]


def test_a_pass_on_a_broken_base_is_marked():
    below = next(c for c in SPEC.criteria if "M1.2" in c.stands_on)
    text = page(run({"M1.2": "fail"}), below.milestone)
    row = next(line for line in text.splitlines() if line.startswith(f"| {below.id} "))
    assert "pass, on a broken base (M1.2" in row


def test_what_was_not_judged_says_why():
    text = page(student(), "M3")
    assert "## Not judged in full" in text
    assert "thin, because of M3.3" in text


def test_an_error_has_its_reason_and_no_empty_failure_block():
    text = page(student(), "M2")
    assert "  reason     because of M2.8" in text


def test_wider_bounds_are_printed():
    assert "- M1.2: 4 times the derived bound" in page([record("M1.2", widened=4.0)])


def test_the_index_names_every_milestone_and_the_selection():
    text = index_page(report_document("mine", student(), SPEC))
    assert "| [M1 Scaled dot-product attention](M1.md) | **does not conform** |" in text
    assert f"All {len(SPEC.criteria)} criteria of the spec were selected." in text
    assert "- [M1.5](M1.md)" in text
    assert f"Spec {SPEC.version}, profile standard, seed 0." in text


def test_the_index_names_the_faults_behind_the_failures():
    other = failure("M2.1", likenesses=(Likeness("no_scale", 9, 9), Likeness("swap_q_k", 3, 9)))
    third = failure("M3.1", likenesses=(), compared=87)
    records = [*(record(id, "fail") for id in ("M1.5", "M1.6"))]
    records += [record("M2.1", "fail", failure=other), record("M3.1", "fail", failure=third)]
    text = index_page(report_document("mine", records, SPEC))
    assert "- `causal_off_by_one` explains M1.5, M1.6 (`attest explain causal_off_by_one`)" in text
    assert "- `no_scale` explains M2.1 (" in text
    assert "swap_q_k" not in text
    assert "- like no known defect: M3.1" in text


def test_the_index_of_a_partial_run_names_the_criteria():
    text = index_page(report_document("mine", run({}, ids=("M1.2", "M1.5")), SPEC))
    assert "Selected for this run: M1.2, M1.5. Nothing else was judged." in text


def test_hostile_text_stays_text():
    bad = record("M1.5", "fail", reason=HOSTILE, link="javascript:alert(1)")
    bad = bad.but(failure=failure("M1.5", **hostile(f"x\n```\n{HOSTILE}")))
    text = page([bad], label=HOSTILE)
    outside, _, rest = text.partition("````text" if "````text" in text else "```text")
    assert "<script>" not in outside
    assert "<img" not in rest.rpartition("```")[2]
    assert "\x1b" not in text
    assert "[x](y)" not in outside
    assert "<javascript" not in text


def test_a_fence_is_longer_than_any_run_of_backticks_inside():
    bad = record("M1.5", "fail").but(failure=failure("M1.5").but(seen="a ````` b"))
    assert "\n``````text\n" in page([bad])


@pytest.mark.parametrize(
    "url", ["javascript:alert(1)", "data:text/html,x", "https://x.org/ y", "http://a/<b>"]
)
def test_only_plain_web_addresses_become_links(url):
    assert not linked(url).startswith("<")


def test_failure_lines_keep_to_the_width_but_never_break_what_is_copied():
    row = report_document("mine", [record("M1.5", "fail")], SPEC)["milestones"][0]["criteria"][0]
    row["failure"]["seen"] = "word " * 60
    lines = list(failure_lines(row, width=80))
    assert lines[0].endswith("FAIL")
    assert all(len(line) <= 80 for line in lines if not line.startswith(("  replay", "  case")))
    assert sum(line.startswith("  replay") for line in lines) == 1
