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
from attest.running import timer
from attest.running.one_criterion import blank_record, time_limit
from attest.running.printed import Printed
from attest.running.processes import MARK, end_supervised
from attest.sealed.outside import ended_by
from attest.spec import Criterion, Spec

START_SECONDS = 120.0  # to import numpy, Hypothesis and the criteria on a machine that has other things to do
LOOK_SECONDS = 0.5  # between two looks at whether the run was stopped
MOST_BYTES = 2**26  # of one answer


class Ended(Exception):
    """The process gave no answer; the text says what became of it."""


class Isolation:
    """The process that judges the criteria of one implementation; started when it is first asked."""

    def __init__(self, plan: Plan, spec: Spec, target: Target) -> None:
        self.plan, self.spec, self.target = plan, spec, target
        self._process: subprocess.Popen[bytes] | None = None
        self._questions = self._answers = -1
        self._unread = b""

    def judge(self, criterion: Criterion) -> Record:
        """The record of a criterion; an error where the process ends or has to be ended."""
        blank = blank_record(criterion, self.target, self.plan, self.spec)
        try:
            self._start()
        except Ended as error:
            self.close()
            return blank.but(reason=f"the process that judges did not start: it {error}", internal=True)
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
        self._heard(START_SECONDS)

    def _asked(self, criterion: Criterion) -> Record:
        """The last thing it says; a first verdict stands where it dies while more is found out about it."""
        self._say(criterion.id)
        limit, first = time_limit(criterion, self.plan), None
        while True:
            try:
                answer = self._heard(limit + timer.GRACE)
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
            limit = float(answer.get("limit", limit))

    def _record(self, text: Any, criterion: Criterion) -> Record:
        try:
            record = Record.from_json(str(text))
        except (ValueError, TypeError, KeyError):
            raise Ended("wrote into the records") from None
        if (record.implementation, record.criterion) != (self.target.label, criterion.id):
            raise Ended("answered for another criterion")
        return record

    def _say(self, line: str) -> None:
        with suppress(BrokenPipeError):  # it died; reading tells how
            os.write(self._questions, f"{line}\n".encode())

    def _heard(self, seconds: float) -> dict[str, Any]:
        """The next line it says, read in steps short enough for a signal to this process to be heard.

        A step that took long is one in which this process was stopped, with the other one or alone.
        """
        while b"\n" not in self._unread:
            started = time.monotonic()
            if not select.select([self._answers], [], [], LOOK_SECONDS)[0]:
                seconds -= min(time.monotonic() - started, timer.STOPPED)
                if seconds <= 0:
                    raise Ended("did not finish and could not be interrupted")
                continue
            part = os.read(self._answers, 2**16)
            self._unread += part
            if not part or len(self._unread) > MOST_BYTES:
                raise Ended(self._how() if not part else "wrote more than a record")
        line, _, self._unread = self._unread.partition(b"\n")
        try:
            answer: dict[str, Any] = json.loads(line)
            return {**answer}
        except (ValueError, TypeError):
            raise Ended("wrote into the records") from None

    def _how(self) -> str:
        assert self._process is not None
        try:
            code = self._process.wait(5)
        except subprocess.TimeoutExpired:
            return "closed the pipe of the records"
        return ended_by(code)
