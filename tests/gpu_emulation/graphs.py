"""CUDA graphs as far as memory goes: what a recording keeps, what a replay overwrites.

A recording reads its inputs where they lay and leaves its outputs where they lay. So inputs are copied to the
recorded place, unless they are static: then another address is another recording. Outputs are overwritten by
the next replay. When a new step begins, what earlier steps gave becomes nan: whoever kept it sees it.
"""

from dataclasses import dataclass, field

import torch

NAN = float("nan")


@dataclass
class Counts:
    """What happened in this process."""

    recorded: int = 0
    again: int = 0  # of these, recordings of a graph that had one for other addresses
    replayed: int = 0
    skipped: int = 0  # graphs that write to an input which may move: these are not recorded
    step: int = 0
    given: list = field(default_factory=list)  # (step, outputs)


counts = Counts()


def begin_step():
    """torch.compiler.cudagraph_mark_step_begin."""
    counts.step += 1


def poison():
    """Outputs of earlier steps lie where the next replay writes."""
    for step, outputs in counts.given:
        for x in outputs if step < counts.step else ():
            if x.is_floating_point():
                x.fill_(NAN)
    counts.given[:] = [pair for pair in counts.given if pair[0] >= counts.step]


def shape_of(x):
    return (tuple(x.shape), x.stride(), x.dtype) if isinstance(x, torch.Tensor) else x


def cudagraphify(
    model, static_input_idxs=(), *, mutated_input_idxs=(), is_backward=False, is_inference=False, **others
):
    """What compile_fx calls for a graph that may be recorded."""
    static, recordings = set(static_input_idxs), {}

    def run(inputs):
        inputs = list(inputs)
        if any(i not in static for i in mutated_input_idxs):
            counts.skipped += 1
            return model(inputs)
        if not is_backward:
            poison()
        shapes = tuple(map(shape_of, inputs))
        places = tuple(inputs[i].data_ptr() for i in sorted(static) if isinstance(inputs[i], torch.Tensor))
        outputs = recorded(inputs, shapes, places) if (shapes, places) not in recordings else replayed(
            inputs, *recordings[shapes, places]
        )  # fmt: skip
        mine = {inputs[i].untyped_storage().data_ptr() for i in static if isinstance(inputs[i], torch.Tensor)}
        fresh = [
            x for x in outputs if isinstance(x, torch.Tensor) and x.untyped_storage().data_ptr() not in mine
        ]
        counts.given.append((counts.step, fresh))
        return [x.view_as(x) if any(x is y for y in fresh) else x for x in outputs]

    def recorded(inputs, shapes, places):
        counts.recorded += 1
        counts.again += any(known == shapes for known, _ in recordings)
        held = [
            x.clone() if isinstance(x, torch.Tensor) and i not in static else x for i, x in enumerate(inputs)
        ]
        outputs = model(list(held))
        # Static inputs stay the caller's: a recording keeps nothing of them alive.
        recordings[shapes, places] = ([None if i in static else x for i, x in enumerate(held)], outputs)
        return outputs

    def replayed(inputs, held, outputs):
        counts.replayed += 1
        for i, x in enumerate(inputs):
            if isinstance(x, torch.Tensor) and i not in static:
                held[i].copy_(x)
        made = model([x if i in static else held[i] for i, x in enumerate(inputs)])
        for old, new in zip(outputs, made):
            if isinstance(old, torch.Tensor) and old.data_ptr() != new.data_ptr():
                old.copy_(new)
        return outputs

    run._boxed_call = True
    return run
