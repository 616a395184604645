"""What the criteria of compiled implementations call: small configs and inputs of any length.

Shapes: B = 2 rows, n positions, D = 8 (32 in the whole model), V = 11.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from attest.boundary import JudgedComponent, JudgedImplementation, guarded
from attest.checks.arrays import expect
from attest.contract import OPERATIONS, Array, Config, Form, Operation
from attest.judging.inputs import inputs_of as drawn_inputs

# 1 comes first: compilers specialise on it. Then lengths that a program for the first ones must still serve.
LENGTHS = (1, 2, 3, 4, 5, 9, 17)
REPORTED = ("graphs", "graph_breaks", "compilations", "compiled_calls")
B = 2  # a batch of 1 would be specialised: torch's dynamic shapes start at 2
SIZES = Config(
    d_model=8,
    num_heads=2,
    d_ff=16,
    num_encoder_layers=2,
    num_decoder_layers=2,
    source_vocab=11,
    target_vocab=11,
    max_len=64,
)
MODEL = SIZES.but(  # the sizes of M5's fixed cases: one graph serves both
    d_model=32, d_ff=64, num_encoder_layers=1, num_decoder_layers=1, max_len=128, dropout=0.3
)


def operations() -> list[Operation]:
    """The operations that a compiler may stand behind: those that map arrays to arrays."""
    return [record for record in OPERATIONS.values() if record.computes]


def config_of(impl: JudgedImplementation, operation: str) -> Config:
    """The sizes of an operation, in the first dtype the implementation has; of the model in the sharpest."""
    if OPERATIONS[operation].form in (Form.MODEL, Form.TRAINER):
        return MODEL.but(dtype=impl.sharpest)
    return SIZES.but(dtype=impl.dtypes[0])


def new_component(impl: JudgedImplementation, operation: str) -> JudgedComponent:
    """A component that has not been called yet."""
    config = impl.with_run_options(config_of(impl, operation))
    return JudgedComponent(operation, impl.construct(operation, config), config, impl)


def inputs_of(operation: str, config: Config, n: int, seed: int = 0) -> dict[str, Any]:
    """Inputs of length n: sequences, keys and memories alike; the last key of row 1 is hidden."""
    rng = np.random.default_rng([seed, n])
    lengths = {"B": B, "T": n, "S": n}
    return drawn_inputs(OPERATIONS[operation], config, lengths, rng, masks=True, lowest=3)


def batch() -> dict[str, Array]:
    """For a trainer: BOS, three ids, EOS."""
    rng = np.random.default_rng(1)
    source, target = rng.integers(3, 11, (B, 4)), rng.integers(3, 11, (B, 5))
    target[:, 0], target[:, -1] = MODEL.bos_id, MODEL.eos_id
    return {"source": source, "target": target}


def tokens(count: int = 1) -> Array:
    """(B, count) for a decoding step."""
    return np.full((B, count), 4, np.int64)


def report_of(component: Any, what: str) -> dict[str, int]:
    """The compile report of a component, or of a trainer's model."""
    holder = component if hasattr(component, "compile_report") else getattr(component, "model", None)
    asked = getattr(holder, "compile_report", None)
    expect(callable(asked), f"{what} has no compile_report(); answer {', '.join(REPORTED)}")
    report = guarded(f"{what}.compile_report", asked)  # type: ignore[arg-type]
    complete = isinstance(report, Mapping) and set(REPORTED) <= set(report)
    expect(complete, f"{what}.compile_report() gave {report!r:.80}; answer {', '.join(REPORTED)}")
    return {name: int(report[name]) for name in REPORTED}
