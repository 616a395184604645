"""An implementation is judged in a process of its own: what it does there, it does to itself."""

import json
import os
import signal
import subprocess
import sys
import time

import pytest

from attest.records.plan import Plan, Target
from attest.registry import parse_request, sentence
from attest.running import isolation, timer
from attest.running.isolation import Isolation
from attest.running.one_criterion import blank_record, judge_criterion
from attest.running.printed import MOST_PRINTED
from attest.running.selection import ask
from attest.spec import load_spec

CAUSAL = "M1.5a"
SPEC = load_spec()
BODY = """
import os, sys, threading, time
import numpy as np

class Mute(Exception):
    def __str__(self):
        raise RuntimeError

class Mine:
    name = "mine"
    def causal_mask(self, T, S):
        {body}
        return np.tri(T, S, S - T, dtype=bool)

def attest_implementations():
    return [Mine()]
"""


@pytest.fixture
def judged(tmp_path):
    """Judge an implementation with this body; the record, and the Isolation that is still open."""
    opened = []

    def judge(body: str, *, seconds: float = 20.0, criterion: str = CAUSAL):
        path = tmp_path / "mine.py"
        path.write_text(BODY.format(body=body))
        target = Target("mine", "mine.py", "mine", path=str(path))
        plan = Plan((target,), (criterion,), profile="quick", reports="", seconds=seconds)
        process = Isolation(plan, SPEC, target)
        opened.append(process)
        return process.judge(SPEC.by_id[criterion]), process

    yield judge
    for process in opened:
        process.close()


def test_a_loop_in_c_that_keeps_the_interpreter_is_ended(judged, monkeypatch):
    monkeypatch.setattr(timer, "GRACE", 1.0)
    record, _ = judged("import itertools; sum(itertools.repeat(1))", seconds=1.0)
    assert record.verdict == "error"
    assert record.reason == "the implementation did not finish and could not be interrupted"


def test_a_process_without_the_one_that_asks_ends_itself(tmp_path):
    """The clock in C, where no kernel does it: a loop in C holds the interpreter's lock."""
    code = (
        "import itertools, sys\nsys.platform = 'darwin'\nfrom attest.running import timer\ntimer.LAST = 0.1\n"
        "timer.set_timer(0.1)\nsum(itertools.repeat(1))"
    )
    run = subprocess.run([sys.executable, "-c", code], check=False, timeout=50, capture_output=True)
    assert run.returncode == 1
    assert run.stderr == b""


@pytest.mark.parametrize(
    ("body", "reason"),
    [
        ("os._exit(0)", "the implementation ended the process with exit code 0"),
        ("os.kill(os.getpid(), 9)", "the implementation ended the process by signal 9"),
        ("os.closerange(3, 256)", "the implementation ended the process with exit code 1"),
        ("raise KeyboardInterrupt", "the implementation raised KeyboardInterrupt"),
        ("raise GeneratorExit", "the implementation raised GeneratorExit"),
        ("raise type('Odd', (BaseException,), {})('a\\x1bb')", r"the implementation raised Odd: a\x1bb"),
        ("sys.exit(object())", "the implementation called exit(object)"),
    ],
)
def test_what_ends_a_process_costs_one_criterion(judged, body, reason):
    record, process = judged(body)
    assert (record.verdict, record.reason, record.internal) == ("error", reason, False)
    assert process.judge(SPEC.by_id["M1.4b"]).verdict == "not offered"  # a new process goes on


# A strike within a finaliser or a callback of the collector is swallowed; the next comes five seconds later.
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
def test_the_clock_may_strike_anywhere(tmp_path):
    """It runs in the process that judges alone, and whatever it interrupts there, a record comes out."""
    (tmp_path / "mine.py").write_text(BODY.format(body="pass"))
    target = Target("mine", "mine.py", "mine", path=str(tmp_path / "mine.py"))
    found = set()
    limits = [60.0, *(0.001 * 1.25**step for step in range(34))]  # the first time everything is imported
    for seconds in limits:
        plan = Plan((target,), (CAUSAL,), profile="quick", reports="", seconds=seconds)
        record = judge_criterion(SPEC.by_id[CAUSAL], target, plan, SPEC)
        assert record.verdict == "pass" or record.reason == f"did not finish within {seconds:g} s", record
        found.add(record.verdict)
        assert signal.getitimer(signal.ITIMER_REAL) == (0.0, 0.0)
    assert "error" in found


