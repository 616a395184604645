"""The process in which one implementation is judged, criterion by criterion, as isolation.py asks.

Two pipes of their own carry questions and answers: standard output and error are the implementation's, which
may fill or close them. Whatever it does to the directory, to numpy or to signals, it does to itself.
"""

from __future__ import annotations

import json
import logging
import os
import signal
import sys
from contextlib import suppress
from typing import IO, Any

from attest.running.processes import supervise
from attest.sealed.guard import end_with_parent


def main(questions: int, answers: int) -> None:
    """Answer every question with a record, until there are no more."""
    supervise()
    end_with_parent()
    logging.getLogger().addHandler(logging.NullHandler())  # torch.compile alone logs thousands of lines
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the process that asks decides when a run is over
    with os.fdopen(questions, encoding="utf-8") as asked, os.fdopen(answers, "w", encoding="utf-8") as told:
        start = json.loads(asked.readline())
        sys.path[:] = start["path"]
        _answer_all(start, asked, told)
        os._exit(0)  # a thread or an exit handler of the implementation shall not hold the process


def _answer_all(start: dict[str, Any], asked: IO[str], told: IO[str]) -> None:
    from attest.judging.property import load_properties
    from attest.records.plan import Plan
    from attest.running.one_criterion import judge_criterion
    from attest.running.timer import struck

    def tell(**answer: Any) -> None:
        told.write(json.dumps(answer) + "\n")
        told.flush()

    plan = Plan.from_json(start["plan"])
    spec = plan.spec
    target = next(t for t in plan.targets if t.label == start["label"])
    with suppress(Exception):  # what cannot be loaded is said where it is judged
        load_properties()  # before the clock of the first criterion starts
    tell(ready=True)
    for line in asked:
        record = judge_criterion(spec.by_id[line.strip()], target, plan, spec, tell=tell)
        late = bool(struck())
        tell(record=record.to_json(), last=late)
        if late:  # whatever the clock interrupted, such as an import, may be half done
            return


if __name__ == "__main__":
    main(int(sys.argv[1]), int(sys.argv[2]))
