"""What happens to a machine or a person: no room, no right to write, a pause, a clock that jumps.

Each has a run of a good and of a wrong implementation. It is clean when the exit code is one that the mishap
allows, no traceback is shown, nothing says more than is known, and no process is left.
"""

from __future__ import annotations

import json
import os
import resource
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from torture.ledger import Ledger
from torture.plugins import plugin
from torture.processes import all_of, processes_in, waited

ATTEST = Path(sys.executable).with_name("attest")
CRITERIA = ("M1.5a", "M1.4b")
MOST_SECONDS = 600
TABLE = "mishaps"
JUDGED, REFUSED, FAULT = (
    1,
    2,
    3,
)  # exit codes: one of the two is wrong; the command; a fault of the surroundings
WRONG = plugin("wrong", body="return np.ones((T, S), dtype=bool)")
JUMPS = """
import time
real, count = time.time, [0]
def jumping():
    count[0] += 1
    return real() + (-1) ** count[0] * 10**8
time.time = jumping
"""
ALONE = ["unshare", "--mount", "sh", "-c"]  # what is mounted there is seen by the run alone


def _full(directory: str) -> str:
    return f"mount -t tmpfs -o size=8k none {directory}; head -c 8k /dev/zero > {directory}/x;"


@dataclass(frozen=True)
class Mishap:
    """How a run differs from any other, and what its exit code may be."""

    codes: tuple[int, ...]
    words: Sequence[str] = ()
    environment: Mapping[str, str | None] = field(default_factory=dict)
    before: str = ""  # of a shell, in front of the run
    limits: Mapping[int, int] = field(default_factory=dict)
    meanwhile: Callable[[subprocess.Popen[str], Path], None] | None = None
    stdout: str = ""  # a file in place of the pipe
    good: str = "pass"  # the verdict of the good implementation
    shell: str = ""  # around the command, which is "$@"


def _judging(here: Path) -> None:
    """Wait until something has been judged."""
    records = here / "out" / "good" / "records.jsonl"
    waited(lambda: records.exists() and records.read_text().count("\n") > 0, 200)


def _pause(which: Callable[[int], Sequence[int]]) -> Callable[[subprocess.Popen[str], Path], None]:
    """Stop these processes for longer than a criterion may take, and let them go on."""

    def act(run: subprocess.Popen[str], here: Path) -> None:
        _judging(here)
        found = which(run.pid)
        for number, seconds in ((signal.SIGSTOP, 40), (signal.SIGCONT, 0)):
            for process in found:
                try:
                    os.kill(process, number)
                except ProcessLookupError:
                    continue
            time.sleep(seconds)

    return act


def _group_of(front: int) -> list[int]:
    """Those that Ctrl-Z in a terminal reaches."""
    return [process for process in all_of(front) if os.getpgid(process) == os.getpgid(front)]


def _removed(run: subprocess.Popen[str], here: Path) -> None:
    _judging(here)
    shutil.rmtree(here / "out")


def _moved(run: subprocess.Popen[str], here: Path) -> None:
    _judging(here)
    (here / "out").rename(here / "moved")
    (here / "out").symlink_to("nowhere")


def _edited(run: subprocess.Popen[str], here: Path) -> None:
    _judging(here)
    (here / "good.py").write_text("def (\n")


def _second_run(run: subprocess.Popen[str], here: Path) -> None:
    """Into the same directory: it is refused, and the first one is not disturbed."""
    _judging(here)
    second = subprocess.run(_command(), cwd=here, capture_output=True, text=True, check=False)
    (here / "second").write_text(f"{second.returncode} {second.stderr}")


MISHAPS: dict[str, Mishap] = {
    "nothing": Mishap((JUDGED,)),
    "two runs in one directory": Mishap((JUDGED,), meanwhile=_second_run),
    "all processes stopped for 40 s": Mishap((JUDGED,), meanwhile=_pause(all_of)),
    "Ctrl-Z for 40 s": Mishap((JUDGED,), meanwhile=_pause(_group_of)),
    "the front stopped for 40 s": Mishap((JUDGED,), meanwhile=_pause(lambda front: [front])),
    "the reports removed meanwhile": Mishap((JUDGED, FAULT), meanwhile=_removed),
    "a broken link in place of the reports": Mishap((JUDGED, FAULT), meanwhile=_moved),
    "the plugin edited meanwhile": Mishap((JUDGED,), meanwhile=_edited, good="error"),
    "reports on a full disk": Mishap(
        (REFUSED, FAULT),
        before=f"mkdir out; {_full('out')}",
    ),
    "reports on a small disk": Mishap((FAULT,), before="mkdir out; mount -t tmpfs -o size=24k none out;"),
    "reports on a disk that cannot be written": Mishap(
        (REFUSED,), before="mkdir out; mount -t tmpfs -o ro none out;"
    ),
    "no room for temporary files": Mishap(
        (JUDGED, REFUSED, FAULT),
        environment={"TMPDIR": "tmp"},
        before=f"mkdir tmp; {_full('tmp')} TMPDIR=$PWD/tmp;",
    ),
    "no directory for temporary files": Mishap((JUDGED,), environment={"TMPDIR": "/no/such/place"}),
    "files of at most 2 kB": Mishap((FAULT,), limits={resource.RLIMIT_FSIZE: 2048}),
    "40 open files": Mishap((JUDGED, FAULT), limits={resource.RLIMIT_NOFILE: 40}),
    "1 GB of memory": Mishap((REFUSED,), limits={resource.RLIMIT_AS: 2**30}),
    "another user without a home": Mishap(
        (JUDGED, REFUSED),
        environment={"HOME": None},
        shell="chmod 777 .; exec setpriv --reuid 54321 --clear-groups ",
    ),
    "reports of another user": Mishap(
        (REFUSED,), shell="mkdir -m 755 out; exec setpriv --reuid 54321 --clear-groups "
    ),
    "standard output closed": Mishap((JUDGED, FAULT), shell="exec >&-; exec "),
    "standard error closed": Mishap((JUDGED,), shell="exec 2>&-; exec "),
    "standard input closed": Mishap((JUDGED,), shell="exec <&-; exec "),
    "output on a full disk": Mishap((JUDGED, FAULT), stdout="/dev/full"),
    "a clock that jumps by years": Mishap((JUDGED,), environment={"PYTHONPATH": "site"}),
    "asserts switched off": Mishap((JUDGED,), environment={"PYTHONOPTIMIZE": "2"}),
    "a locale of ASCII": Mishap(
        (JUDGED,), environment={"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONIOENCODING": "ascii", "LANG": None}
    ),
    "every warning an error": Mishap((JUDGED,), environment={"PYTHONWARNINGS": "error"}),
    "1 GB of memory, open": Mishap((JUDGED, FAULT), limits={resource.RLIMIT_AS: 2**30}, words=("--open",)),
    "settings of pytest in the environment": Mishap(
        (JUDGED,), environment={"PYTEST_ADDOPTS": "--no-such-option", "PYTEST_PLUGINS": "no_such_plugin"}
    ),
    "no environment at all": Mishap((JUDGED,), shell="exec env -i "),
}


