"""The HTML page in a real browser: no complaints, filters, keyboard, and no way in for hostile text."""

from __future__ import annotations

import json

import pytest

from attest.report.html import html_page
from attest.report.writing import write_reports
from browser import Browser, chromium
from report_samples import SPEC, run, student
from test_report_html import SELFTEST, hostile_document, hostile_selftest

pytestmark = pytest.mark.skipif(chromium() is None, reason="no chromium on this machine: HTML page not tried")
SHOWN = "[...document.querySelectorAll('details.criterion')].filter(d => d.offsetParent).map(d => d.id)"
STATUS = "document.getElementById('shown').textContent"


@pytest.fixture(scope="module")
def browser():
    with Browser() as opened:
        yield opened


@pytest.fixture(scope="module")
def reports(tmp_path_factory):
    directory = tmp_path_factory.mktemp("reports")
    (directory / "selftest.json").write_text(json.dumps(SELFTEST))
    write_reports({"mine": student(), "eager": run({}, implementation="eager")}, SPEC, directory, html=True)
    (directory / "hostile.html").write_text(
        html_page([hostile_document()], hostile_selftest()), encoding="utf-8"
    )
    return directory


@pytest.fixture
def page(browser, reports):
    browser.complaints.clear()

    def open_page(name="mine/report.html", hash="", **size):
        browser.open(f"{(reports / name).as_uri()}{hash}", **size)
        return browser

    yield open_page
    assert browser.complaints == []


@pytest.mark.parametrize("name", ["mine/report.html", "eager/report.html", "report.html"])
@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
def test_it_loads_without_complaint_and_shows_every_criterion(page, name, dark):
    shown = page(name, dark=dark)
    assert shown.evaluate(SHOWN) == list(SPEC.by_id)
    assert shown.evaluate(STATUS) == f"{len(SPEC.criteria)} of {len(SPEC.criteria)} criteria shown"


def test_a_button_filters_by_verdict(page):
    shown = page()
    shown.evaluate("document.querySelector('button[data-verdict=fail]').click()")
    assert shown.evaluate(SHOWN) == ["M1.5", "M1.9"]
    assert shown.evaluate(STATUS) == f"2 of {len(SPEC.criteria)} criteria shown"
    pressed = "[...document.querySelectorAll('button[aria-pressed=true]')].map(b => b.dataset.verdict)"
    assert shown.evaluate(pressed) == ["fail"]
    assert (
        shown.evaluate("[...document.querySelectorAll('section.group')].filter(g => g.offsetParent).length")
        == 1
    )
    shown.evaluate("document.querySelector('button[data-verdict=\"\"]').click()")
    assert len(shown.evaluate(SHOWN)) == len(SPEC.criteria)


def test_words_filter_too_and_say_when_nothing_fits(page):
    shown = page()
    shown.evaluate("document.getElementById('text').focus()")
    shown.type("CAUSAL mask")
    found = shown.evaluate(SHOWN)
    assert "M1.5" in found
    assert "M3.1" not in found
    shown.type("zzzz")
    assert shown.evaluate(SHOWN) == []
    assert shown.evaluate("document.getElementById('nothing').offsetParent !== null")


def test_a_filter_is_kept_in_the_address(page):
    shown = page(hash="#filter=not-run&text=torch")
    assert shown.evaluate(SHOWN) == ["M2.6"]
    assert shown.evaluate("document.getElementById('text').value") == "torch"
    shown = page(hash="#filter=%3Cscript%3E&text=%22%3E%3Cimg%20src=x%3E")
    assert shown.evaluate("document.querySelectorAll('img').length") == 0


def test_an_address_opens_its_criterion(page):
    shown = page(hash="#M1.5")
    assert shown.evaluate("document.getElementById('M1.5').open")
    assert shown.evaluate("document.activeElement.parentElement.id") == "M1.5"


def test_the_keyboard_reaches_and_opens_a_criterion(page):
    shown = page()
    shown.evaluate("document.getElementById('open').focus()")
    shown.press("Tab", 9)
    assert shown.evaluate("document.activeElement.parentElement.id") == "M1.1"
    outline = "getComputedStyle(document.activeElement).outlineStyle"
    assert shown.evaluate(outline) == "solid"
    shown.press("Enter", 13)
    assert shown.evaluate("document.getElementById('M1.1').open")


def test_one_button_opens_what_is_shown(page):
    shown = page(hash="#filter=fail")
    shown.evaluate("document.getElementById('open').click()")
    opened = "[...document.querySelectorAll('details.criterion[open]')].map(d => d.id)"
    assert shown.evaluate(opened) == ["M1.5", "M1.9"]
    shown.evaluate("document.getElementById('open').click()")
    assert shown.evaluate(opened) == []


@pytest.mark.parametrize("name", ["mine/report.html", "report.html"])
def test_a_narrow_screen_needs_no_sideways_scrolling(page, name):
    shown = page(name, width=390, height=800)
    shown.evaluate("document.querySelectorAll('details').forEach(d => { d.open = true })")
    assert shown.evaluate("document.documentElement.scrollWidth") <= 390


def test_the_matrix_leads_to_the_evidence(page):
    shown = page("report.html")
    shown.evaluate("document.querySelector('a.cell[title=\"mine, M1.5: fail\"]').click()")
    assert shown.evaluate(
        "new Promise(done => setTimeout(() => done(document.getElementById('M1.5').open), 50))"
    )


def test_hostile_text_cannot_inject(page):
    shown = page("hostile.html")
    shown.evaluate("document.querySelectorAll('details').forEach(d => { d.open = true })")
    assert "owned" not in shown.evaluate("document.title").replace("document.title='owned'", "")
    assert shown.evaluate("document.querySelectorAll('img, script:not(:last-child)').length") == 0
    assert shown.evaluate("document.querySelectorAll('script').length") == 1


def test_the_policy_stops_a_script_that_got_in(browser, reports):
    text = (reports / "hostile.html").read_text(encoding="utf-8")
    (reports / "breached.html").write_text(
        text.replace("</main>", "<script>document.title='owned'</script><b onclick=alert(1)>x</b></main>"),
        encoding="utf-8",
    )
    browser.complaints.clear()
    browser.open((reports / "breached.html").as_uri())
    assert browser.evaluate("document.title") != "owned"
    assert any("Content Security Policy" in complaint for complaint in browser.complaints)
