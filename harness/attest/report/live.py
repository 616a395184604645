"""A run as it happens: one row per milestone, one column per implementation, the first failure at once."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from rich.console import Console
from rich.live import Live
from rich.table import Table
from rich.text import Text

from attest.records.record import ERROR, FAIL, KNOWN, NOT_CLAIMED, NOT_OFFERED, NOT_RUN, PASS, THIN, Record

STYLES = {PASS: "green", FAIL: "red", ERROR: "red", THIN: "yellow", KNOWN: "yellow"}


class Progress:
    """What has been judged so far."""

    def __init__(self) -> None:
        self.titles: Mapping[str, str] = {}
        self.labels: list[str] = []
        self.total: Counter[str] = Counter()
        self.seen: dict[tuple[str, str], Counter[str]] = {}
        self.failed: set[str] = set()

    def begin(self, labels: Sequence[str], criteria: Iterable[str], titles: Mapping[str, str]) -> None:
        """Set the table up from the plan."""
        self.labels, self.titles = list(labels), titles
        self.total.update(id.partition(".")[0] for id in criteria)

    def add(self, record: Record) -> bool:
        """Count a record; True for the first failure of an implementation."""
        self.seen.setdefault((record.implementation, record.milestone), Counter())[record.verdict] += 1
        first = record.verdict in (FAIL, ERROR) and record.implementation not in self.failed
        if first:
            self.failed.add(record.implementation)
        return first

    def table(self) -> Table:
        """Milestones down, implementations across."""
        table = Table(box=None, padding=(0, 2, 0, 0), show_edge=False)
        table.add_column("milestone")
        for label in self.labels:
            table.add_column(label, justify="left")
        for milestone, title in self.titles.items():
            if self.total[milestone]:
                table.add_row(title, *(self._cell(label, milestone) for label in self.labels))
        return table

    def _cell(self, label: str, milestone: str) -> Text:
        counts = self.seen.get((label, milestone), Counter())
        done, total = sum(counts.values()), self.total[milestone]
        cell = Text(f"{done}/{total}", style="" if done < total else "bold")
        for verdict in (PASS, FAIL, ERROR, THIN, KNOWN, NOT_OFFERED, NOT_CLAIMED, NOT_RUN):
            if counts[verdict]:
                cell.append(f"  {counts[verdict]} {verdict}", style=STYLES.get(verdict, "dim"))
        return cell


def watch(events: Iterator[Mapping[str, Any]], console: Console | None = None) -> dict[str, Any] | None:
    """Show the events of a run until they end; the closing one, or None if it never came."""
    console = console or Console()
    progress = Progress()
    closing: dict[str, Any] | None = None
    with Live(console=console, transient=True, auto_refresh=False) as live:
        for event in events:
            if "labels" in event:
                progress.begin(event["labels"], event["criteria"], event["titles"])
            if "record" in event:
                record = Record.from_json(event["record"])
                if progress.add(record):
                    _print_failure(live.console, record.implementation, event["failure"])
            if "exit" in event:
                closing = dict(event)
            live.update(progress.table(), refresh=True)
    return closing


def _print_failure(console: Console, label: str, lines: Sequence[str]) -> None:
    console.print(Text(f"first failure of {label}", style="bold red"))
    for line in lines:
        console.print(Text(line), soft_wrap=True)
    console.print()


def print_summary(lines: Iterable[str], console: Console | None = None) -> None:
    """The closing lines, with verdicts in colour on a terminal."""
    console = console or Console()
    for line in lines:
        text = Text(line)
        text.highlight_regex(r"does not conform|\d+ (fail|error)\b", "red")
        text.highlight_regex(r"\bconforms( with known failures)?\b", "green")
        text.highlight_regex(r"\b(incomplete|\d+ thin)\b", "yellow")
        console.print(text, soft_wrap=True)
