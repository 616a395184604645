"""Wrong command lines, as a hostile or a clumsy person types them: each is refused, with exit code 2.

A line is run in a directory that holds the files of `FILES` and may leave nothing new in it.
"""

from __future__ import annotations

import shlex
import subprocess
import sys
from pathlib import Path

from torture.ledger import Ledger
from torture.plugins import plugin

ATTEST = Path(sys.executable).with_name("attest")
MOST_SECONDS = 600
TABLE = "lines"
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
}
LINES = """
frobnicate
run
run --impl
run --impl good.py --frob
run --impl nobody
run --impl ''
run --impl missing.py -c M1.5a
run --impl notes.txt -c M1.5a
run --impl .
run --impl good.py,dtype=float8 -c M1.5a
run --impl good.py,dtype -c M1.5a
run --impl good.py -m M99
run --impl good.py -c M1.999
run --impl good.py -c '../../etc'
run --impl good.py -c M1.5a --profile hasty
run --impl good.py -c M1.5a --report pdf
run --impl good.py -c M1.5a --reports ''
run --impl good.py -c M1.5a --reports notes.txt
run --impl good.py -c M1.5a --reports /proc/nowhere
run --impl good.py -c M1.5a --device tpu
run --impl good.py -c M1.5a --dtype int4
run --impl good.py -c M1.5a --seed -1
run --impl good.py -c M1.5a --seed 1e3
run --impl good.py -c M1.5a --seeds 9..3
run --impl good.py -c M1.5a --seeds 0..9 --json
run --impl good.py -c M1.5a --shard 4/3
run --impl good.py -c M1.5a --shard 0/3
run --impl good.py -c M1.5a --case nonsense
run --impl good.py -c M1.2 --case 'case=attention[B=99999999999]'
run --impl good.py -c M1.5a --resume --report none
run --impl good.py -c M1.5a -n -3
run --impl good.py -c M1.5a -n many
run --impl good.py -c M1.5a -- --attest-seconds=0
run --impl good.py -c M1.5a -- --dist=loadfile
run --impl good.py -c M1.5a -- no_such_path
run --impl good.py -c M1.5a -- --no-such-option
diff report.json
diff report.json missing.json
diff report.json notes.txt
diff nan.json nan.json
diff deep.json deep.json
diff . .
merge
merge report.json -o out
merge missing.json -o out
merge report.json report.json -o notes.txt
explain
explain M77.7
list nonsense
list --parameters no_such_operation
list --parameters multi_head_attention d_model=-4
list --parameters attention d_model=big
list --parameters attention no_such_field=1
list --offers --impl nobody
list --offers --impl notes.txt
new
new ../outside
new good
new 'a b'
new json
flow --impl eager nothing
flow --impl nobody encoder
flow --impl eager --layers 0 encoder
flow --impl eager --norm sideways encoder
flow --impl eager --seed x encoder
gradcheck --impl eager nothing
gradcheck --impl nobody attention
gradcheck --impl eager attention d_model=x
gradcheck --impl eager attention nonsense
gradcheck --impl eager attention --entries -1
generate '3 1 4'
generate --checkpoint missing '3 1 4'
generate --checkpoint model '3 1 4'
generate --checkpoint evil '3 1 4'
generate --checkpoint notes.txt '3 1 4'
attention --checkpoint model 'FIRST 3 1 4'
attention --checkpoint missing 'FIRST 3 1 4'
train --impl nobody
train --impl eager --task fly
train --impl eager --steps 0
train --impl eager --task copy --out notes.txt
demo --task fly
demo --impl nobody
demo --steps 0
study nothing --impl eager
study norm --impl nobody
study norm --impl eager --depth 0
study heads --checkpoint missing
bench --workload fly
bench --rounds 0
bench --impl nobody --small
bench --clock sun
selftest --milestone M99
selftest --defect nothing_like_it
selftest -n 0
mutate
mutate --impl nobody
mutate --impl eager --milestone M99 --list
mutate --impl eager --count 0
mutate --impl eager --annotations missing.toml --list
trial missing.py
trial good.py
trial notes.txt
trial good.py --seeds 5..1
trial good.py --criterion M99.1
list --families nonsense
list --families d_model=3
list --offers --impl broken.py
list --parameters transformer num_encoder_layers=1000000
list --parameters language_model num_decoder_layers=99999999
new port --family nobody
new port --family ''
new port --family t5
new port --family llama --framework numpy
new good --family llama
new ../port --family llama
compare
compare --impl eager
compare --impl eager --weights missing
compare --impl eager --weights notes.txt
compare --impl eager --weights model
compare --impl eager --weights broken.json
compare --impl eager --weights list
compare --impl eager --weights mamba
compare --impl eager --weights bare
compare --impl eager --weights layers
compare --impl eager --weights words
compare --impl eager --weights torn
compare --impl eager --weights away
compare --impl eager --weights scaled
compare --impl eager --weights bare --family nobody
compare --impl eager --weights bare --tokens 0
compare --impl eager --weights bare --tokens many
compare --impl eager --weights bare --seed -1
compare --impl eager --weights bare --ids 'a b'
compare --impl eager --weights bare --json good.py
compare --impl nobody --weights bare
compare --impl '' --weights bare
compare --impl hf:nobody --weights bare
complete
complete '3 1 4'
complete --checkpoint missing '3 1 4'
complete --checkpoint notes.txt '3 1 4'
complete --checkpoint model '3 1 4'
complete --checkpoint evil '3 1 4'
complete --checkpoint model '3 1 4' --max-new-tokens 0
complete --checkpoint model '3 1 4' --seed -1
complete --checkpoint model '3 1 4' --temperature hot
study positions
study positions --impl nobody
study positions --impl notes.txt
study positions --impl good.py
study positions --impl eager --seed -1
study positions --checkpoint missing
"""


def lines() -> list[str]:
    """Every wrong command line."""
    return LINES.split("\n")[1:-1]


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
