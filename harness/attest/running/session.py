"""One conformance run inside pytest: the plan, the records as they come, reports and exit code."""

from __future__ import annotations

import json
import os
import random
import shutil
import sys
import tempfile
from importlib.util import find_spec
from pathlib import Path
from typing import IO, Any

import pytest

from attest.records.plan import Plan, added
from attest.records.record import ERROR, FAIL, KNOWN, NOT_OFFERED, NOT_RUN, PASS, THIN, Record
from attest.records.verdicts import exit_code, with_blocks
from attest.registry import UsageError, printable
from attest.running import timer
from attest.running.items import PROPERTY, CriteriaFile, CriterionItem
from attest.running.selection import PROFILES, check_case, check_reports, select, targets
from attest.spec import Spec, SpecError, load_spec

LETTERS = {PASS: ".", FAIL: "F", ERROR: "E", THIN: "t", KNOWN: "k", NOT_OFFERED: "-", NOT_RUN: "n"}
CRASHED: Any = "???"  # what xdist calls the phase in which a worker died
COLOURS = {PASS: "green", FAIL: "red", ERROR: "red", THIN: "yellow", KNOWN: "yellow"}


class Conformance:
    """A pytest plugin object that lives only in runs with --impl."""

    def __init__(self, plan: Plan, spec: Spec, *, worker: bool) -> None:
        self.plan_of_run = plan
        self.spec = spec
        self.worker = worker
        self.anchor = spec.milestones[0].file  # pytest must be given some file that is there
        self.records: dict[tuple[str, str], Record] = {}
        self._exits: dict[str, str] = {}
        self._events: IO[str] | None = None

    @classmethod
    def plan(cls, config: pytest.Config) -> Conformance:
        """Decide what runs; bad input is a usage error."""
        option = config.option
        try:
            if option.attest_profile not in PROFILES:
                raise UsageError(
                    f"profile={option.attest_profile!r} is unknown; use one of {', '.join(PROFILES)}"
                )
            if option.attest_report not in ("", "html", "none"):
                raise UsageError(f"report={option.attest_report!r} is unknown; use html or none")
            if option.attest_report == "html" and find_spec("jinja2") is None:
                raise UsageError("report='html' needs jinja2; install attest-transformers[report]")
            found, refused = targets(option.impl, dtype=option.attest_dtype, device=option.attest_device)
            spec = load_spec(added(found))
            criteria, unknown = select(spec, option.milestone, option.criterion)
            refused += unknown
            if not found or not criteria:
                raise UsageError("\nERROR: ".join(refused))
            seed, seconds = _seed(option.attest_seed), _seconds(option.attest_seconds)
            if option.attest_case is not None:
                check_case(option.attest_case, criteria, found)
            reports = check_reports(option.attest_reports, [t.label for t in found])
        except (UsageError, SpecError) as error:
            raise pytest.UsageError(str(error)) from None
        plan = Plan(
            targets=found,
            criteria=tuple(c.id for c in criteria),
            profile=option.attest_profile,
            seed=seed,
            reports=str(reports),
            shared=tempfile.mkdtemp(prefix="attest-"),
            case=option.attest_case,
            asked=bool(option.milestone or option.criterion),
            seconds=seconds,
            refused=tuple(refused),
        )
        conformance = cls(plan, spec, worker=False)
        for sentence in refused:
            print(f"ERROR: {sentence}", file=sys.stderr)
        if option.attest_events:
            conformance._events = os.fdopen(int(option.attest_events), "w", encoding="utf-8")
            titles = {m.id: f"{m.id} {m.title}" for m in spec.milestones}
            conformance.tell(labels=[t.label for t in found], criteria=plan.criteria, titles=titles)
        return conformance

    @classmethod
    def on_worker(cls, config: pytest.Config) -> Conformance:
        """The controller's plan."""
        workerinput: dict[str, Any] = config.workerinput  # type: ignore[attr-defined]
        plan = Plan.from_json(workerinput["attest"])
        return cls(plan, plan.spec, worker=True)

    def tell(self, **event: Any) -> None:
        """Write one line for `attest run`, which follows this process."""
        if self._events is not None:
            self._events.write(json.dumps(event) + "\n")
            self._events.flush()

    @pytest.hookimpl(optionalhook=True)
    def pytest_configure_node(self, node: Any) -> None:
        """Send the plan to a worker."""
        node.workerinput["attest"] = self.plan_of_run.to_json()

    def pytest_collect_file(self, file_path: Path, parent: pytest.Collector) -> pytest.Collector | None:
        """The one file of a conformance run."""
        if file_path != self.anchor:
            return None
        collector = CriteriaFile.from_parent(parent, path=file_path)
        collector.plan, collector.spec = self.plan_of_run, self.spec
        return collector

    @pytest.hookimpl(tryfirst=True)
    def pytest_timeout_set_timer(self, item: pytest.Item, settings: Any) -> bool | None:
        """Our timer in place of pytest-timeout's, which Hypothesis swallows."""
        if not isinstance(item, CriterionItem):
            return None
        timer.set_timer(settings.timeout, item.name)
        return True

    @pytest.hookimpl(tryfirst=True)
    def pytest_timeout_cancel_timer(self, item: pytest.Item) -> bool | None:
        """Stop it."""
        if not isinstance(item, CriterionItem):
            return None
        timer.cancel_timer()
        return True

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Keep each record as it comes; make the record of a worker that died."""
        if self.worker or report.when not in ("call", CRASHED):
            return
        text = dict(report.user_properties).get(PROPERTY)
        record = Record.from_json(str(text)) if text else self._lost(report)
        self.records[record.implementation, record.criterion] = record
        directory = Path(self.plan_of_run.reports) / record.implementation
        directory.mkdir(parents=True, exist_ok=True)
        first = len([1 for i, _ in self.records if i == record.implementation]) == 1
        with (directory / "records.jsonl").open("w" if first else "a", encoding="utf-8") as file:
            file.write(record.to_json() + "\n")
        if self._events is not None:
            self.tell(record=record.to_json(), failure=self._failure_text(record))

    def _lost(self, report: pytest.TestReport) -> Record:
        id, _, label = report.nodeid.rpartition("::")[2].partition("[")
        criterion = self.spec.by_id[id]
        how = self._exits.get(str(getattr(getattr(report, "node", None), "gateway", "")), "ended the process")
        if report.when != CRASHED:
            how = "gave no record"
        return Record(
            label.removesuffix("]"),
            id,
            criterion.milestone,
            criterion.level,
            reason=f"the implementation {how}",
            text_hash=criterion.text_hash,
            spec_version=self.spec.version,
            profile=self.plan_of_run.profile,
        )

    @pytest.hookimpl(optionalhook=True)
    def pytest_testnodedown(self, node: Any, error: object) -> None:
        """Note how a worker ended, as far as xdist lets one know."""
        try:
            code = node.gateway._io.popen.wait(timeout=5)
        except Exception:
            return
        if code == timer.EXIT_CODE:
            how = "did not finish and could not be interrupted"
        else:
            how = (
                f"ended the process by signal {-code}"
                if code < 0
                else f"ended the process with exit code {code}"
            )
        self._exits[str(node.gateway)] = how

    def pytest_report_teststatus(self, report: pytest.TestReport) -> tuple[str, str, Any] | None:
        """Letters and words of our verdicts."""
        if report.when == CRASHED:
            return ERROR, "E", ("ERROR", {"red": True})
        text = dict(report.user_properties).get(PROPERTY)
        if report.when != "call" or text is None:
            return None
        verdict = Record.from_json(str(text)).verdict
        word: Any = verdict.upper()
        if verdict in COLOURS:
            word = (word, {COLOURS[verdict]: True})
        category = {
            PASS: "passed",
            FAIL: "failed",
            ERROR: "failed",
            NOT_OFFERED: "skipped",
            NOT_RUN: "skipped",
        }
        return category.get(verdict, verdict), LETTERS[verdict], word

    @property
    def missing(self) -> list[str]:
        """Pairs of the plan without a record."""
        wanted = [(t.label, c) for t in self.plan_of_run.targets for c in self.plan_of_run.criteria]
        return [f"{c}[{label}]" for label, c in wanted if (label, c) not in self.records]

    def by_implementation(self) -> dict[str, list[Record]]:
        """The records in the order of the plan, with what blocks them."""
        plan = self.plan_of_run
        return {
            t.label: with_blocks(
                self.spec, [self.records[t.label, c] for c in plan.criteria if (t.label, c) in self.records]
            )
            for t in plan.targets
        }

    @pytest.hookimpl(trylast=True)
    def pytest_sessionfinish(self, session: pytest.Session, exitstatus: int) -> None:
        """Write the reports and set the exit code."""
        if self.worker or session.config.option.collectonly:
            return
        shutil.rmtree(self.plan_of_run.shared, ignore_errors=True)
        if exitstatus == pytest.ExitCode.INTERRUPTED:
            session.exitstatus = 3  # pytest's 2 would say that the command is wrong
            return
        from attest.report.writing import write_reports

        if session.config.option.attest_report != "none":
            write_reports(
                self.by_implementation(),
                self.spec,
                Path(self.plan_of_run.reports),
                html="html" in session.config.option.attest_report,
                plan=self.plan_of_run,
            )
        every = [r for records in self.by_implementation().values() for r in records]
        code = exit_code(every, asked=self.plan_of_run.asked, missing=self.missing)
        session.exitstatus = 2 if code < 2 and self.plan_of_run.refused else code

    def pytest_terminal_summary(self, terminalreporter: Any, config: pytest.Config) -> None:
        """Verdicts by milestone and what to do next."""
        if self.worker:
            return
        if config.option.collectonly:
            self.tell(exit=0, summary=[], reports=[])
            return
        from attest.report.terminal import summary_lines

        lines = list(summary_lines(self.by_implementation(), self.spec, self.plan_of_run, self.missing))
        lines += [f"  left out       {sentence}" for sentence in self.plan_of_run.refused]
        terminalreporter.section("conformance", sep="=")
        for line in lines:
            terminalreporter.write_line(line)
        self.tell(exit=int(terminalreporter._session.exitstatus), summary=lines, reports=self._documents())

    def _documents(self) -> list[dict[str, Any]]:
        from attest.report.document import report_document

        found = self.by_implementation()
        return [report_document(label, found[label], self.spec, self.plan_of_run) for label in found]

    def _failure_text(self, record: Record) -> list[str]:
        if record.verdict not in (FAIL, ERROR):
            return []
        from attest.report.document import report_document
        from attest.report.failure_text import failure_lines

        document = report_document(record.implementation, [record], self.spec, self.plan_of_run)
        return [line for m in document["milestones"] for row in m["criteria"] for line in failure_lines(row)]


def _seconds(text: str) -> float | None:
    try:
        seconds = float(text) if text else None
    except ValueError:
        seconds = -1.0
    if seconds is not None and not 0 < seconds < 1e6:
        raise UsageError(f"seconds={printable(text)!r} is no time limit; give a number of seconds above 0")
    return seconds


def _seed(text: str) -> int:
    if text == "random":
        return random.SystemRandom().randrange(2**32)
    if not (text.isascii() and text.isdecimal()):
        raise UsageError(f"seed={text!r} is not a whole number from 0; use a number or random")
    return int(text)
