"""What is asked of `compiled` on the emulated device, in a process of its own.

    python -m gpu_emulation.question

Prints one JSON object. --fault puts one fault into the implementation first: each of them is invisible to
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
from attest_impls.compiled import Compiled, compiling, decoding, generation, text_decoding, text_generation
from attest_impls.eager import Eager

STEPS, WRITTEN = 4, 8
SIZES = {"d_model": 16, "num_heads": 2, "d_ff": 32, "num_encoder_layers": 1, "num_decoder_layers": 1}
BASE = Config(**SIZES, source_vocab=13, target_vocab=11, max_len=12, dropout=0.0, device="cuda")
CONFIGS = {
    "transformer": BASE,
    # As Llama is, with fewer key heads and a window that is shorter than what is written.
    "language_model": BASE.but(positions="rotary", norm="pre", norm_kind="rms", activation="silu", gated=True,
                               bias=False, num_kv_heads=1, window=5),
}  # fmt: skip
WRITERS = {"transformer": "generate", "language_model": "complete"}


def outputs_not_cloned():
    """What a graph gives is handed out as it is; the next replay overwrites it."""
    compiling.cloned = lambda outputs: outputs


def caches_may_move():
    """Nobody tells torch that the caches stay where they are, so no step can be recorded."""
    for module in (decoding, generation, text_decoding, text_generation):
        module.keep_address = lambda *tensors: None


def branch_of_the_device():
    """The branch that only CUDA takes says that a step stands one place further."""
    plain = decoding.State.parts
    decoding.State.parts = lambda self, new: (self.position + 1, *plain(self, new)[1:])


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


def caches_exchanged():
    """A beam goes on in new caches, so that every step is recorded for other addresses."""
    decoding.moved = text_decoding.moved = lambda x, rows: x.index_select(0, rows)


FAULTS = {
    f.__name__: f
    for f in (
        outputs_not_cloned,
        caches_may_move,
        branch_of_the_device,
        caches_not_initialised,
        caches_exchanged,
    )
}


def distance(seen, wanted):
    """The largest difference; infinity where a number is none."""
    gap = np.abs(np.asarray(seen, np.float64) - np.asarray(wanted, np.float64))
    return float(np.nan_to_num(gap, nan=np.inf).max())


def both(operation, model):
    """A component on the device, and eager's in float64 on the CPU with the same numbers."""
    config = CONFIGS[model]
    there = getattr(Compiled(), operation)(config)
    here = getattr(Eager(), operation)(config.but(device="cpu", dtype="float64"))
    here.load({name: np.asarray(value, np.float64) for name, value in there.parameters().items()})
    return there, here


def ids(length, vocabulary):
    """Three rows; the second ends in padding."""
    drawn = np.random.default_rng(length).integers(3, vocabulary, (3, length))
    drawn[1, 5:] = 0
    return drawn


def whole(model):
    """All logits, and all gradients."""
    text = {"ids": ids(7, 11)}
    inputs = text if model == "language_model" else {"source": ids(7, 13), "target": ids(6, 11)}
    there, here = both(model, model)
    wanted = here(**inputs)["logits"]
    pulled = {"logits": np.random.default_rng(1).standard_normal(wanted.shape)}
    pulled["logits"][1, 5:] = 0.0  # what a model says under padding is open
    shown = {"logits": pulled["logits"].astype(np.float32)}
    found = [c.gradients(inputs, given).parameters for c, given in ((there, shown), (here, pulled))]
    logits = np.abs(np.asarray(there(**inputs)["logits"], np.float64) - wanted)
    return {
        "logits off by": distance(np.where(pulled["logits"] == 0.0, 0.0, logits), 0.0),
        "gradients off by": max(distance(found[0][name], found[1][name]) for name in found[1]),
    }


def steps(model):
    """Logits of tokens that are given one after another."""
    there, here = both(model, model)
    beginning = 3 if model == "language_model" else ids(7, 13)
    target, worst = ids(STEPS, 11), 0.0
    state, wanted = there.start(beginning), here.start(beginning)
    for i in range(STEPS):
        logits, state = there.step(state, target[:, i : i + 1])
        right, wanted = here.step(wanted, target[:, i : i + 1])
        worst = max(worst, distance(logits, right))
    return {"steps off by": worst}


def writing(model):
    """Greedy and beam, each a second time: what was recorded once need not be again."""
    there, here = both(WRITERS[model], model)
    given = {"source": ids(7, 13)} if model == "transformer" else {"prompt": ids(5, 11)}
    same, worst, recorded = True, 0.0, 0
    for method in ("greedy", "beam"):
        asked = {**given, "max_len": WRITTEN, "method": method, "width": 2}
        there(**asked)
        before = graphs.counts.recorded
        made, wanted = there(**asked), here(**asked)
        recorded = graphs.counts.recorded - before
        same = same and made["tokens"].tolist() == wanted["tokens"].tolist()
        worst = max(worst, distance(made["scores"], wanted["scores"]))
    return {"same tokens": same, "scores off by": worst, "recorded in a beam": recorded}


def answers(model, fault):
    """Beside eager in float64 on the CPU. A fault of decoding is not looked for in the whole pass."""
    return {**({} if fault else whole(model)), **steps(model), **writing(model)}


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
    parser.add_argument("--model", choices=sorted(CONFIGS), default="transformer")
    parser.add_argument("--sources", type=Path)
    asked = parser.parse_args()
    torch.set_num_threads(1)
    if asked.fault:
        FAULTS[asked.fault]()
    found = {"MC.7a": mc_7a()} if asked.mc7a else answers(asked.model, asked.fault)
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
        held = json.loads(asked.sources.read_text()) if asked.sources.exists() else {}
        asked.sources.write_text(json.dumps(held | compiler.SOURCES))
    print(json.dumps(found))
    sys.stdout.flush()
    os._exit(0)  # what torch does at the end of a process looks for a real device


if __name__ == "__main__":
    main()
