"""Implementations by milestones: one table over many reports, each cell from one report.json."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from attest.order import milestone_order
from attest.records.record import NOT_CLAIMED, PASS
from attest.records.verdicts import NOT_ASKED
from attest.report.markdown import escaped
from attest.report.reading import ReportError, read_report
from attest.report.rows import Document, MilestoneRow

NOTHING = ""  # of a milestone that a run left out


@dataclass(frozen=True)
class Cell:
    """What one implementation reaches in one milestone."""

    verdict: str = NOTHING
    passed: int = 0
    asked: int = 0
    failed: tuple[str, ...] = ()  # criteria that failed, by id
    link: str = ""

    @property
    def counts(self) -> str:
        """How many of the criteria that concern it passed; empty where nothing was asked."""
        return "" if self.verdict in (NOTHING, *NOT_ASKED) else f"{self.passed}/{self.asked}"


@dataclass(frozen=True)
class Line:
    """One implementation: its cells by milestone, and what its report says of the run."""

    name: str
    link: str
    cells: dict[str, Cell]
    of: str  # packages with versions
    ran: str  # day, profile, versions


@dataclass(frozen=True)
class Matrix:
    """The whole table."""

    milestones: dict[str, str]  # id -> title
    lines: tuple[Line, ...]


def matrix_of(paths: Sequence[Path], directory: Path) -> Matrix:
    """The table over these report.json files, with links that hold from the directory."""
    found = [(path, read_report(path)) for path in paths]
    names = [document["implementation"] for _, document in found]
    if twice := sorted({name for name in names if names.count(name) > 1}):
        raise ReportError(f"two of the reports are of {twice[0]}; name one report for each implementation")
    titles = {m["id"]: m["title"] for _, document in found for m in document["milestones"]}
    ordered = {id: titles[id] for id in sorted(titles, key=milestone_order)}
    return Matrix(ordered, tuple(_line(path, document, directory) for path, document in found))


def _line(path: Path, document: Document, directory: Path) -> Line:
    home = Path(os.path.relpath(path.parent, directory))
    cells = {m["id"]: _cell(m, path, home) for m in document["milestones"]}
    environment = document["environment"]
    versions = ", ".join(f"{n} {environment[n]}" for n in ("torch", "numpy") if environment.get(n))
    day = document.get("day", "day not recorded")
    ran = f"{day}, {document['profile'] or 'mixed profiles'}, spec {document['spec_version']}, {versions}"
    page = "report.html" if (path.parent / "report.html").is_file() else "index.md"
    return Line(
        document["implementation"], (home / page).as_posix(), cells, document.get("packages", ""), ran
    )


def _cell(milestone: MilestoneRow, path: Path, home: Path) -> Cell:
    rows = [row for row in milestone["criteria"] if row["verdict"] != NOT_CLAIMED]
    page = f"{milestone['id']}.md"
    return Cell(
        milestone["verdict"],
        sum(row["verdict"] == PASS for row in rows),
        len(rows) + len(milestone["not_selected"]),
        tuple(row["id"] for row in rows if row["verdict"] in ("fail", "error")),
        (home / page).as_posix() if (path.parent / page).is_file() else "",
    )


def markdown(matrix: Matrix) -> str:
    """The table in Markdown, and below it what each run was."""
    return "\n".join(_markdown(matrix)) + "\n"


def _markdown(matrix: Matrix) -> Iterator[str]:
    yield "# Implementations and milestones\n"
    yield "Every cell is read from a report.json: the verdict, and how many of the criteria that concern the"
    yield "implementation passed. Written by `attest matrix`.\n"
    yield f"| implementation | {' | '.join(matrix.milestones)} |"
    yield "|---" * (len(matrix.milestones) + 1) + "|"
    for line in matrix.lines:
        cells = (_shown(line.cells.get(id, Cell())) for id in matrix.milestones)
        yield f"| [{escaped(line.name)}]({line.link}) | {' | '.join(cells)} |"
    yield "\n| milestone | |\n|---|---|"
    yield from (f"| {id} | {escaped(title)} |" for id, title in matrix.milestones.items())
    yield "\n| implementation | of | judged | fails |\n|---|---|---|---|"
    for line in matrix.lines:
        failed = ", ".join(id for cell in line.cells.values() for id in cell.failed)
        yield f"| {escaped(line.name)} | {escaped(line.of)} | {escaped(line.ran)} | {failed} |"


def _shown(cell: Cell) -> str:
    if not cell.verdict:
        return ""
    text = f"{cell.verdict} {cell.counts}".strip()
    return f"[{text}]({cell.link})" if cell.link else text


def page(matrix: Matrix) -> str:
    """The same as a self-contained page."""
    from markupsafe import Markup

    from attest.report.html import TEMPLATES, content_policy, environment

    style = (TEMPLATES / "report.css").read_text(encoding="utf-8")
    template = environment().get_template("matrix.html.j2")
    return template.render(matrix=matrix, empty=Cell(), style=Markup(style), policy=content_policy("", style))
