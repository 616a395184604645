"""The HTML page: what it holds, and that nothing from outside becomes markup."""

from __future__ import annotations

import json
import re
from html.parser import HTMLParser

import pytest

from attest.report.document import report_document
from attest.report.html import html_page, write_html
from attest.report.kill_matrix import read_selftest
from attest.report.pictures import bound_bar, pictures
from attest.report.writing import write_reports
from report_samples import (
    CURVES,
    FLOW,
    HEATMAP,
    HOSTILE,
    LINK,
    SAMPLES,
    SPEC,
    failure,
    hostile,
    record,
    run,
    student,
)

NO_SCALE = {"expected": ["M1.2"], "killed_by": ["M1.2", "M1.10"], "verdict": "killed"}
MASK_IGNORED = {"expected": ["M1.4"], "killed_by": [], "verdict": "alive"}
SELFTEST = {
    "defects": [
        {"name": "no_scale", "milestone": "M1", **NO_SCALE},
        {"name": "mask_ignored", "milestone": "M1", **MASK_IGNORED},
    ]
}


class Reader(HTMLParser):
    """Tags with their attributes, and the text."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict]] = []
        self.text = ""
        self.open: list[str] = []
        self.feed(page)

    def handle_starttag(self, tag, attrs):
        self.tags.append((tag, dict(attrs)))
        if tag not in ("meta", "br", "input", "link"):
            self.open.append(tag)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag, f"</{tag}> closes nothing"

    def handle_data(self, data):
        self.text += data

    def all(self, tag, **wanted):
        return [a for t, a in self.tags if t == tag and all(a.get(k) == v for k, v in wanted.items())]


def read(records, **fields):
    return Reader(html_page([report_document("mine", records, SPEC)], **fields))


def test_every_tag_is_closed_and_every_local_link_leads_somewhere():
    page = read(student(), selftest=SELFTEST)
    assert page.open == []
    ids = [a["id"] for _, a in page.tags if "id" in a]
    assert len(ids) == len(set(ids))
    dead = {a["href"] for a in page.all("a") if a["href"].startswith("#")} - {f"#{id}" for id in ids}
    assert dead == set()


def test_nothing_is_fetched():
    page = read(student(), selftest=SELFTEST)
    assert not [a for t, a in page.tags if "src" in a or (t != "a" and "href" in a)]
    assert "url(" not in page.text
    assert "@import" not in page.text


def test_every_criterion_opens_to_statement_why_and_evidence():
    page = read(student())
    criteria = page.all("details", **{"class": "criterion"})
    assert [a["id"] for a in criteria] == list(SPEC.by_id)
    folded = re.sub(r"\s+", " ", page.text)
    for c in SPEC.criteria:
        assert re.sub(r"\s+", " ", c.statement) in folded, c.id
        assert re.sub(r"\s+", " ", c.why) in folded, c.id
    for part in ("examples", "regimes", "worst error", "replay", "looks like", "causal_off_by_one"):
        assert part in folded
    assert "on a broken base" in folded


def test_milestones_show_their_acceptance_criteria_and_verdicts():
    folded = re.sub(r"\s+", " ", read(student()).text)
    others = len(SPEC.milestones) - 3
    said = f"Of {others + 3} milestones 2 do not conform, 1 is incomplete, {others} are not offered."
    assert said in folded
    assert "Acceptance criteria of M1" in folded
    assert "AC4 ✕" in folded


def test_where_to_start_names_the_first_criterion_and_the_likely_cause():
    folded = re.sub(r"\s+", " ", read(student()).text)
    start = folded[folded.index("Where to start") :]
    assert "causal_off_by_one explains M1.5, M1.9 like no known defect: M2.8" in start
    assert start.index("like no known defect") < start.index("M1.5 The future is hidden")


def test_environment_and_spec_version_are_there():
    document = report_document("mine", student(), SPEC)
    text = html_page([document])
    assert SPEC.version in text
    assert document["environment"]["numpy"] in text


def test_known_failures_have_links_and_other_schemes_have_none():
    assert read(student()).all("a", href=LINK)
    bad = record("M1.14", "known failure", link="javascript:alert(1)")
    page = read([bad])
    assert "javascript:alert(1)" in page.text
    assert not [a for a in page.all("a") if a["href"].startswith("javascript")]


def hostile_document():
    bad = record("M1.5", "fail", reason=HOSTILE, worst_case=HOSTILE, dtype=HOSTILE, regimes={HOSTILE: 3})
    data = {
        "curves": {HOSTILE: {"x": [0, 1], "y": [1, 2], "x_label": HOSTILE, "y_label": HOSTILE}},
        "flow": {"required": [[1]], "seen": [[0]], "rows": [HOSTILE], "columns": [HOSTILE]},
        "heatmap": {"values": [[1.0]], "row_labels": [HOSTILE], "column_labels": [HOSTILE], "title": HOSTILE},
        "samples": [{"input": HOSTILE, "output": [HOSTILE], "wanted": HOSTILE}],
    }
    shown = failure("M1.5", **hostile(HOSTILE))
    bad = bad.but(failure=shown, link=f'https://x.org/"onclick={HOSTILE}', data=data)
    document = report_document("mine", [bad, record("M1.2", "error", reason=HOSTILE)], SPEC)
    document["implementation"] = HOSTILE
    document["environment"]["torch"] = HOSTILE
    return document


def hostile_selftest():
    row = {"name": HOSTILE, "milestone": HOSTILE, "verdict": "alive", "expected": [HOSTILE], "killed_by": []}
    return {"defects": [row]}


@pytest.mark.parametrize("several", [False, True], ids=["one", "several"])
def test_hostile_text_stays_text(several):
    documents = [hostile_document(), *([report_document("other", run({}), SPEC)] if several else [])]
    page = Reader(html_page(documents, hostile_selftest()))
    assert len(page.all("script")) == 1
    assert page.all("img") == []
    assert not [a for _, a in page.tags if any(name.startswith("on") for name in a)]
    assert "\x1b" not in page.text
    assert "{{7*7}}" in page.text
    assert page.open == []


def test_a_page_over_several_implementations_has_a_matrix(tmp_path):
    runs = {"mine": student(), "eager": run({}, implementation="eager")}
    write_reports(runs, SPEC, tmp_path, html=True)
    page = Reader((tmp_path / "report.html").read_text(encoding="utf-8"))
    cells = [a for a in page.all("a") if a.get("class", "").startswith("cell ")]
    assert len(cells) == 2 * len(SPEC.criteria)
    assert [a["class"] for a in cells if a["title"] == "mine, M1.5: fail"] == ["cell bad"]
    assert (tmp_path / "mine" / "report.html").is_file()
    assert (tmp_path / "eager" / "report.html").is_file()


def test_the_page_says_what_a_partial_run_left_out():
    folded = re.sub(r"\s+", " ", read(run({}, ids=("M1.2", "M1.5"))).text)
    assert f"2 of {len(SPEC.criteria)} criteria were selected; nothing else was judged." in folded
    assert "M1 is incomplete." in folded


def test_the_kill_matrix_is_drawn_when_the_harness_was_tried(tmp_path):
    (tmp_path / "selftest.json").write_text(json.dumps(SELFTEST))
    (path,) = write_html([report_document("mine", run({}), SPEC)], tmp_path)
    text = path.read_text(encoding="utf-8")
    assert "1 of 2 known defects are caught" in text
    assert "<title>no_scale, M1.2: caught, as expected</title>" in text
    assert "<title>mask_ignored, M1.4: expected, not caught</title>" in text


@pytest.mark.parametrize(
    "text", ["{", "[]", '{"defects": [1]}', '{"defects": [{"name": "x"}]}', '{"defects": 3}']
)
def test_a_selftest_that_cannot_be_used_is_left_out(tmp_path, text):
    (tmp_path / "selftest.json").write_text(text)
    assert read_selftest(tmp_path) is None


def test_pictures_have_names_and_say_what_is_wrong():
    (flow,) = pictures(FLOW)
    assert "5 cells differ from what is required" in flow
    assert flow.count('class="cross"') == 10
    (heat,) = pictures(HEATMAP)
    assert heat.count('class="heat"') == 64
    both, rate = pictures(CURVES)
    assert "<title>training loss, validation loss: loss over step</title>" in both
    assert "learning rate" in rate
    assert both.count("M") >= 3  # the curve breaks where there is no number
    (table,) = pictures(SAMPLES)
    assert "differs" in table
    for drawn in (flow, heat, both):
        assert 'role="img"' in drawn


def test_the_bar_is_full_beyond_the_bound():
    assert 'width="42"' in bound_bar(0.21)
    assert 'class="over-bound"' in bound_bar(3.0)
    assert bound_bar(3.0).count('width="200"') == 3


@pytest.mark.parametrize(
    "data",
    [
        {"flow": {"required": [[1]], "seen": [[1, 0]]}},
        {"flow": {"required": [[1], [1, 0]], "seen": [[1]]}},
        {"heatmap": {"values": [["<b>"]]}},
        {"heatmap": {"values": [[0.0] * 500]}},
        {"curves": {"a": {"x": [1, 2], "y": [1]}}},
        {"curves": {"a": {"x": [1], "y": [None]}}},
        {"samples": [3]},
    ],
)
def test_a_picture_that_cannot_be_drawn_says_so(data):
    (only,) = pictures(data)
    assert "could not be drawn" in only
    assert "<b>" not in only


def test_numbers_that_are_none_are_drawn_as_such():
    (heat,) = pictures({"heatmap": {"values": [[1.0, None], [float("nan"), 0.5]]}})
    assert heat.count('class="nan"') == 2


def test_a_constant_curve_and_a_wide_one_are_drawn():
    flat, wide = pictures(
        {
            "curves": {
                "a": {"x": [1, 2], "y": [3, 3], "x_label": "s", "y_label": "flat"},
                "b": {"x": range(2000), "y": [10.0**-k for k in range(6)] * 333 + [1, 1], "y_label": "wide"},
            }
        }
    )
    assert "NaN" not in flat + wide
    assert "wide (log)" in wide
