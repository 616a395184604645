"""What the model says of tokens that are given to it all at once, and how far a correct one may be from that.

Shapes: R rows, n tokens of a hypothesis, V vocabulary. A hypothesis has no BOS and no padding.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from attest.contract import ENCODER_DECODER, Architecture, Arrays, Config
from attest.reference.decoding.sampling import log_normalised
from attest.reference.oracle import EPSILON, expected
from attest.reference.tape import Array

SUPPRESSED = -1e4  # projection bias of tokens the harness never wants generated
Tokens = tuple[int, ...]


@dataclass(frozen=True)
class Reading:
    """The logits (n, V) each token was chosen from, their bounds (n,), and the sum over the tokens."""

    tokens: Tokens
    logits: Array
    bounds: Array
    log_probability: float
    error: float  # how far a correct sum may be from log_probability


class Teacher:
    """One model, asked about given tokens."""

    def __init__(
        self,
        config: Config,
        parameters: Arrays,
        factor: float = 1.0,  # how far the bounds are widened
        architecture: Architecture = ENCODER_DECODER,
    ) -> None:
        self.config, self.factor, self.architecture = config, factor, architecture
        self.lowered, changed = without_suppressed(architecture.projection, parameters)
        self.parameters = {**parameters, **changed}

    def logits(self, prompt: Array, hypotheses: Sequence[Tokens]) -> tuple[Array, Array]:
        """(R, n, V) and the bound of each row (R, n): what each token of the longest is chosen from."""
        inputs, first = self.inputs(prompt, hypotheses)
        wanted = expected(self.architecture.operation, self.config, self.parameters, inputs)["logits"]
        return wanted.value[:, first:] + self.lowered, self.factor * wanted.bound[:, first:, 0]

    def inputs(self, prompt: Array, hypotheses: Sequence[Tokens]) -> tuple[dict[str, Array], int]:
        """The streams with all but the last token of each hypothesis, padded on the right.

        And the place of the logits from which the first token is chosen.
        """
        longest = max(map(len, hypotheses))
        fed = np.full((len(hypotheses), longest - 1), self.config.pad_id, dtype=np.int64)
        for row, tokens in zip(fed, hypotheses):
            row[: len(tokens) - 1] = tokens[:-1]
        return self.architecture.continued(prompt, fed, self.config)

    def read(self, prompt: Array, hypotheses: Sequence[Tokens]) -> list[Reading]:
        """One reading per hypothesis and row of the prompt (R, P)."""
        logits, bounds = self.logits(prompt, hypotheses)
        return [
            self.reading(tokens, logits[row, : len(tokens)], bounds[row, : len(tokens)])
            for row, tokens in enumerate(hypotheses)
        ]

    def reading(self, tokens: Tokens, logits: Array, bounds: Array) -> Reading:
        """Each term may be off by twice its row's bound, and the sum is rounded as well."""
        total = summed(logits, tokens)
        rounding = 8 * EPSILON[self.config.dtype] * (abs(total) + len(tokens))
        return Reading(tokens, logits, bounds, total, float(2 * bounds.sum()) + rounding)


def without_suppressed(projection: str, parameters: Arrays) -> tuple[Array, dict[str, Array]]:
    """What lowers the logits (V,) of suppressed tokens, and the projection without it.

    The large negative entries alone would set the scale of every bound. Where there is no bias, the first
    feature is large enough at every position that its weights lower a logit by thousands, whatever they are.
    """
    bias, weight = f"{projection}.bias", f"{projection}.weight"
    if bias in parameters:
        numbers = np.array(parameters[bias], dtype=np.float64)
        lowered = np.where(numbers <= SUPPRESSED / 2, numbers, 0.0)
        return lowered, {bias: numbers - lowered}
    rows = np.array(parameters[weight], dtype=np.float64)
    suppressed = rows[:, 0] <= SUPPRESSED / 1000
    rows[suppressed, 0] = 0.0
    return np.where(suppressed, SUPPRESSED, 0.0), {weight: rows}


def summed(logits: Array, tokens: Tokens) -> float:
    """The log-probability of the tokens under logits (n, V)."""
    logs = log_normalised(np.asarray(logits, dtype=np.float64))
    return float(sum(logs[i, token] for i, token in enumerate(tokens)))
