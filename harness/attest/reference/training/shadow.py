"""A reference that walks beside a trainer: what its next step should do, from where it stands.

Every step is judged from the trainer's own parameters before it, so that errors do not add up: Adam turns
rounding into a step of full size wherever the gradient is nothing but noise (the bias of the keys), and two
correct runs drift apart. The moments are the shadow's own.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from attest.contract import ENCODER_DECODER, Architecture, Arrays, Config
from attest.contract.architectures import SHIFTED
from attest.outcomes import Expected
from attest.reference.assembly import Parts
from attest.reference.component import ReferenceComponent
from attest.reference.oracle import EPSILON, GRADIENT_FACTOR, NOISE_FACTOR
from attest.reference.tape import Array
from attest.reference.training.optimisation import Moments
from attest.reference.training.trainer import ReferenceTrainer

# Adam's direction m / sqrt(v) is at most 1.70 in size: by the inequality of Cauchy and Schwarz its square
# is at most the sum of a_i^2 / b_i over the steps, a and b being the weights of the two means (beta 0.9 and
# 0.98, with bias correction); that sum grows from 1 at the first step to 1.70^2. Two directions differ by
# at most 3.40.
FARTHEST = 4.0
# When every gradient moves by at most d, the mean m moves by d at most, and so does r = sqrt(v), a weighted
# length of the gradients. To first order m / r moves by (1 + 1.70) d / r. The rest is for the second order.
SLOPE = 4.0
SMOOTHED = 0.01  # so much more smoothing shows how the gradient follows the probabilities
SLACK = 1e-5  # of a direction: clipping is asked for within 1e-5, and libraries divide by norm + 1e-6


@dataclass(frozen=True)
class ExpectedStep:
    """What a step reports and the parameters after it."""

    loss: Expected
    norm: Expected
    rate: float
    parameters: dict[str, Expected]


class Shadow:
    """The optimiser's state of a run without dropout; call it before each step of the trainer."""

    def __init__(self, config: Config, architecture: Architecture = ENCODER_DECODER) -> None:
        self.config, self.eps, self.architecture = config, EPSILON[config.dtype], architecture
        self.parts = Parts(_exact(config))
        self.moments = Moments()
        self.uncertain: dict[str, float] = {}

    def __call__(self, parameters: Arrays, batches: Sequence[Arrays]) -> ExpectedStep:
        """One update from these batches together, starting from these parameters."""
        loss, found = self._loss_and_gradients(parameters, batches)
        moved = [
            self._loss_and_gradients(_disturbed(parameters, 4 * self.eps, seed), batches) for seed in (0, 1)
        ]
        if self.architecture.labels != SHIFTED:
            moved.append((loss + 4 * self.eps, self._with_rounded_logits(parameters, batches, found)))
        norm = self.parts.clipping.global_norm(found)
        rate = self.parts.schedule(self.moments.steps + 1)
        return ExpectedStep(
            self._near(loss, [m[0] for m in moved]),
            self._near(norm, [self.parts.clipping.global_norm(m[1]) for m in moved]),
            rate,
            self._updated(parameters, found, [m[1] for m in moved], rate),
        )

    def _with_rounded_logits(
        self, parameters: Arrays, batches: Sequence[Arrays], found: Arrays
    ) -> dict[str, Array]:
        """The gradients with probabilities that are off by a few roundings.

        A gradient of the logits is p - 1 at the label. Where a model is sure, p is rounded to a multiple of
        eps near 1, and what is left of the difference is mostly that rounding: no change of the parameters
        shows it. A batch with one label meets this. More smoothing moves p - 1 in the same direction.
        """
        smoothing = self.config.label_smoothing
        other = self._loss_and_gradients(parameters, batches, smoothing + SMOOTHED)[1]
        part = 4 * self.eps / SMOOTHED
        return {name: g + part * (other[name] - g) for name, g in found.items()}

    def gradient_norm(self, parameters: Arrays, batch: Arrays) -> float:
        """The length of the gradient at these parameters, without dropout."""
        return self.parts.clipping.global_norm(self._loss_and_gradients(parameters, [batch])[1])

    def evaluation_loss(self, parameters: Arrays, batches: Sequence[Arrays]) -> Expected:
        """Loss per token over all batches, without smoothing and dropout."""
        losses = [
            self._trainer(near).evaluate(batches)["loss"]
            for near in (parameters, *(_disturbed(parameters, 4 * self.eps, seed) for seed in (0, 1)))
        ]
        return self._near(losses[0], losses[1:])

    def _trainer(self, parameters: Arrays, smoothing: float | None = None) -> ReferenceTrainer:
        wide = _exact(self.config)
        wide = wide if smoothing is None else wide.but(label_smoothing=smoothing)
        model = ReferenceComponent(Parts(wide), self.architecture.operation, wide)
        model.load(parameters)
        return ReferenceTrainer(model, wide, self.architecture)

    def _loss_and_gradients(
        self, parameters: Arrays, batches: Sequence[Arrays], smoothing: float | None = None
    ) -> tuple[float, dict[str, Array]]:
        trainer = self._trainer(parameters, smoothing)
        parts = [trainer.loss_and_gradients(batch) for batch in batches]
        weights = trainer.batch_weights([tokens for _, tokens, _ in parts])
        loss = sum(w * part[0] for w, part in zip(weights, parts))
        return float(loss), trainer.weighted_sum(weights, [part[2] for part in parts])

    def _near(self, value: float, moved: Sequence[float]) -> Expected:
        noise = max(abs(m - value) for m in moved)
        allowed = GRADIENT_FACTOR * self.eps * (abs(value) + 1e-2) + NOISE_FACTOR * noise
        return Expected(np.asarray(value), np.asarray(allowed))

    def _updated(
        self, parameters: Arrays, found: Arrays, moved: Sequence[Arrays], rate: float
    ) -> dict[str, Expected]:
        """After clipping and Adam; allowed is what the gradient's error does to the direction."""
        factor = self.parts.clipping.clip_factor(self.parts.clipping.global_norm(found))
        errors = _gradient_errors(found, moved, self.eps)
        after = self.parts.adam.adam_step(parameters, self.moments, self.parts.clipping.clip(found), rate)
        debias = 1 - self.parts.adam.beta2**self.moments.steps
        expected = {}
        for name, value in after.items():
            # Clipping multiplies the error of the gradient and adds that of the norm.
            error = self.uncertain[name] = max(self.uncertain.get(name, 0.0), 2 * factor * errors[name])
            root = np.sqrt(self.moments.second[name] / debias) + self.parts.adam.adam_epsilon
            allowed = rate * (SLACK + np.minimum(FARTHEST, SLOPE * error / root))
            expected[name] = Expected(value, allowed + 8 * self.eps * (np.abs(value) + rate))
        return expected


def _exact(config: Config) -> Config:
    return config.but(dtype="float64", dropout=0.0, device="cpu")


def _disturbed(parameters: Arrays, size: float, seed: int) -> dict[str, Array]:
    rng = np.random.default_rng(seed)
    return {
        name: np.asarray(x, np.float64) * (1 + size * rng.standard_normal(np.shape(x)))
        for name, x in parameters.items()
    }


def _gradient_errors(exact: Arrays, moved: Sequence[Mapping[str, Array]], eps: float) -> dict[str, float]:
    """As for `bounded_gradients`, one number per array."""
    scale = max(float(np.max(np.abs(g), initial=0.0)) for g in exact.values())
    errors = {}
    for name, gradient in exact.items():
        own = float(np.max(np.abs(gradient), initial=0.0))
        noise = max(float(np.max(np.abs(m[name] - gradient), initial=0.0)) for m in moved)
        errors[name] = GRADIENT_FACTOR * eps * (own + 1e-2 * scale) + NOISE_FACTOR * noise
    return errors
