"""attest matrix: one table over the reports of several implementations."""

import json
import re

import pytest

from attest.report.document import report_document
from attest.report.matrix import markdown, matrix_of
from attest.report.writing import write_document
from report_samples import SPEC, record


@pytest.fixture
def reports(tmp_path):
    """Of two implementations: one that passes, one that fails M1.5."""
    paths = []
    for name, verdict in (("right", "pass"), ("<i>wrong", "fail")):
        records = [record("M1.2", packages="thing 1.0"), record("M1.5", verdict)]
        document = report_document(name, records, SPEC)
        home = tmp_path / name.strip("<>i")
        write_document(document, home)
        paths.append(home / "report.json")
    return paths


def test_a_cell_says_what_its_report_says(reports, tmp_path):
    matrix = matrix_of(reports, tmp_path)
    right, wrong = (line.cells["M1"] for line in matrix.lines)
    documents = [json.loads(path.read_text()) for path in reports]
    assert [right.verdict, wrong.verdict] == [d["milestones"][0]["verdict"] for d in documents]
    assert (right.passed, wrong.passed, wrong.failed) == (2, 1, ("M1.5",))
    assert matrix.lines[0].of == "thing 1.0"
    assert re.match(r"\d{4}-\d\d-\d\d, ", matrix.lines[0].ran)
    for line in matrix.lines:
        assert (tmp_path / line.link).is_file()
        assert (tmp_path / line.cells["M1"].link).is_file()


def test_the_table_is_written_as_a_page_and_as_markdown(attest, reports, tmp_path):
    code, out, errors = attest("matrix", *map(str, reports), "-o", str(tmp_path / "all"))
    assert code == 0, errors
    assert "2 implementations" in out
    page = (tmp_path / "all/matrix.html").read_text()
    assert "<i>wrong" not in page
    for link in re.findall(r'href="([^"]+)"', page):
        assert (tmp_path / "all" / link).is_file(), link
    assert "| implementation | M1 |" in (tmp_path / "all/matrix.md").read_text()
    assert markdown(matrix_of(reports, tmp_path / "all")) == (tmp_path / "all/matrix.md").read_text()


def test_two_reports_of_one_implementation_are_refused(attest, reports, tmp_path):
    code, _, errors = attest("matrix", str(reports[0]), str(reports[0]), "-o", str(tmp_path / "all"))
    assert code == 2
    assert "two of the reports are of right; name one report for each implementation" in errors
    assert not (tmp_path / "all").exists()
