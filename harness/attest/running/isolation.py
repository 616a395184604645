"""Judge an implementation in a process of its own, which is ended when it hangs and replaced when it dies."""

from __future__ import annotations

import json
import os
import select
import subprocess
import sys
import time
from contextlib import suppress
from typing import Any

from attest.records.plan import Plan, Target
from attest.records.record import Record
from attest.report.schema import first_misfit, record_schema
from attest.running import timer
from attest.running.one_criterion import LONGEST, blank_record, time_limit
from attest.running.printed import Printed
from attest.running.processes import MARK, end_supervised
from attest.sealed.outside import ended_by
from attest.spec import Criterion, Spec

STARTS = 2
START_SECONDS = 120.0  # to import numpy, Hypothesis and the criteria on a machine that has other things to do
LOOK_SECONDS = 0.5  # between two looks at whether the run was stopped
MOST_BYTES = 2**26  # of one answer
UNENDING = "did not finish and could not be interrupted"
ENDING = 30  # seconds in which a process that has closed its pipe ends; with 5, a loaded machine was too slow
# What reading an answer may raise that the implementation wrote: no JSON, lists in lists, other kinds.
FORGED = (ValueError, TypeError, KeyError, AttributeError, RecursionError)


class Ended(Exception):
    """The process gave no answer; the text says what became of it."""


class Isolation:
    """The process that judges the criteria of one implementation; started when it is first asked."""

    def __init__(self, plan: Plan, spec: Spec, target: Target) -> None:
        self.plan, self.spec, self.target = plan, spec, target
        self._process: subprocess.Popen[bytes] | None = None
        self._questions = self._answers = -1
        self._unread = b""
        self._left = self._looked = 0.0

    def judge(self, criterion: Criterion) -> Record:
        """The record of a criterion; an error where the process ends or has to be ended."""
        blank = blank_record(criterion, self.target, self.plan, self.spec)
        if fault := self._start_again():
            return blank.but(reason=f"the process that judges did not start: it {fault}", internal=True)
        try:
            record = self._asked(criterion)
            self._printed.settle()
            return record
        except Ended as error:
            self.close()
            return blank.but(reason=f"the implementation {error}")
        except BaseException:
            self.close()
            raise

    def close(self) -> None:
        """End the process, and what it started."""
        process, self._process = self._process, None
        if process is None:
            return
        for descriptor in (self._questions, self._answers):
            os.close(descriptor)
        end_supervised(process)

    def _start_again(self) -> str:
        """Why it did not start, tried twice: nothing of the implementation is in it yet, and a machine short
        of memory kills what has just begun."""
        fault = ""
        for _ in range(STARTS):
            try:
                self._start()
            except Ended as error:
                self.close()
                fault = str(error)
            else:
                return ""
        return fault

    def _start(self) -> None:
        if self._process is not None:
            return
        theirs_in, self._questions = os.pipe()
        self._answers, theirs_out = os.pipe()
        command = [sys.executable, "-P", "-m", "attest.running.isolated", str(theirs_in), str(theirs_out)]
        self._printed = Printed()
        self._process = subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=self._printed.stdout,
            stderr=self._printed.stderr,
            env={**os.environ, MARK: self.plan.shared},
            pass_fds=[theirs_in, theirs_out],
            start_new_session=True,
        )
        os.close(theirs_in)
        os.close(theirs_out)
        self._printed.begin()
        self._unread = b""
        start = {"path": sys.path, "plan": self.plan.to_json(), "label": self.target.label}
        self._say(json.dumps(start))
        self._wait(START_SECONDS)
        self._heard()

    def _asked(self, criterion: Criterion) -> Record:
        """The last thing it says; a first verdict stands where it dies while more is found out about it."""
        self._say(criterion.id)
        limit, first = time_limit(criterion, self.plan), None
        most = limit * LONGEST
        self._wait(limit + timer.GRACE)
        while True:
            try:
                answer = self._heard()
            except Ended:
                if first is None:
                    raise
                self.close()
                return first
            if "record" in answer:
                record = self._record(answer["record"], criterion)
                if answer.get("last"):
                    self.close()
                return record
            if "verdict" in answer:
                first = self._record(answer["verdict"], criterion)
            if "limit" in answer:
                self._wait(_limit(answer["limit"], most) + timer.GRACE)
                most = 0.0  # it is said once

    def _record(self, text: Any, criterion: Criterion) -> Record:
        try:
            misfit = first_misfit(json.loads(text), record_schema(), "record")
            record = Record.from_json(text)
        except FORGED:
            misfit = "unreadable"
        if misfit:
            raise Ended("wrote into the records") from None
        if (record.implementation, record.criterion) != (self.target.label, criterion.id):
            raise Ended("answered for another criterion")
        return record

    def _say(self, line: str) -> None:
        with suppress(BrokenPipeError):  # it died; reading tells how
            os.write(self._questions, f"{line}\n".encode())

    def _wait(self, seconds: float) -> None:
        """So long for answers from now on, however many come."""
        self._left, self._looked = seconds, time.monotonic()

    def _heard(self) -> dict[str, Any]:
        """The next line it says, read in steps short enough for a signal to this process to be heard.

        A step that took long is one in which this process was stopped, with the other one or alone.
        """
        while True:
            now = time.monotonic()
            self._left -= min(now - self._looked, timer.STOPPED)
            self._looked = now
            if self._left <= -timer.GRACE:  # it has said something all the time
                raise Ended(UNENDING)
            if b"\n" in self._unread:
                break
            if not select.select([self._answers], [], [], LOOK_SECONDS)[0]:
                if self._left <= 0:
                    raise Ended(UNENDING)
                continue
            part = os.read(self._answers, 2**16)
            self._unread += part
            if not part or len(self._unread) > MOST_BYTES:
                raise Ended(self._how() if not part else "wrote more than a record")
        line, _, self._unread = self._unread.partition(b"\n")
        try:
            answer: dict[str, Any] = json.loads(line)
            return {**answer}
        except FORGED:
            raise Ended("wrote into the records") from None

    def _how(self) -> str:
        assert self._process is not None
        try:
            code = self._process.wait(ENDING)
        except subprocess.TimeoutExpired:
            return "closed the pipe of the records"
        return ended_by(code)


def _limit(said: Any, most: float) -> float:
    """A time limit that the other process says, which may be the implementation that says it."""
    if type(said) not in (int, float) or not 0 < said <= most:
        raise Ended("wrote into the records")
    return float(said)
