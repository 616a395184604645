"""What decoding costs: floating-point operations and seconds of a step, and of a whole generation.

Shapes: B rows, S length of the prompt, D width, V vocabulary.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar, Self

import numpy as np

from attest.boundary import JudgedComponent, JudgedImplementation, quiet
from attest.contract import Array, Config
from attest.judging.architectures import ArchitectureCase
from attest.reference.decoding.teacher import SUPPRESSED
from attest.reference.oracle import random_parameters
from attest.sealed.looking import flops, processor_seconds

ROUNDS = 9


@dataclass(frozen=True, kw_only=True)
class Workload(ArchitectureCase):
    """A model large enough that its arithmetic outweighs the calls. `least` columns of anything it reads."""

    kind: ClassVar[str] = "workload"

    B: int = 2
    S: int = 50
    D: int = 256
    layers: int = 1
    max_len: int = 512
    tokens: int = 100

    def fitted(self, impl: JudgedImplementation) -> Self:
        """In the implementation's first dtype, which is the one it is fast in."""
        return super().fitted(impl).but(dtype=impl.dtypes[0])

    @cached_property
    def config(self) -> Config:
        plain = Config(
            d_model=self.D,
            num_encoder_layers=self.layers,
            num_decoder_layers=self.layers,
            max_len=self.max_len,
            dtype=self.dtype,
        )
        return self.with_options(plain)

    @cached_property
    def parameters(self) -> dict[str, Array]:
        """Neither padding nor BOS nor EOS is ever chosen, so that every run has the same length.

        A model without a bias there is only asked for single steps, whose cost is the same for any id.
        """
        made = random_parameters(self.architecture.operation, self.config, np.random.default_rng(0))
        c, bias = self.config, made.get(f"{self.architecture.projection}.bias")
        if bias is not None:
            bias[[c.pad_id, c.bos_id, c.eos_id]] = SUPPRESSED
        return made

    @property
    def num_classes(self) -> int:
        """V, the number of ids that the model can write."""
        return self.architecture.num_classes(self.config)

    @property
    def prompt(self) -> Array:
        """The prompt (B, S)."""
        return self.ids(self.S, stream=self.architecture.prompt)

    def ids(self, length: int, seed: int = 0, *, stream: str = "") -> Array:
        """(B, length) ids without padding; of the written stream unless another is named."""
        vocabulary = self.architecture.vocabulary(stream or self.architecture.written, self.config)
        return np.random.default_rng(seed).integers(3, vocabulary, (self.B, length))

    def request(self, tokens: int) -> dict[str, Any]:
        """Keywords of a greedy call that writes so many tokens."""
        return {self.architecture.prompt_keyword: self.prompt, "max_len": tokens, "method": "greedy"}

    @property
    def opening(self) -> Array:
        """What is read before the first token is written, no shorter than `least`."""
        opening = self.architecture.opening(self.prompt, self.config)
        return np.pad(opening, ((0, 0), (max(0, self.least - opening.shape[1]), 0)), mode="edge")

    @property
    def flops_of_a_step(self) -> int:
        """What one new token per row needs, looking back at all positions there are and at the prompt.

        Self-attention projects four times. A prompt that is read apart has an attention of its own, whose
        keys and values are made once: it projects twice.
        """
        c, D = self.config, self.D
        attention = 4 * D * D + 2 * D * c.max_len
        if not self.architecture.starts_from_rows:
            attention += 2 * D * D + 2 * D * self.S
        per_layer = attention + 2 * D * c.inner_width
        return 2 * self.B * (self.layers * per_layer + D * self.num_classes)


class Decoding:
    """A state that has read a prefix and can be stepped token by token."""

    def __init__(self, model: JudgedComponent, work: Workload, prefix: int) -> None:
        self.model, self.token = model, work.ids(1, seed=1)
        self.state = model.start(work.architecture.beginning(work.prompt))
        _, self.state = model.step(self.state, work.ids(prefix, seed=2))
        self.step()

    def step(self) -> None:
        _, self.state = self.model.step(self.state, self.token)

    def seconds(self) -> float:
        """How long one step takes, in processor time where the CPU computes: other programs do not count."""
        on_cpu = self.model.config.device == "cpu"
        return seconds(self.step, processor_seconds if on_cpu else time.perf_counter)


def loaded(impl: JudgedImplementation, operation: str, work: Workload) -> JudgedComponent:
    """The component with the workload's weights."""
    component = impl.build(operation, work.config)
    component.load(work.parameters)
    return component


def step_flops(impl: JudgedImplementation, work: Workload, prefix: int) -> int:
    """Floating-point operations of one step as torch counts them; 0 where it cannot see them."""
    if impl.compiled:
        return 0
    decoding = Decoding(loaded(impl, work.architecture.operation, work), work, prefix)
    return flops(decoding.step)


def step_seconds(
    impl: JudgedImplementation, few: tuple[Workload, int], many: tuple[Workload, int]
) -> tuple[float, float]:
    """The fastest step of each of two decodings (workload, prefix), taken in turns."""
    pair = [
        Decoding(loaded(impl, work.architecture.operation, work), work, prefix)
        for work, prefix in (few, many)
    ]
    taken = [[decoding.seconds() for decoding in pair] for _ in range(ROUNDS)]
    return min(a for a, _ in taken), min(b for _, b in taken)


def generation_seconds(generate: JudgedComponent, work: Workload, tokens: int) -> tuple[float, Array]:
    """Seconds of a greedy call, and the tokens it gave."""
    seen: list[Any] = []
    request = work.request(tokens)
    taken = seconds(lambda: seen.append(generate.component(**request)))
    return taken, np.asarray(seen[0]["tokens"])


def loop_seconds(
    model: JudgedComponent, work: Workload, tokens: int, stop_after: float = math.inf
) -> list[float]:
    """Seconds up to each token of a loop that runs the whole model on the whole prefix every time."""
    prompt, written = work.prompt, work.opening
    taken, total = [], 0.0
    for _ in range(tokens):
        seen: list[Any] = []
        fed = work.architecture.reading(prompt, written)
        total += seconds(lambda fed=fed, seen=seen: seen.append(model.component(**fed)))  # type: ignore[misc]
        taken.append(total)
        if total > stop_after:
            break
        chosen = np.asarray(seen[0]["logits"])[:, -1].argmax(-1)
        written = np.concatenate([written, chosen[:, None]], axis=1)
    return taken


def seconds(call: Callable[[], Any], clock: Callable[[], float] = time.perf_counter) -> float:
    """How long one call takes, its warnings and prints hidden."""
    with quiet():
        started = clock()
        call()
        return clock() - started
