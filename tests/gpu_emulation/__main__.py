"""`make gpu-emulation`: what the CUDA path of our implementations does on an emulated device, on one page.

    python -m gpu_emulation [--only eager.M1 faults ...] [--keep]

A part is made of pieces, whose answers are held in reports/gpu-emulation/found.json: with --only those of
other pieces stay. Exit code 1 when something is not as it should be, 2 when the emulated device cannot be
used here. The page goes to reports/gpu-emulation/, with --keep to reports/kept/ too.
"""

import argparse
import json
import os
import subprocess
import sys
from pathlib import Path

from gpu_emulation.page import page
from gpu_emulation.versions import refusal

TESTS = Path(__file__).parents[1]
ROOT = TESTS.parent
OUT = ROOT / "reports" / "gpu-emulation"
MILESTONES = ("M1", "M2", "M3", "M4", "M5", "M6")
REAL_GPU = "MC.7a"
MODELS = ("transformer", "language_model")
FAULTS = (
    "outputs_not_cloned",
    "caches_may_move",
    "branch_of_the_device",
    "caches_not_initialised",
    "caches_exchanged",
)
TARGETS = ("sm_80", "sm_90")
CLOSE = 1e-4  # float32 beside float64: the study saw 1e-6, a fault at least 0.2
SECONDS = 900  # of a criterion: every operator goes through the emulation
RECORDED = 4  # CUDA graphs of a beam of eight tokens: one a step would be eight
SOURCES = OUT / "kernels.json"


def run(*words, **more):
    """A module of this package, or pytest, with the tests on its path; what it printed last."""
    environment = {**os.environ, "PYTHONPATH": str(TESTS), "OMP_NUM_THREADS": "1", "PYTHONWARNINGS": "ignore"}
    ran = subprocess.run(
        [sys.executable, "-m", *words], cwd=ROOT, env={**environment, **more}, capture_output=True, text=True
    )
    (OUT / "log.txt").open("a").write(f"$ {' '.join(words)}\n{ran.stdout}{ran.stderr}\n")
    return ran


def asked(*words, **more):
    """The JSON that a question prints; what went wrong otherwise."""
    ran = run("gpu_emulation.question", *words, **more)
    try:
        return json.loads(ran.stdout.strip().splitlines()[-1])
    except (IndexError, ValueError):
        return {"error": ran.stderr.strip().splitlines()[-1:] or ["no answer"]}


def eager(milestone):
    """Verdicts at quick, with every tensor on the device."""
    plugin, home = TESTS / "gpu_emulation" / "judged.py", OUT / milestone
    chosen = ["--milestone", milestone, "--attest-device", "cuda", "--attest-profile", "quick"]
    chosen += ["--attest-seconds", str(SECONDS)]
    loaded = ["-q", "-n", "0", "-p", "no:cacheprovider", "-p", "gpu_emulation.device"]
    run("pytest", *loaded, f"--impl={plugin}:eager", *chosen, "--attest-reports", str(home))
    (report,) = home.glob("eager*/report.json")
    document = json.loads(report.read_text())
    (judged,) = (m for m in document["milestones"] if m["id"] == milestone)
    return {
        "said": document["environment"].get("cuda", ""),
        "verdict": judged["verdict"],
        "criteria": [(c["id"], c["verdict"]) for c in judged["criteria"]],
    }


def compiled(name):
    """MC.7a's question, or a model beside eager in float64; programs in order."""
    asking = ("--mc7a",) if name == REAL_GPU else ("--model", name)
    return asked(*asking, "--sources", str(SOURCES))


def order(name):
    """MC.7a's question again, with the programs of every launch in a random order."""
    assert name == REAL_GPU
    return asked("--mc7a", EMULATED_GPU_ORDER="7")


def faults(name):
    """What decoding gives with a fault."""
    return asked("--fault", name)


def cubins(target):
    """Registers, stack, shared memory, TF32 and atomics of every kernel."""
    ran = run("gpu_emulation.cubins", str(SOURCES), target)
    return json.loads(ran.stdout.strip().splitlines()[-1])


PARTS = {
    eager: MILESTONES,
    compiled: (REAL_GPU, *MODELS),
    order: (REAL_GPU,),
    faults: FAULTS,
    cubins: TARGETS,
}
PIECES = {f"{part.__name__}.{name}": (part, name) for part, names in PARTS.items() for name in names}


def right(answer):
    """Whether the numbers, the tokens and the recordings are as they should be."""
    return (
        "error" not in answer
        and max(value for name, value in answer.items() if name.endswith(" off by")) < CLOSE
        and answer["same tokens"]
        and answer["recorded in a beam"] <= RECORDED
        and not answer["not recorded"]
        and not answer["overruns"]
    )


def judged(found):
    """What is wrong, one sentence each. `found` holds the answers by part and piece."""
    wrong = [
        f"eager: {id} is {verdict}"
        for answer in found.get("eager", {}).values()
        for id, verdict in answer["criteria"]
        if verdict in ("fail", "error", "thin")
    ]
    for part in ("compiled", "order"):
        for name, answer in found.get(part, {}).items():
            fine = answered(answer) if name == REAL_GPU else right(answer)
            wrong += [] if fine else [f"{part}: {name} gives {json.dumps(answer)}"]
    wrong += [
        f"the fault {name} is not seen: {json.dumps(answer)}"
        for name, answer in found.get("faults", {}).items()
        if "error" in answer or right(answer)
    ]
    kernels = [kernel for each in found.get("cubins", {}).values() for kernel in each]
    return wrong + [f"{k['name']} for {k['target']}: {k['error']}" for k in kernels if k["error"]]


def answered(answer):
    """Whether the question of MC.7a was answered rightly."""
    return not (answer.get("MC.7a") or answer.get("error") or answer.get("overruns"))


def chosen(only):
    """The pieces of these parts or names; all without any."""
    return [name for name in PIECES if not only or name in only or name.partition(".")[0] in only]


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--only", nargs="+", choices=sorted({*PIECES, *(part.__name__ for part in PARTS)}))
    parser.add_argument("--keep", action="store_true")
    options = parser.parse_args()
    if reason := refusal():
        print(f"Error: {reason}", file=sys.stderr)
        return 2
    OUT.mkdir(parents=True, exist_ok=True)
    held = OUT / "found.json"
    if not options.only:
        for old in (held, SOURCES, OUT / "log.txt"):
            old.unlink(missing_ok=True)
    for piece in chosen(options.only):
        print(f"{piece} ...", flush=True)
        part, name = PIECES[piece]
        answer = part(name)
        found = json.loads(held.read_text()) if held.exists() else {}  # others may run other pieces
        found.setdefault(part.__name__, {})[name] = answer
        held.write_text(json.dumps(found, indent=1))
    wrong = judged(found)
    text = page(found, wrong)
    (OUT / "gpu-emulation.md").write_text(text)
    if options.keep:
        (ROOT / "reports" / "kept" / "gpu-emulation.md").write_text(text)
    print(*(wrong or ["as it should be"]), sep="\n")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
