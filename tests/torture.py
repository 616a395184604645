"""The attacks on a run, as a script: hostile plugins, signals, and fuzzing of everything that is parsed.

`make torture` runs it and writes docs/robustness.md. The seed is fixed, so two runs try the same.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import signal
import subprocess
import sys
import tempfile
import time
import zipfile
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np

from attest.contract import OPERATIONS, Config
from attest.judging.property import load_properties
from attest.outcomes import NotOffered
from attest.registry import UsageError, parse_request
from attest.report.comparison import compare
from attest.report.document import report_document
from attest.report.merge import merge
from attest.report.reading import ReportError, read_report
from attest.report.writing import as_json, write_document
from attest.running.selection import check_case
from attest.spec import SpecError, read_spec
from attest.trained.models import SavedModel, read_model
from report_samples import SPEC, student

ROOT = Path(__file__).parents[1]
ATTEST = Path(sys.executable).with_name("attest")
PLUGIN = """
{top}
import os, sys, time, threading, ctypes, itertools, signal
import numpy as np

class Subject:
    name = "{name}"
    {declared}
    def length_mask(self, lengths, size):
        return (np.arange(size) < np.asarray(lengths)[:, None])[:, None]
    def causal_mask(self, T, S):
        {body}
        return np.tri(T, S, S - T, dtype=bool)

def attest_implementations():
    {hook}
    return [Subject()]