def try_mishaps(home: Path, ledger: Ledger) -> dict[str, str]:
    """By mishap, an empty sentence where the run was none the worse for it, or said why."""
    text = Path(__file__).read_text()

    def act(name: str) -> None:
        here = home / name.replace(" ", "-")
        here.mkdir()
        ledger.keep(TABLE, name, text, _tried(here, MISHAPS[name]))

    ledger.each(act, [name for name in MISHAPS if ledger.known(TABLE, name, text) is None])
    return {name: ledger.known(TABLE, name, text) for name in MISHAPS}


def _command(*more: str) -> list[str]:
    words = [word for id in CRITERIA for word in ("-c", id)]
    words += ["--impl", "good.py", "--impl", "wrong.py", "--profile", "quick", "--seed", "0", "-n", "1"]
    return [str(ATTEST), "run", *words, *more, "--reports", "out", "--", "--attest-seconds=20"]


def _tried(here: Path, mishap: Mishap) -> str:
    slow = plugin("good", body="time.sleep(0.3)") if mishap.meanwhile else plugin("good")
    (here / "good.py").write_text(slow)
    (here / "wrong.py").write_text(WRONG)
    (here / "site").mkdir()
    (here / "site" / "sitecustomize.py").write_text(JUMPS)
    script = f'{mishap.before} {mishap.shell or "exec "} "$@"'
    command = [*(ALONE if mishap.before else ["sh", "-c"]), script, "run", *_command(*mishap.words)]
    with open(mishap.stdout or here / "shown", "w") as shown, open(here / "errors", "w") as errors:
        run = subprocess.Popen(
            command, cwd=here, stdin=subprocess.DEVNULL, stdout=shown, stderr=errors, text=True,
            env=_environment(mishap, here), preexec_fn=lambda: _limit(mishap.limits), start_new_session=True,
        )  # fmt: skip
        try:
            if mishap.meanwhile:
                mishap.meanwhile(run, here)
            run.wait(MOST_SECONDS)
        except subprocess.TimeoutExpired:
            os.killpg(run.pid, signal.SIGKILL)
            return f"did not end within {MOST_SECONDS} s"
    return _complaint(here, mishap, run.returncode)


def _environment(mishap: Mishap, here: Path) -> dict[str, str]:
    found = dict(os.environ)
    for name, value in mishap.environment.items():
        if value is None:
            found.pop(name, None)
        else:
            found[name] = str(here / value) if value == "site" else value
    return found


def _limit(limits: Mapping[int, int]) -> None:
    for which, most in limits.items():
        resource.setrlimit(which, (most, most))


def _complaint(here: Path, mishap: Mishap, code: int) -> str:
    told = "".join(p.read_text(errors="replace") for p in (here / "shown", here / "errors") if p.exists())
    if code not in mishap.codes:
        return f"exit code {code}: {' '.join(told.split())[-200:]}"
    if "Traceback" in told or "INTERNALERROR" in told:
        return "a traceback"
    if code != JUDGED and not any(line.lower().lstrip().startswith("error") for line in told.splitlines()):
        return f"no sentence: {' '.join(told.split())[-200:]}"
    if not waited(lambda: not processes_in(here), 30):
        return "a process lives on"
    if (here / "second").exists() and not (here / "second").read_text().startswith("2 ERROR: reports="):
        return f"the second run: {(here / 'second').read_text()[:200]}"
    return _wrong_verdicts(here, mishap.good) if code == JUDGED and not mishap.before else ""


def _wrong_verdicts(here: Path, good: str) -> str:
    """The good one passes and the wrong one fails, whatever else happened."""
    for name, wanted in (("good", good), ("wrong", "fail")):
        path = here / "out" / name / "report.json"
        if not path.exists():
            return (
                "" if not (here / "out").exists() or (here / "out").is_symlink() else f"no report of {name}"
            )
        rows = {r["id"]: r for m in json.loads(path.read_text())["milestones"] for r in m["criteria"]}
        verdict = rows["M1.5a"]["verdict"]
        if verdict != wanted:
            return f"{name} is {verdict}: {rows['M1.5a']['reason']}"
    return ""