def test_a_verdict_stands_when_it_dies_while_more_is_found_out(judged):
    """It fails, and ends the process when diagnosis asks it again."""
    asked_again = "'attest.diagnosis.likeness' in sys.modules"
    record, process = judged(f"return os._exit(7) if {asked_again} else np.ones((T, S), bool)")
    assert (record.verdict, record.criterion) == ("fail", CAUSAL)
    assert record.failure.replay.criterion == CAUSAL
    assert "ended the process" in record.failure.reproduction.reason
    assert process.judge(SPEC.by_id["M1.4b"]).verdict == "not offered"


def test_surrogates_and_escapes_are_made_visible(judged):
    record, _ = judged("raise ValueError('\\udcff \\x1b[2J ' + 'x' * 10**6)")
    assert record.verdict == "fail"
    assert r"\udcff \x1b[2J xxx" in record.failure.seen
    assert len(record.failure.seen) < 400


def test_an_exception_that_cannot_say_what_it_is(judged):
    class Mute(Exception):
        def __str__(self):
            raise RuntimeError

    assert sentence(Mute()) == "Mute: its text cannot be read"
    record, _ = judged("raise Mute")
    assert (record.verdict, record.internal) == ("fail", False)
    assert "raised Mute: its text cannot be read" in record.failure.seen


def test_a_thread_and_a_child_do_not_live_on(judged, tmp_path):
    body = (
        "threading.Thread(target=time.sleep, args=(600,)).start(); "
        f"open({str(tmp_path / 'pid')!r}, 'w').write(str(os.fork() or (time.sleep(600) and 0)))"
    )
    record, process = judged(body, seconds=5.0)
    started = time.monotonic()
    process.close()
    assert time.monotonic() - started < 5
    assert record.criterion == CAUSAL
    child = int((tmp_path / "pid").read_text())
    deadline = time.monotonic() + 5
    while time.monotonic() < deadline and _runs(child):
        time.sleep(0.05)
    assert not _runs(child)


def _runs(pid: int) -> bool:
    try:
        with open(f"/proc/{pid}/stat") as file:
            return file.read().split()[2] != "Z"
    except OSError:
        try:
            os.kill(pid, 0)
        except ProcessLookupError:
            return False
        return not os.path.isdir("/proc")


def test_the_process_ends_with_the_one_that_started_it(judged, tmp_path):
    script = tmp_path / "asks.py"
    script.write_text(
        "import sys, time\n"
        "from attest.running.isolation import Isolation\n"
        "from attest.records.plan import Plan, Target\n"
        "from attest.spec import load_spec\n"
        f"target = Target('mine', 'mine.py', 'mine', path={str(tmp_path / 'mine.py')!r})\n"
        "plan = Plan((target,), ('M1.5a',), profile='quick', reports='')\n"
        "process = Isolation(plan, load_spec(), target)\n"
        "process._start()\nprint(process._process.pid, flush=True)\ntime.sleep(600)\n"
    )
    (tmp_path / "mine.py").write_text(BODY.format(body="pass"))
    asks = subprocess.Popen([sys.executable, str(script)], stdout=subprocess.PIPE, text=True)
    child = int(asks.stdout.readline())
    asks.send_signal(signal.SIGKILL)
    asks.communicate()
    deadline = time.monotonic() + 10
    while time.monotonic() < deadline and _runs(child):
        time.sleep(0.05)
    assert not _runs(child)


def test_a_process_that_does_not_start_is_a_fault_of_ours(judged, monkeypatch):
    monkeypatch.setattr(isolation.sys, "executable", "/bin/false")
    record, _ = judged("pass")
    assert record.internal
    assert record.reason == "the process that judges did not start: it ended the process with exit code 1"


def test_a_process_that_is_killed_as_it_starts_is_started_again(judged, monkeypatch):
    """Nothing of the implementation is in it yet: a machine short of memory kills what has just begun."""
    started, wait = [], Isolation._wait

    def killed_once(process, seconds):
        if not started:
            process._process.kill()
        started.append(seconds)
        wait(process, seconds)

    monkeypatch.setattr(Isolation, "_wait", killed_once)
    record, _ = judged("pass")
    assert (record.verdict, started.count(isolation.START_SECONDS)) == ("pass", 2)


def test_forged_answers_are_not_believed(judged):
    write = "[os.write(fd, b'{}\\n[1\\n') for fd in range(3, 40) if os.path.exists(f'/proc/self/fd/{fd}')]"
    record, _ = judged(f"import contextlib\n        with contextlib.suppress(OSError): {write}")
    assert record.verdict in ("error", "pass")
    assert not record.internal


INTO_ALL_PIPES = """
        def into_all(line):
            for fd in range(3, 40):
                if os.path.exists(f'/proc/self/fd/{{fd}}') and fd not in (0, 1, 2):
                    try: os.write(fd, line + b'\\n')
                    except OSError: pass
        {then}
"""


