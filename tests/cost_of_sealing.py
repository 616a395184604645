"""What a seal costs: every criterion judged in turns by an open and by a sealed process, one after the other.

    python tests/cost_of_sealing.py eager M1 M2 M3 M4 M5 M6

Seconds of the processor are those of the process that judges and of the one that is judged, as the kernel
counts them, so that neighbours on the machine count for little.
"""

import os
import sys
import tempfile
import time

from attest.records.plan import Plan, Target
from attest.running.isolation import Isolation
from attest.spec import load_spec

SPEC = load_spec()


def processor_seconds(root: int) -> float:
    """Of a process and its living children, with those of their ended children."""
    total, children = 0.0, {}
    for name in filter(str.isdecimal, os.listdir("/proc")):
        try:
            with open(f"/proc/{name}/stat") as file:
                fields = file.read().rpartition(")")[2].split()
        except OSError:
            continue
        spent = sum(map(int, fields[11:15])) / os.sysconf("SC_CLK_TCK")
        children.setdefault(int(fields[1]), []).append((int(name), spent))
        total += spent if int(name) == root else 0.0
    waiting = [root]
    while waiting:
        for number, spent in children.get(waiting.pop(), ()):
            total += spent
            waiting.append(number)
    return total


def main(name: str, milestones: list[str]) -> None:
    criteria = [c for c in SPEC.criteria if c.milestone in milestones]
    processes, spent, wall, verdicts = {}, {}, {}, {}
    with tempfile.TemporaryDirectory() as home:
        for kind in ("open", "sealed"):
            os.mkdir(f"{home}/{kind}")
            target = Target(name, name, name, sealed=kind == "sealed")
            plan = Plan((target,), tuple(c.id for c in criteria), "quick", 0, "", f"{home}/{kind}")
            processes[kind] = Isolation(plan, SPEC, target)
            spent[kind], wall[kind], verdicts[kind] = 0.0, 0.0, {}
        for turn, criterion in enumerate(criteria):
            for kind in ("open", "sealed") if turn % 2 else ("sealed", "open"):
                process = processes[kind]
                before = processor_seconds(process._process.pid) if process._process else 0.0
                started = time.perf_counter()
                verdicts[kind][criterion.id] = process.judge(criterion).verdict
                wall[kind] += time.perf_counter() - started
                spent[kind] += processor_seconds(process._process.pid) - before
            ratio = spent["sealed"] / spent["open"]
            print(f"{criterion.id} {spent['open']:.1f} {spent['sealed']:.1f} {ratio:.3f}", flush=True)
        for process in processes.values():
            process.close()
    differ = [id for id, verdict in verdicts["open"].items() if verdicts["sealed"][id] != verdict]
    for what, found in (("processor", spent), ("wall", wall)):
        print(f"{what}: open {found['open']:.1f} s, sealed {found['sealed']:.1f} s, "
              f"{found['sealed'] / found['open']:.2f} times")  # fmt: skip
    print(f"{len(criteria)} criteria, other verdicts: {differ or 'none'}")


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2:])