"""
# What a plugin does: (where, what). Each runs beside a good one, which must pass.
BODIES = {
    "segfault": "ctypes.string_at(0)",
    "abort": "os.abort()",
    "exit": "os._exit(0)",
    "sys_exit": "sys.exit(0)",
    "keyboard_interrupt": "raise KeyboardInterrupt",
    "generator_exit": "raise GeneratorExit",
    "odd_base_exception": "raise type('Odd', (BaseException,), dict())('x')",
    "loop": "exec('while True: pass')",
    "loop_in_c": "sum(itertools.repeat(1))",
    "swallows_timeouts": "exec('while True:\\n try:\\n  time.sleep(1)\\n except BaseException: pass')",
    "blocks_signals": "signal.pthread_sigmask(signal.SIG_BLOCK, range(1, 65)); time.sleep(600)",
    "kills_parent": "os.kill(os.getppid(), 9)",
    "kills_group": "os.killpg(0, 9)",
    "forks": "os.fork() or time.sleep(600)",
    "thread": "threading.Thread(target=time.sleep, args=(600,)).start()",
    "chdir": "os.chdir('/')",
    "deletes_cwd": "import tempfile; os.chdir(tempfile.mkdtemp()); os.rmdir(os.getcwd())",
    "closes_descriptors": "os.closerange(0, 256)",
    "leaks_descriptors": "exec('try:\\n while True: os.open(\"/\", 0)\\nexcept OSError: pass')",
    "patches_numpy": "np.tri = np.arange = np.array = np.asarray = None",
    "patches_json": "import json; json.dumps = json.loads = None",
    "patches_pytest": "sys.modules['pytest'] = sys.modules['attest'] = None",
    "recursion": "return self.causal_mask(T, S)",
    "memory": "np.ones(10**15)",
    "surrogate": "raise ValueError('\\udcff')",
    "escapes": "raise ValueError('\\x1b[2J\\x1b]0;owned\\x07')",
    "mute_exception": "raise type('Mute', (Exception,), {{'__str__': lambda self: 1 / 0}})",
    "floods_stderr": "os.write(2, b'x' * 3_000_000); 1 / 0",
    "writes_no_utf8": "os.write(1, b'\\xff\\xfe' * 1000)",
    "forges_records": "[_try(fd) for fd in range(3, 64)]",
    "returns_none": "return None",
    "returns_liar": "return np.lib.stride_tricks.as_strided(np.ones(1, bool), (10**6, 10**6), (0, 0))",
    "environment": "os.environ.clear()",
    "settings": "sys.setrecursionlimit(60); np.seterr(all='raise')",
}
DECLARED = {
    "dtypes_text": "dtypes = 'float32'",
    "dtypes_unknown": "dtypes = ('float8',)",
    "known_failures_words": "known_failures = ['M1.5a']",
    "known_failure_number": "known_failures = [type('K', (), dict(criterion='M1.5a', reason=5))]",
    "wider_1e300": "wider_bounds = {{'attention': 1e300}}",
    "wider_inf": "wider_bounds = {{'attention': float('inf')}}",
    "wider_text": "wider_bounds = 'wide'",
    "options_number": "options = 7",
    "policy": "shape_policy = type('P', (), dict(min_size='x'))",
    "property_raises": "dtypes = property(lambda self: 1 / 0)",
    "name_escape": "name = '\\x1b[31mred'",
    "name_path": "name = '../../x'",
}
HOOKS = {
    "hook_index_error": "[][0]",
    "hook_none": "return None",
    "hook_exit": "os._exit(3)",
    "hook_interrupt": "raise KeyboardInterrupt",
    "hook_hang_thread": "threading.Thread(target=time.sleep, args=(600,)).start()",
}
TOPS = {
    "import_crash": "import os; os.kill(os.getpid(), 11)",
    "import_no_utf8": "import sys; sys.stdout.buffer.write(b'\\xff'); sys.stderr.buffer.write(b'\\xff')",
    "import_forges_probe": "print('attest-probe {')",
    "import_missing": "import no_such_module",
    "import_syntax": "def (",
    "import_base_exception": "raise type('Odd', (BaseException,), dict())",
}


def plugins() -> Iterator[tuple[str, str]]:
    """Name and text of every hostile plugin."""
    blank = {"top": "", "declared": "pass", "body": "pass", "hook": "pass"}
    for part, found in (("body", BODIES), ("declared", DECLARED), ("hook", HOOKS), ("top", TOPS)):
        for name, line in found.items():
            text = PLUGIN.format(**(blank | {part: line.replace("{{", "{").replace("}}", "}"), "name": name}))
            yield (
                name,
                text.replace("_try(fd)", "(lambda: os.write(fd, b'{}\\n') if fd in _open() else 0)()")
                + (
                    "\ndef _open():\n    return [int(n) for n in os.listdir('/proc/self/fd') if int(n) > 2]\n"
                ),
            )


def try_plugins(home: Path) -> dict[str, str]:
    """Each beside a good one: an empty sentence where it cost only itself."""
    (home / "good.py").write_text(
        PLUGIN.format(top="", name="good", declared="pass", body="pass", hook="pass")
    )
    found = {}
    for name, text in plugins():
        (home / f"{name}.py").write_text(text)
        words = ["run", "--impl", f"{name}.py", "--impl", "good.py", "-c", "M1.5a", "-c", "M1.4b", "--json"]
        words += ["--profile", "quick", "-n", "1", "--reports", f"out-{name}", "--", "--attest-seconds=5"]
        run = subprocess.run(
            [ATTEST, *words],
            cwd=home,
            capture_output=True,
            text=True,
            errors="replace",
            timeout=300,
            check=False,
        )
        found[name] = complaint(run)
        print(f"{name:<24} {found[name] or 'cost only itself'}", flush=True)
    return found


def complaint(run: subprocess.CompletedProcess[str]) -> str:
    """What is wrong with how a run with a hostile plugin ended."""
    try:
        reports = {d["implementation"]: d for d in json.loads(run.stdout)["reports"]}
    except (ValueError, KeyError, TypeError):
        return f"no reports, exit code {run.returncode}"
    rows = [r for m in reports["good"]["milestones"] for r in m["criteria"]]
    if [r["verdict"] for r in rows] != ["pass", "pass"]:
        return "the good implementation does not pass"
    if any(r["internal"] for d in reports.values() for m in d["milestones"] for r in m["criteria"]):
        return "called a fault of the harness"
    if run.returncode not in (0, 1):
        return f"exit code {run.returncode}"
    return "a terminal escape got through" if "\x1b" in run.stdout + run.stderr else ""


def try_signals(home: Path) -> dict[str, str]:
    """A signal to the front while a criterion hangs: all must end, with a report of what is missing."""
    (home / "slow.py").write_text(
        PLUGIN.format(top="", name="slow", declared="pass", body="time.sleep(600)", hook="pass")
    )
    found = {}
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGKILL):
        for workers in ("0", "1", "2"):
            found[f"{number.name} -n {workers}"] = try_signal(home, number, workers)
            print(
                f"{number.name} -n {workers}: {found[f'{number.name} -n {workers}'] or 'all ended'}",
                flush=True,
            )
    return found


def try_signal(home: Path, number: signal.Signals, workers: str) -> str:
    out = home / f"signal-{number.name}-{workers}"
    words = ["run", "--impl", "slow.py", "-c", "M1.5a", "-c", "M1.4b", "--profile", "quick", "-n", workers]
    front = subprocess.Popen(
        [ATTEST, *words, "--reports", str(out)], cwd=home, stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL, start_new_session=True,
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.default_int_handler),
    )  # fmt: skip
    records = out / "slow" / "records.jsonl"
    deadline = time.monotonic() + 90
    while time.monotonic() < deadline and not (records.exists() and records.read_text().count("\n") > 1):
        time.sleep(0.2)
    front.send_signal(number)
    front.wait(90)
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline and processes_in(home):
        time.sleep(0.2)
    if processes_in(home):
        return "processes live on"
    report = json.loads((out / "slow" / "report.json").read_text())
    return "" if report["selection"]["missing"] == ["M1.5a"] else "the report does not name what is missing"


def processes_in(directory: Path) -> list[str]:
    """Processes whose working directory this is."""
    found = []
    for entry in Path("/proc").glob("[0-9]*"):
        try:
            ended = (entry / "stat").read_text().rpartition(")")[2].split()[0] == "Z"
            if os.readlink(entry / "cwd") == str(directory) and not ended:
                found.append(entry.name)
        except OSError:
            continue
    return found


def spoiled(rng: random.Random, text: bytes) -> bytes:
    """The text with some of its bytes, words or parts changed."""
    for _ in range(rng.randint(1, 4)):
        place, length = rng.randrange(len(text) + 1), rng.choice((0, 1, 2, 8, 64))
        word = rng.choice(WORDS)
        text = text[:place] + word + text[place + length :]
    return text if rng.random() < 0.9 else text[: rng.randrange(len(text) + 1)]


WORDS = (
    *(
        b"",
        b"null",
        b"-1",
        b"1e999",
        b"NaN",
        b'"',
        b"{",
        b"}",
        b"[",
        b"]",
        b",",
        b"\xff",
        b"\x00",
        b"../../x",
    ),
    *(b"[" * 2000, b"9" * 400, b"true", b'"M1.2"', b"\xed\xb3\xbf", b"=", b"\n", b"'", b":", b"/", b"__"),
)
OTHER_KINDS = (None, True, 0, -1, 1.5, "", "../x", "M1.2", [], ["M1.2"], {}, [[]], {"a": 1})


def replaced(rng: random.Random, document: object) -> object:
    """The document with one of its values replaced by one of another kind."""
    copy = json.loads(json.dumps(document))
    place = copy
    while isinstance(place, dict | list) and place:
        key = rng.choice(list(place) if isinstance(place, dict) else range(len(place)))
        if not isinstance(place[key], dict | list) or not place[key] or rng.random() < 0.15:
            place[key] = rng.choice(
                (None, True, 0, -1, 1.5, "", "../x", "M1.2", [], ["M1.2"], {}, [[]], {"a": 1})
            )
            break
        place = place[key]
    return copy


def fuzz(
    name: str, count: int, attempt: Callable[[int], None], allowed: tuple[type[Exception], ...]
) -> Counter[str]:
    """Outcomes by kind; anything but success or an allowed sentence of one line is `raw`."""
    seen: Counter[str] = Counter()
    for i in range(count):
        try:
            attempt(i)
            seen["accepted"] += 1
        except allowed as error:
            seen["refused" if "\n" not in str(error) else "more than one line"] += 1
        except Exception as error:
            seen[f"raw {type(error).__name__}"] += 1
    print(f"{name}: {dict(seen)}", flush=True)
    return seen


def fuzz_all(home: Path, scale: float) -> dict[str, Counter[str]]:
    """Every parser; the numbers are those of the documentation at scale 1."""
    rng = random.Random(0)
    report = report_document("mine", student(), SPEC)
    text = as_json(report).encode()
    path = home / "report.json"

    def a_report(i: int) -> None:
        path.write_bytes(spoiled(rng, text) if i % 2 else json.dumps(replaced(rng, report)).encode())
        document = read_report(path)
        compare(report, document)
        write_document(merge([document]), home / "merged")

    parameters = {"w": np.zeros(2, np.float32)}
    saved = SavedModel(
        implementation="numpy_scratch", task="copy", config=Config(d_model=8), parameters=parameters
    )
    saved.write(home / "model")
    about, arrays = (
        (home / "model" / "model.json").read_bytes(),
        (home / "model" / "parameters.npz").read_bytes(),
    )
    with zipfile.ZipFile(home / "model" / "parameters.npz") as held:
        inner = held.read("w.npy")

    def a_checkpoint(i: int) -> None:
        model = {"model.json": about, "parameters.npz": arrays}
        if i % 4 == 0:
            model["model.json"] = spoiled(rng, about)
        elif i % 4 == 1:
            model["model.json"] = json.dumps(replaced(rng, json.loads(about))).encode()
        elif i % 4 == 2:
            model["parameters.npz"] = spoiled(rng, arrays)
        for name, content in model.items():
            (home / "model" / name).write_bytes(content)
        if i % 4 == 3:
            with zipfile.ZipFile(home / "model" / "parameters.npz", "w") as held:
                held.writestr("w.npy", spoiled(rng, inner))
        read_model(home / "model")

    files = sorted((ROOT / "spec").glob("*.toml"))

    def a_spec(i: int) -> None:
        old = files[i % len(files)]
        new = home / old.name
        new.write_bytes(spoiled(rng, old.read_bytes()))
        read_spec([new if file == old else file for file in files], OPERATIONS)

    names = [b"eager", b"good.py", b"mine.py:make", b"a.b:c", b"eager,dtype=float64", b"x/y.py", b"."]

    def a_request(i: int) -> None:
        parse_request(spoiled(rng, rng.choice(names)).decode("utf-8", "surrogateescape"))

    chosen = [SPEC.by_id[id] for id in ("M1.2", "M1.5a", "M2.2")]
    load_properties()
    line = b"case=attention[B=1 H=1 T=2 S=2 D=1 regime=unit dtype=float32 seed=0]"

    def a_case(i: int) -> None:
        check_case(spoiled(rng, line).decode("utf-8", "surrogateescape"), chosen, ())

    return {
        "report.json (read, diff, merge)": fuzz("reports", int(6000 * scale), a_report, (ReportError,)),
        "checkpoint (read)": fuzz("checkpoints", int(3000 * scale), a_checkpoint, (ValueError,)),
        "spec file (read)": fuzz("specs", int(3000 * scale), a_spec, (SpecError,)),
        "--impl": fuzz("requests", int(6000 * scale), a_request, (UsageError,)),
        "--attest-case": fuzz("cases", int(6000 * scale), a_case, (UsageError, NotOffered)),
    }


def page(attacks: dict[str, dict[str, str]], fuzzed: dict[str, Counter[str]]) -> str:
    """docs/robustness.md between its marks: what was tried and what happened."""
    lines = ["| attacks | tried | clean | what was not |", "|---|---:|---:|---|"]
    for name, found in attacks.items():
        bad = "; ".join(f"{k}: {v}" for k, v in found.items() if v)
        lines.append(f"| {name} | {len(found)} | {sum(not v for v in found.values())} | {bad or '-'} |")
    lines += [
        "",
        "| parser | inputs | accepted | refused in one line | anything else |",
        "|---|---:|---:|---:|---|",
    ]
    for name, seen in fuzzed.items():
        other = "; ".join(f"{k}: {n}" for k, n in sorted(seen.items()) if k not in ("accepted", "refused"))
        total = sum(seen.values())
        lines.append(f"| {name} | {total} | {seen['accepted']} | {seen['refused']} | {other or '-'} |")
    return "\n".join(lines)


def main() -> int:
    """Run what was asked for; exit code 1 when an attack did more than it may."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", choices=("plugins", "signals", "fuzz"))
    parser.add_argument("--scale", type=float, default=1.0, help="how many inputs of a fuzz, 1 is all")
    parser.add_argument("--write", action="store_true", help="put the table into docs/robustness.md")
    option = parser.parse_args()
    attacks: dict[str, dict[str, str]] = {}
    fuzzed: dict[str, Counter[str]] = {}
    with tempfile.TemporaryDirectory(prefix="torture-") as made:
        home = Path(made).resolve()
        if option.only in (None, "plugins"):
            attacks["hostile plugins beside a good one"] = try_plugins(home)
        if option.only in (None, "signals"):
            attacks["signals to `attest run`"] = try_signals(home)
        if option.only in (None, "fuzz"):
            fuzzed = fuzz_all(home, option.scale)
    table = page(attacks, fuzzed)
    print(table)
    if option.write:
        target = ROOT / "docs" / "robustness.md"
        before, _, rest = target.read_text(encoding="utf-8").partition("<!-- table -->")
        after = rest.partition("<!-- end of table -->")[2]
        target.write_text(f"{before}<!-- table -->\n{table}\n<!-- end of table -->{after}", encoding="utf-8")
    bad = any(v for found in attacks.values() for v in found.values())
    raw = any(k not in ("accepted", "refused") for seen in fuzzed.values() for k in seen)
    return int(bad or raw)


if __name__ == "__main__":
    sys.exit(main())
