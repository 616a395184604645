"""Defects of saving and resuming, and of what a seed decides."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from attest.judging.catalogue import defect
from attest.reference.models.transformer import ReferenceTransformer
from attest.reference.tape import Array
from attest.reference.training.optimisation import Moments
from attest.reference.training.trainer import FILE, ReferenceTrainer


@defect("M5.11")
class optimiser_state_lost(ReferenceTrainer):
    """The moments start again from zero."""

    def restore_optimizer(self, moments: Moments) -> None:
        self.moments = Moments()


@defect("M5.11")
class second_moment_lost(ReferenceTrainer):
    """Only the first moment is saved."""

    def restore_optimizer(self, moments: Moments) -> None:
        zeros = {name: np.zeros_like(value) for name, value in moments.second.items()}
        self.moments = Moments(moments.steps, moments.first, zeros)


@defect("M5.11")
class adam_counts_from_zero(ReferenceTrainer):
    """The moments come back without their number of steps: they are corrected twice."""

    def restore_optimizer(self, moments: Moments) -> None:
        self.moments = Moments(0, moments.first, moments.second)


@defect("M5.11")
class schedule_restarts(ReferenceTrainer):
    """The warm-up begins again."""

    def restore_schedule(self, steps: int) -> None:
        self.steps = 0


@defect("M5.11")
class schedule_one_behind(ReferenceTrainer):
    """The last step's rate is used twice."""

    def restore_schedule(self, steps: int) -> None:
        self.steps = max(steps - 1, 0)


@defect("M5.11")
class random_state_lost(ReferenceTrainer):
    """Dropout begins again with the noise of the first step."""

    def restore_random(self, draws: int) -> None:
        self.draws = 0


@defect("M5.11")
class seed_of_the_noise_lost(ReferenceTrainer):
    """The noise after loading comes from the seed of the trainer that loads."""

    def restore_seed(self, seed: int) -> None:
        return


@defect("M5.11")
class first_checkpoint_stays(ReferenceTrainer):
    """A checkpoint that is there is not written again."""

    def save(self, directory: str) -> None:
        if not (Path(directory) / FILE).exists():
            super().save(directory)


@defect("M5.11")
class parameters_rounded_on_save(ReferenceTrainer):
    """The checkpoint holds half precision."""

    def load(self, directory: str) -> None:
        super().load(directory)
        narrow = {name: value.astype(np.float16) for name, value in self.model.values.items()}
        self.model.load(narrow)


@defect("M5.11")
class saving_disturbs_the_run(ReferenceTrainer):
    """Saving draws random numbers."""

    def save(self, directory: str) -> None:
        super().save(directory)
        self.draws += 1


@defect("M5.10c")
class start_ignores_the_seed(ReferenceTransformer):
    """Every model starts from the same parameters."""

    def initial(self) -> dict[str, Array]:
        kept, self.config = self.config, self.config.but(seed=0)
        try:
            return super().initial()
        finally:
            self.config = kept


@defect("M5.10c")
class start_is_not_repeatable(ReferenceTransformer):
    """Parameters are drawn from the clock."""

    def initial(self) -> dict[str, Array]:
        rng = np.random.default_rng()
        return {name: value + (1e-3 * rng.standard_normal(value.shape)).astype(value.dtype)
                for name, value in super().initial().items()}  # fmt: skip
