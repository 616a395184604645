"""What is asked of `compiled` on the emulated device, in a process of its own.

    python -m gpu_emulation.question

Prints one JSON object. --fault puts one fault into the implementation first: each of the four is invisible to
checks that look at devices and shapes alone, and must be seen here. --sources writes what inductor wrote.
"""

import argparse
import json
import os
import sys
from pathlib import Path

from gpu_emulation import compiler, device, graphs  # before anything asks for a device

import numpy as np  # isort: skip
import torch  # isort: skip

from attest.contract import Config
from attest_impls.compiled import Compiled, compiling, decoding, generation
from attest_impls.eager import Eager

STEPS = 4
SIZES = {"d_model": 16, "num_heads": 2, "d_ff": 32, "num_encoder_layers": 1, "num_decoder_layers": 1}
CONFIG = Config(**SIZES, source_vocab=13, target_vocab=11, max_len=12, dropout=0.0, device="cuda")


def outputs_not_cloned():
    """What a graph gives is handed out as it is; the next replay overwrites it."""
    compiling.cloned = lambda outputs: outputs


def caches_may_move():
    """Nobody tells torch that the caches stay where they are, so no step can be recorded."""
    decoding.keep_address = generation.keep_address = lambda *tensors: None


def branch_of_the_device():
    """The branch that only CUDA takes shows places that nothing was written to."""
    plain = decoding.State.parts

    def parts(self, new):
        position, source_seen, target_seen, past, memory = plain(self, new)
        return position, source_seen, torch.ones_like(target_seen), past, memory

    decoding.State.parts = parts


def caches_not_initialised():
    """The caches are whatever lay in that memory."""
    plain = decoding.empty_state

    def empty_state(*arguments):
        state = plain(*arguments)
        for pair in state.past:
            for x in pair:
                x.copy_(torch.empty_like(x))
        return state

    decoding.empty_state = generation.empty_state = empty_state


FAULTS = {
    f.__name__: f for f in (outputs_not_cloned, caches_may_move, branch_of_the_device, caches_not_initialised)
}


def distance(seen, wanted):
    """The largest difference; infinity where a number is none."""
    gap = np.abs(np.asarray(seen, np.float64) - np.asarray(wanted, np.float64))
    return float(np.nan_to_num(gap, nan=np.inf).max())


def same_parameters(there, here):
    """The float64 model on the CPU gets the numbers of the one on the device."""
    here.load({name: np.asarray(value, np.float64) for name, value in there.parameters().items()})


def answers():
    """Cached steps and greedy decoding, each beside eager in float64 on the CPU."""
    rng, on_cpu = np.random.default_rng(0), CONFIG.but(device="cpu", dtype="float64")
    source, target = rng.integers(3, 13, (3, 7)), rng.integers(3, 11, (3, STEPS))
    source[1, 5:] = 0
    model, reference = Compiled().transformer(CONFIG), Eager().transformer(on_cpu)
    same_parameters(model, reference)
    state, wanted = model.start(source), reference.start(source)
    worst = 0.0
    for i in range(STEPS):
        logits, state = model.step(state, target[:, i : i + 1])
        right, wanted = reference.step(wanted, target[:, i : i + 1])
        worst = max(worst, distance(logits, right))
    writer, scribe = Compiled().generate(CONFIG), Eager().generate(on_cpu)
    same_parameters(writer, scribe)
    made = [g(source=source, max_len=8, method="greedy") for g in (writer, writer, scribe)][1:]
    return {
        "steps off by": worst,
        "same tokens": made[0]["tokens"].tolist() == made[1]["tokens"].tolist(),
        "scores off by": distance(made[0]["scores"], made[1]["scores"]),
    }


def mc_7a():
    """MC.7a's question, put to the emulated device: None, or the sentence of its failure."""
    from attest.boundary import JudgedImplementation
    from attest.milestones.compiled.properties.compiled import a_real_device_gives_the_same
    from attest.outcomes import Violation

    try:
        a_real_device_gives_the_same(JudgedImplementation(Compiled(), device="cuda"))
    except Violation as violation:
        return violation.seen
    return None


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--fault", choices=sorted(FAULTS))
    parser.add_argument("--mc7a", action="store_true")
    parser.add_argument("--sources", type=Path)
    asked = parser.parse_args()
    torch.set_num_threads(1)
    if asked.fault:
        FAULTS[asked.fault]()
    found = {"MC.7a": mc_7a()} if asked.mc7a else answers()
    counted = graphs.counts
    found |= {
        "recorded": counted.recorded,
        "recorded again": counted.again,
        "replayed": counted.replayed,
        "not recorded": counted.skipped,
        "kernels": len(compiler.SOURCES),
        "overruns": device.native.overruns(),
    }
    if asked.sources:
        asked.sources.write_text(json.dumps(compiler.SOURCES))
    print(json.dumps(found))
    sys.stdout.flush()
    os._exit(0)  # what torch does at the end of a process looks for a real device


if __name__ == "__main__":
    main()
