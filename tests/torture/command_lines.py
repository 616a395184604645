"""Wrong command lines, as a hostile or a clumsy person types them: each is refused, with exit code 2.

A line is run in a directory that holds the files of `FILES` and may leave nothing new in it.
"""

from __future__ import annotations

import shlex
import subprocess
import sys
from pathlib import Path

from attest.report.document import report_document
from attest.report.writing import as_json
from report_samples import SPEC, plan_for, record
from torture.ledger import Ledger
from torture.plugins import plugin

ATTEST = Path(sys.executable).with_name("attest")
MOST_SECONDS = 600
TABLE = "lines"


def _report(name: str, shard: tuple[int, int] | None = None) -> str:
    records = [record("M1.5", implementation=name)]
    return as_json(report_document(name, records, SPEC, plan_for(name, ids=("M1.5",), shard=shard)))


FILES = {
    "good.py": plugin("good"),
    "no_plugin.py": "x = 1\n",
    "broken.py": "def (\n",
    "notes.txt": "hello\n",
    "report.json": "{}\n",
    "nan.json": '{"implementation": NaN}\n',
    "deep.json": "[" * 100_000,
    "model/model.json": "{}\n",
    "evil/model.json": '{"implementation": "good.py", "task": "copy", "config": {}}\n',
    "broken.json/config.json": "{",
    "list/config.json": "[]",
    "mamba/config.json": '{"model_type": "mamba"}',
    "bare/config.json": '{"model_type": "llama", "hidden_size": 8, "num_hidden_layers": 1}',
    "layers/config.json": '{"model_type": "llama", "hidden_size": 8, "num_hidden_layers": -1}',
    "words/config.json": '{"model_type": "llama", "hidden_size": "eight"}',
    "torn/config.json": '{"model_type": "llama", "hidden_size": 8, "num_hidden_layers": 1}',
    "torn/model.safetensors": "no tensors",
    "away/config.json": '{"model_type": "llama", "hidden_size": 8, "num_hidden_layers": 1}',
    "away/model.safetensors.index.json": '{"weight_map": {"x": "../good.py"}}',
    "scaled/config.json": '{"model_type": "llama", "rope_scaling": {"type": "linear"}}',
    "huge/config.json": '{"model_type": "llama", "hidden_size": 8, "num_hidden_layers": 99999999}',
    "infinite/config.json": '{"model_type": "llama", "hidden_size": Infinity, "num_hidden_layers": 1}',
    "infinite/model.json": '{"implementation": "eager", "task": "copy", "config": {"d_model": Infinity}}',
    "negative/config.json": '{"model_type": "llama", "hidden_size": -8, "num_hidden_layers": 1}',
    "bad/model.json": '{"implementation": "eager", "task": "../../x", "config": {"d_model": 8}}',
    "empty.txt": "",
    "binary.txt": "\x00\x01\x02" * 9,
    "oneside/pos/a.txt": "good\n",
    "annotations.toml": "[[explained]]\nmutant = 7\n",
    "kernels.py": "ATTEST_AOT = [('kernel', 7)]\n",
    "numbers.py": "ATTEST_AOT = 7\n",
    "strings.py": "ATTEST_AOT = 'abc'\n",
    "exits.py": "raise SystemExit(0)\n",
    "one.json": _report("mine"),
    "other.json": _report("yours"),
    "shard1.json": _report("mine", (1, 3)),
    "shard3.json": _report("mine", (3, 3)),
}
LINES = Path(__file__).with_suffix(".txt")


def lines() -> list[str]:
    """Every wrong command line."""
    return LINES.read_text(encoding="utf-8").splitlines()


def try_lines(home: Path, ledger: Ledger) -> dict[str, str]:
    """By line, an empty sentence where it was refused as it should be."""
    known = {line: ledger.known(TABLE, line, line) for line in lines()}

    def act(line: str) -> None:
        known[line] = refusal_fault(line, home / f"line-{lines().index(line)}")
        ledger.keep(TABLE, line, line, known[line])

    ledger.each(act, [line for line, fault in known.items() if fault is None])
    return {line: fault or "" for line, fault in known.items()}


def refusal_fault(line: str, home: Path) -> str:
    """What is wrong with how a line was refused."""
    for name, text in FILES.items():
        (home / name).parent.mkdir(parents=True, exist_ok=True)
        (home / name).write_text(text)
    before = _files(home)
    run = subprocess.run(
        [ATTEST, *shlex.split(line)],
        cwd=home,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=MOST_SECONDS,
        check=False,
    )
    return complaint(run) or ("" if _files(home) == before else f"left {sorted(_files(home) - before)}")


def complaint(run: subprocess.CompletedProcess[str]) -> str:
    """Exit code 2 and one sentence; click shows how the command is used above it."""
    if run.returncode != 2:
        return f"exit code {run.returncode}"
    if "Traceback" in run.stdout + run.stderr:
        return "a traceback"
    told = [text for text in run.stderr.splitlines() if text.lower().startswith("error: ")]
    if len(told) != 1 or len(told[0]) < len("error: ") + 10:
        return f"{len(told)} sentences"
    return ""


def _files(home: Path) -> set[str]:
    """What a tool of Python's leaves beside a source does not count."""
    names = {str(path.relative_to(home)) for path in home.rglob("*")}
    return {name for name in names if not name.startswith((".", "__pycache__"))}
