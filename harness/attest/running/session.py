"""One conformance run inside pytest: the plan, the records as they come, reports and exit code."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import IO, Any

import pytest

from attest.machine import visible_gpus
from attest.records.plan import Plan
from attest.records.record import ERROR, FAIL, KNOWN, NOT_CLAIMED, NOT_OFFERED, NOT_RUN, PASS, THIN, Record
from attest.records.verdicts import exit_code, with_blocks
from attest.registry import UsageError, sentence
from attest.report.rows import Document
from attest.running.items import PROPERTY, CriteriaFile, CriterionItem, end_judging
from attest.running.kept_records import KeptRecords
from attest.running.one_criterion import blank_record
from attest.running.planning import planned
from attest.running.processes import end_marked
from attest.running.sealing import fingerprint
from attest.running.stopping import keep_awake, stop_on_signals, stop_without_reader
from attest.sealed.outside import ended_by
from attest.spec import Spec, SpecError

LETTERS = {PASS: ".", FAIL: "F", ERROR: "E", THIN: "t", KNOWN: "k", NOT_OFFERED: "-", NOT_RUN: "n"}
LETTERS |= {NOT_CLAIMED: "c"}
CRASHED: Any = "???"  # what xdist calls the phase in which a worker died
COLOURS = {PASS: "green", FAIL: "red", ERROR: "red", THIN: "yellow", KNOWN: "yellow"}
CATEGORIES = {PASS: "passed", FAIL: "failed", ERROR: "failed", NOT_OFFERED: "skipped", NOT_RUN: "skipped"}
CATEGORIES |= {NOT_CLAIMED: "skipped"}
WHOLE = (pytest.ExitCode.OK, pytest.ExitCode.TESTS_FAILED, pytest.ExitCode.NO_TESTS_COLLECTED)
MOST_DEATHS = 8  # workers that die one after the other without a record in between; then the run is hopeless


class Conformance:
    """A pytest plugin object that lives only in runs with --impl."""

    def __init__(self, plan: Plan, spec: Spec, *, worker: bool) -> None:
        self.plan_of_run = plan
        self.spec = spec
        self.worker = worker
        self.anchor = spec.milestones[0].file  # pytest must be given some file that is there
        self.records: dict[tuple[str, str], Record] = {}
        self.troubles: list[str] = []  # what went wrong with the run itself: each makes it exit code 3
        self._kept: dict[str, KeptRecords] = {}
        self._exits: dict[str, str] = {}
        self._deaths = 0
        self._workers: list[Any] = []
        self._gpus: dict[int, str] = {}  # of the workers that live, by their node
        self._events: IO[str] | None = None
        self._fingerprint = "" if worker else self._fingerprint_now()

    @classmethod
    def plan(cls, config: pytest.Config) -> Conformance:
        """Decide what runs; bad input is a usage error."""
        option = config.option
        try:
            plan, spec = planned(option)
            conformance = cls(plan, spec, worker=False)
            config.add_cleanup(
                stop_on_signals()
            )  # put back last: a second signal shall not hinder letting go
            config.add_cleanup(conformance.let_go)
            if plan.reports and not option.collectonly:
                conformance._hold(resume=option.attest_resume)
        except (UsageError, SpecError) as error:
            raise pytest.UsageError(str(error)) from None
        for refusal in plan.refused:
            print(f"ERROR: {refusal}", file=sys.stderr)
        conformance._begin_events(option.attest_events)
        return conformance

    @classmethod
    def on_worker(cls, config: pytest.Config) -> Conformance:
        """The controller's plan. Only the controller listens to Ctrl-C, and ends its workers."""
        workerinput: dict[str, Any] = config.workerinput  # type: ignore[attr-defined]
        plan = Plan.from_json(workerinput["attest"])
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        if gpu := workerinput.get("attest_gpu"):
            os.environ["CUDA_VISIBLE_DEVICES"] = gpu  # before anything of this worker looks for a device
        return cls(plan, plan.spec, worker=True)

    def _hold(self, *, resume: bool) -> None:
        """Take the directories of the reports for this run, with what an earlier one has judged."""
        plan = self.plan_of_run
        earlier: dict[str, list[Record]] = {}
        for target in plan.targets:
            kept = KeptRecords(target, plan, self.spec)
            kept.hold()
            self._kept[target.label] = kept
            earlier[target.label] = kept.earlier(plan.chosen(target.label), self.spec) if resume else []
        for label, records in earlier.items():
            self._kept[label].begin(records)
            self.records |= {(label, record.criterion): record for record in records}
        self.plan_of_run = replace(plan, done=tuple(self.records))

    def let_go(self) -> None:
        """End what the run has started; remove the locks and the temporary directory, however it ended."""
        if not self.worker:
            end_marked(self.plan_of_run.shared)
        for kept in self._kept.values():
            kept.release()
        shutil.rmtree(self.plan_of_run.shared, ignore_errors=True)

    def _begin_events(self, descriptor: str) -> None:
        if not descriptor:
            return
        self._events = os.fdopen(int(descriptor), "w", encoding="utf-8")
        stop_without_reader(int(descriptor))
        plan = self.plan_of_run
        titles = {m.id: f"{m.id} {m.title}" for m in self.spec.milestones}
        self.tell(labels=[t.label for t in plan.targets], criteria=plan.criteria, titles=titles)
        for record in self.records.values():
            self.tell(record=record.to_json(), failure=[])

    def tell(self, **event: Any) -> None:
        """Write one line for `attest run`, which follows this process."""
        if self._events is not None:
            try:
                self._events.write(json.dumps(event) + "\n")
                self._events.flush()
            except OSError:  # it is gone, and stop_without_reader ends this run
                self._events = None

    @pytest.hookimpl(optionalhook=True)
    def pytest_configure_node(self, node: Any) -> None:
        """Send the plan to a worker."""
        node.workerinput["attest"] = self.plan_of_run.to_json()
        if any(target.device == "cuda" for target in self.plan_of_run.targets):
            node.workerinput["attest_gpu"] = self._gpus[id(node)] = self._free_gpu()
        if not self._workers:
            keep_awake(self._worker_processes)
        self._workers.append(node)

    def _free_gpu(self) -> str:
        """The one with the fewest workers: what replaces a worker that died takes its place."""
        taken = list(self._gpus.values())
        return min(visible_gpus(), key=taken.count, default="")

    def _worker_processes(self) -> Iterator[subprocess.Popen[bytes]]:
        for node in self._workers:
            with suppress(AttributeError):  # xdist starts it later, or on another machine
                yield node.gateway._io.popen

    def pytest_collect_file(self, file_path: Path, parent: pytest.Collector) -> pytest.Collector | None:
        """The one file of a conformance run."""
        if file_path != self.anchor:
            return None
        collector = CriteriaFile.from_parent(parent, path=file_path)
        collector.plan, collector.spec = self.plan_of_run, self.spec
        return collector

    @pytest.hookimpl(tryfirst=True, optionalhook=True)
    def pytest_timeout_set_timer(self, item: pytest.Item, settings: Any) -> bool | None:
        """A time limit that a project has for its tests is none for criteria: they have their own."""
        return True if isinstance(item, CriterionItem) else None

    @pytest.hookimpl(tryfirst=True, optionalhook=True)
    def pytest_timeout_cancel_timer(self, item: pytest.Item) -> bool | None:
        """There is no timer of pytest-timeout to cancel, since none was set."""
        return True if isinstance(item, CriterionItem) else None

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Keep each record as it comes; make the record of a worker that died."""
        if self.worker or report.when not in ("call", CRASHED):
            return
        text = dict(report.user_properties).get(PROPERTY)
        record = Record.from_json(str(text)) if text else self._lost(report)
        try:
            if record.implementation in self._kept:
                self._kept[record.implementation].keep(record)
        except OSError as error:
            self._trouble(f"the records of {record.implementation} cannot be kept ({sentence(error)})")
        self.records[record.implementation, record.criterion] = record
        self._deaths = 0 if report.when == "call" else self._deaths
        if self._events is not None:
            self.tell(record=record.to_json(), failure=self._failure_text(record))

    def _fingerprint_now(self) -> str:
        return fingerprint() if any(t.sealed for t in self.plan_of_run.targets) else ""

    def _trouble(self, text: str) -> None:
        if text not in self.troubles:
            self.troubles.append(text)

    def _lost(self, report: pytest.TestReport) -> Record:
        id, _, label = report.nodeid.rpartition("::")[2].partition("[")
        target = next(t for t in self.plan_of_run.targets if t.label == label.removesuffix("]"))
        blank = blank_record(self.spec.by_id[id], target, self.plan_of_run, self.spec)
        how = self._exits.get(str(getattr(getattr(report, "node", None), "gateway", "")), "ended the process")
        return blank.but(reason=f"the implementation {how if report.when == CRASHED else 'gave no record'}")

    @pytest.hookimpl(optionalhook=True)
    def pytest_testnodedown(self, node: Any, error: object) -> None:
        """Note how a worker ended, as far as xdist lets one know; give up where each new one dies too."""
        self._gpus.pop(id(node), None)
        with suppress(Exception):
            self._exits[str(node.gateway)] = ended_by(node.gateway._io.popen.wait(timeout=5))
        if error is None:
            return
        self._deaths += 1
        if self._deaths >= MOST_DEATHS:
            how = self._exits.get(str(node.gateway), "ended")
            self._trouble(f"{self._deaths} worker processes died without judging anything; the last {how}")
            pytest.exit(self.troubles[-1], returncode=3)

    def pytest_internalerror(self, excrepr: object) -> None:
        """pytest goes on to set an exit code of its own; ours then says that the harness failed."""
        self._trouble("pytest met an internal error")

    def pytest_keyboard_interrupt(self, excinfo: object) -> None:
        """End the workers at once: xdist would wait for the criteria they are in."""
        end_judging()
        for process in self._worker_processes():
            with suppress(OSError):
                process.terminate()

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
        return CATEGORIES.get(verdict, verdict), LETTERS[verdict], word

    @property
    def missing(self) -> list[str]:
        """Pairs of the plan without a record."""
        plan = self.plan_of_run
        wanted = [(t.label, c) for t in plan.targets for c in plan.chosen(t.label)]
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
        """Write the reports, of a run that was stopped too, and set the exit code."""
        end_judging()
        if self.worker or session.config.option.collectonly:
            return
        self._discard_changed()
        if self.plan_of_run.reports:
            self._write(html="html" in session.config.option.attest_report)
        every = [r for records in self.by_implementation().values() for r in records]
        code = exit_code(every, asked=self.plan_of_run.asked, missing=self.missing)
        if self._fingerprint != self._fingerprint_now():
            self._trouble("files of the harness changed while an implementation was under seal")
        if exitstatus not in WHOLE or self.troubles:
            code = 3
        session.exitstatus = 2 if code < 2 and self.plan_of_run.refused else code

    def _discard_changed(self) -> None:
        """Verdicts of two different implementations, if its file was edited meanwhile, are none of either."""
        for label in [label for label, kept in self._kept.items() if kept.is_of_another]:
            said = {"reason": "its code changed while it was judged; run again", "failure": None}
            for key in [key for key in self.records if key[0] == label]:
                self.records[key] = self.records[key].but(verdict=ERROR, **said)

    def _write(self, *, html: bool) -> None:
        from attest.report.writing import ReportsNotWritten, write_reports

        home = Path(self.plan_of_run.reports)
        try:
            write_reports(self.by_implementation(), self.spec, home, html=html, plan=self.plan_of_run)
        except ReportsNotWritten as error:
            for text in error.sentences:
                self._trouble(text)

    def pytest_terminal_summary(self, terminalreporter: Any, config: pytest.Config) -> None:
        """Verdicts by milestone and what to do next."""
        if self.worker:
            return
        if config.option.collectonly:
            self.tell(exit=0, summary=[], reports=[])
            return
        lines = self._summary()
        terminalreporter.section("conformance", sep="=")
        for line in lines:
            terminalreporter.write_line(line)
        self.tell(exit=int(terminalreporter._session.exitstatus), summary=lines, reports=self._documents())

    def _summary(self) -> list[str]:
        from attest.report.terminal import summary_lines

        try:
            lines = list(summary_lines(self.by_implementation(), self.spec, self.plan_of_run, self.missing))
        except Exception as error:
            self._trouble(f"the summary cannot be made ({sentence(error)})")
            lines = []
        lines += [f"  left out       {refusal}" for refusal in self.plan_of_run.refused]
        return lines + [f"  ERROR          {trouble}" for trouble in self.troubles]

    def _documents(self) -> list[Document]:
        from attest.report.document import report_document

        found = self.by_implementation()
        with suppress(Exception):  # said when the report was written
            return [report_document(label, found[label], self.spec, self.plan_of_run) for label in found]
        return []

    def _failure_text(self, record: Record) -> list[str]:
        if record.verdict not in (FAIL, ERROR):
            return []
        from attest.report.document import report_document
        from attest.report.failure_text import failure_lines

        document = report_document(record.implementation, [record], self.spec, self.plan_of_run)
        return [line for m in document["milestones"] for row in m["criteria"] for line in failure_lines(row)]