@pytest.mark.parametrize(
    "line",
    [
        "b'[' * 2**15",
        "b'{\"record\": 5}'",
        'b\'{"record": "[[["}\'',
        'b\'{"limit": "long"}\'',
        "b'{\"limit\": 1e300}'",
        "b'{\"limit\": NaN}'",
    ],
)
def test_what_is_no_answer_costs_the_one_who_writes_it(judged, line):
    record, _ = judged(INTO_ALL_PIPES.format(then=f"into_all({line})"))
    assert (record.verdict, record.internal) == ("error", False)
    assert record.reason == "the implementation wrote into the records"


def test_a_record_of_no_kind_is_not_kept(judged):
    """The report would be made of it, and of those of other implementations."""
    forged = blank_record(SPEC.by_id[CAUSAL], Target("mine", "mine.py", "mine"), Plan((), ()), SPEC)
    text = json.dumps({**json.loads(forged.to_json()), "verdict": "wonderful", "regimes": [5]})
    line = json.dumps({"record": text}).encode()
    record, _ = judged(INTO_ALL_PIPES.format(then=f"into_all({line!r})"))
    assert record.reason == "the implementation wrote into the records"


def test_answers_without_end_do_not_prolong_a_criterion(judged, monkeypatch):
    monkeypatch.setattr(timer, "GRACE", 1.0)
    endless = "signal.pthread_sigmask(signal.SIG_BLOCK, range(1, 65))\n        while True: into_all(b'{}')"
    record, _ = judged(INTO_ALL_PIPES.format(then=f"import signal; {endless}"), seconds=1.0)
    assert record.verdict == "error"
    assert "did not finish" in record.reason


linux = pytest.mark.skipif(sys.platform != "linux", reason="Linux alone hands orphans to an ancestor")
ORPHAN = (
    "import subprocess; found = subprocess.Popen(['sleep', '600'], env={{}}, start_new_session=True); "
    "open({path!r}, 'w').write(str(found.pid)); {then}"
)


@linux
@pytest.mark.parametrize("then", ["pass", "os._exit(3)", "os.kill(os.getpid(), 11)", "time.sleep(600)"])
def test_a_child_with_a_session_and_an_environment_of_its_own_ends_too(judged, tmp_path, then):
    record, process = judged(ORPHAN.format(path=str(tmp_path / "pid"), then=then), seconds=5.0)
    process.close()
    assert record.criterion == CAUSAL
    assert not _runs(int((tmp_path / "pid").read_text()))


@linux
def test_a_child_of_an_import_ends_with_the_question_what_a_plugin_holds(tmp_path):
    path = tmp_path / "mine.py"
    path.write_text(f"import os, time; {ORPHAN.format(path=str(tmp_path / 'pid'), then='os._exit(3)')}")
    assert ask(parse_request(str(path))).broken.endswith("importing it ended the process (exit code 3)")
    assert not _runs(int((tmp_path / "pid").read_text()))


@linux
def test_time_in_which_a_process_was_stopped_does_not_count(judged, tmp_path):
    """A batch system stops all processes of a job for as long as it likes."""
    (tmp_path / "wakes.py").write_text(
        "import os, signal, sys, time\nnumber = int(sys.argv[1])\n"
        "os.kill(number, signal.SIGSTOP); time.sleep(6); os.kill(number, signal.SIGCONT)"
    )
    wakes, once = repr(str(tmp_path / "wakes.py")), repr(str(tmp_path / "once"))
    body = (
        f"import subprocess; os.path.exists({once}) or open({once}, 'w').close() or "
        f"subprocess.Popen([sys.executable, {wakes}, str(os.getpid())]).wait()"
    )
    record, process = judged(body, seconds=4.0)
    process.close()
    assert record.verdict == "pass", record.reason


def test_an_answer_that_is_there_is_read_however_late_it_is(judged):
    """This process may have been stopped by Ctrl-Z, while the other one, in its own session, went on."""
    record, process = judged("pass")
    assert record.verdict == "pass"
    process._say("M1.4b")
    time.sleep(3)
    process._wait(0.0)
    answers = [process._heard(), process._heard()]
    assert json.loads(answers[-1]["record"])["verdict"] == "not offered"


@pytest.mark.parametrize("stream", [1, 2])
def test_what_is_printed_without_end_is_shown_up_to_a_limit(judged, capfd, stream):
    """It would go to a terminal, or into a file until the disk is full."""
    judged(f"os.write({stream}, b'first'); [os.write({stream}, b'x' * 2**20) for _ in range(20)]")
    printed = capfd.readouterr()[stream - 1]
    assert printed.startswith("first")
    assert len(printed) <= MOST_PRINTED
