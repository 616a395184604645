"""Correct variants of model, loss and training: unusual, and every criterion of M5 must pass them."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np

from attest.contract import Arrays
from attest.judging.catalogue import variant
from attest.reference import ops
from attest.reference.models.transformer import ReferenceTransformer
from attest.reference.parts.embedding import Embedding, Logits
from attest.reference.scope import Scope
from attest.reference.tape import Array, Var
from attest.reference.training.loss import Loss
from attest.reference.training.optimisation import Adam, Clipping, Moments, Schedule
from attest.reference.training.trainer import ReferenceTrainer

LONG = ("M5.10b",)  # five hundred steps of the reference; one variant of each kind is enough


@variant("M5")
class loss_by_log_sum_exp(Loss):
    """The loss of a token is log-sum-exp minus what its target asks for."""

    def token_losses(self, logits: Var, labels: Array, smoothing: float) -> Var:
        wanted = self.target_distribution(labels, logits.shape[-1], smoothing)
        log_p = ops.log_softmax(logits)
        at_zero = ops.sub(log_p, logits)  # minus log-sum-exp in every column
        picked = ops.sum_last(ops.scale(logits, wanted))
        return ops.sub(ops.scale(ops.sum_last(at_zero), -1.0 / logits.shape[-1]), picked)


@variant("M5", spared=LONG)
class adam_folds_its_corrections(Adam):
    """Both corrections go into the rate, and epsilon is scaled to match."""

    def adam_direction(self, name: str, g: Array, moments: Moments) -> Array:
        super().adam_direction(name, g, moments)
        root = math.sqrt(1 - self.beta2**moments.steps)
        size = root / (1 - self.beta1**moments.steps)
        direction: Array = (
            size * moments.first[name] / (np.sqrt(moments.second[name]) + root * self.adam_epsilon)
        )
        return direction


@variant("M5", spared=LONG)
class clips_with_a_safe_norm(Clipping):
    """The norm is taken of gradients divided by their largest number."""

    def global_norm(self, gradients: Arrays) -> float:
        largest = max((float(np.max(np.abs(g), initial=0.0)) for g in gradients.values()), default=0.0)
        if not largest:
            return 0.0
        return largest * super().global_norm({name: g / largest for name, g in gradients.items()})


@variant("M5", spared=LONG)
class accumulates_by_concatenation(ReferenceTrainer):
    """Several batches are padded to one width and become one batch."""

    def accumulate(self, batches: Sequence[Arrays]) -> dict[str, float]:
        if len(batches) == 1:
            return super().accumulate(batches)
        joined = {}
        for name in ("source", "target"):
            width = max(batch[name].shape[1] for batch in batches)
            parts = [self.padded(b[name], width) for b in batches]
            joined[name] = np.concatenate(parts)
        return super().accumulate([joined])

    def padded(self, ids: Array, width: int) -> Array:
        columns = ((0, 0), (0, width - ids.shape[1]))
        return np.pad(ids, columns, constant_values=self.config.pad_id)


@variant("M5", spared=LONG)
class fit_reads_ahead(ReferenceTrainer):
    """All batches are read before the first step."""

    def fit(self, batches: Iterable[Arrays], log_every: int, on_log: Callable[[dict[str, Any]], Any]) -> None:
        super().fit(list(batches), log_every, on_log)


@variant("M5", spared=LONG)
class evaluates_row_by_row(ReferenceTrainer):
    """Every row is passed through the model as a batch of one."""

    def evaluate(self, batches: Iterable[Arrays]) -> dict[str, float]:
        rows = [{n: x[i : i + 1] for n, x in b.items()} for b in batches for i in range(len(b["source"]))]
        return super().evaluate(rows)


@variant("M5", spared=LONG)
class starts_small(ReferenceTransformer):
    """Every weight starts from N(0, 0.02^2)."""

    def initial(self) -> dict[str, Array]:
        rng = np.random.default_rng(self.config.seed)
        return {
            name: (0.02 * rng.standard_normal(value.shape)).astype(value.dtype) if value.ndim == 2 else value
            for name, value in super().initial().items()
        }


@variant("M5", spared=LONG)
class projects_with_the_bias_first(Logits):
    """The projection's bias is one more column of the weight."""

    def __call__(self, x: Var, p: Scope) -> Var:
        bias = p.get("projection.bias")
        if bias is None:
            return super().__call__(x, p)
        ones = Var(np.ones((*x.shape[:-1], 1)))
        weight = ops.concat([self.weight(p), ops.reshape(bias, (*bias.shape, 1))])
        return ops.matmul(ops.concat([x, ones]), ops.swap(weight))


@variant("M5", spared=("M5.5a", *LONG))
class refuses_warm_up_0(Schedule):
    """The paper's formula divides by zero there, and so this one is never made."""

    def __call__(self, step: int) -> float:
        if not self.config.warmup:
            raise ValueError("warmup=0 has no rate; give at least 1")
        return super().__call__(step)


@variant("M5", spared=LONG)
class pad_row_has_a_gradient_of_its_own(Embedding):
    """The lookup does not know padding: with right masks the row gets no gradient all the same."""

    def embed(self, ids: Array, table: Var) -> Var:
        return ops.take(table, ids)
