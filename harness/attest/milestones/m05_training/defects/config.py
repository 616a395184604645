"""Defects of refusing configurations."""

from __future__ import annotations

import math

from attest.contract import Config
from attest.contract.config import RULES, Holds
from attest.judging.catalogue import defect
from attest.reference.component import ReferenceComponent
from attest.reference.validation import check_share


@defect("M5.12")
class validates_by_assert(ReferenceComponent):
    """Every rule is an assert, and python -O has none of them."""

    def check_config(self) -> None:
        problem = None
        try:
            super().check_config()
        except ValueError as error:
            problem = error
        assert problem is None, problem


@defect("M5.12")
class zero_heads_divides(ReferenceComponent):
    """Only a remainder is looked for: 0, negative and fractional numbers of heads pass."""

    def check_heads(self) -> None:
        heads, width = self.config.num_heads, self.config.d_model
        if "num_heads" in self.reads and heads and width % int(heads):
            raise ValueError(f"num_heads={heads!r} does not divide d_model={width}; choose a divisor")


@defect("M5.12")
class nan_dropout_accepted(ReferenceComponent):
    """NaN is neither below 0 nor above 1."""

    def check_dropout(self) -> None:
        if "dropout" in self.reads and not (
            isinstance(self.config.dropout, float) and math.isnan(self.config.dropout)
        ):
            check_share("dropout", self.config.dropout)


@defect("M5.12d")
class infinite_numbers_accepted(ReferenceComponent):
    """An epsilon or a rate is only asked whether it is below zero: infinity and NaN are not."""

    def check_numbers(self) -> None:
        for name, _ in (*self.fields(Holds.NUMBER), *self.fields(Holds.NUMBER, training=True)):
            if getattr(self.config, name) < 0:
                raise ValueError(f"{name}={getattr(self.config, name)} is negative; give 0 or more")


@defect("M5.12")
class full_dropout_accepted(ReferenceComponent):
    """Dropout 1 divides by zero when it is used."""

    def check_dropout(self) -> None:
        if "dropout" in self.reads and self.config.dropout != 1:
            check_share("dropout", self.config.dropout)


@defect("M5.12")
class special_ids_clash(ReferenceComponent):
    """Padding, start and end may be the same id, or lie outside the vocabulary."""

    def check_special_ids(self) -> None:
        return


@defect("M5.12")
class d_ff_unchecked(ReferenceComponent):
    """The inner width may be anything."""

    def check_inner_width(self) -> None:
        return


@defect("M5.12")
class sizes_as_floats(ReferenceComponent):
    """512.0 is taken for 512."""

    def check_sizes(self) -> None:
        kept, c = self.config, self.config
        names = [name for name, rule in RULES.items() if rule.holds is Holds.SIZE and not rule.divides]
        whole = {n: int(v) for n in names if isinstance(v := getattr(c, n), float) and v.is_integer()}
        self.config = c.but(**whole)
        try:
            super().check_sizes()
        finally:
            self.config = kept


@defect("M5.12")
class unknown_choice_is_the_default(ReferenceComponent):
    """An unknown norm or activation is taken for the default."""

    def check_choices(self) -> None:
        return


class _TrainingAs(ReferenceComponent):
    """The rules of training are put to another config."""

    def check_training(self) -> None:
        kept, self.config = self.config, self.taken_for(self.config)
        try:
            super().check_training()
        finally:
            self.config = kept

    def taken_for(self, config: Config) -> Config:
        raise NotImplementedError


@defect("M5.12")
class unknown_schedule_is_the_default(_TrainingAs):
    """An unknown schedule is taken for the paper's."""

    def taken_for(self, config: Config) -> Config:
        return config.but(schedule="inverse_sqrt")


@defect("M5.12")
class negative_warmup_accepted(_TrainingAs):
    """A warm-up of -1 steps is none."""

    def taken_for(self, config: Config) -> Config:
        return config.but(warmup=0 if config.warmup == -1 else config.warmup)


@defect("M5.12")
class nan_clipping_accepted(_TrainingAs):
    """A limit of NaN is not at most 0, and clips nothing or everything."""

    def taken_for(self, config: Config) -> Config:
        return config.but(clip_norm=1.0 if math.isnan(config.clip_norm) else config.clip_norm)


@defect("M5.12")
class full_smoothing_accepted(_TrainingAs):
    """A smoothing of 1 leaves nothing of the labels."""

    def taken_for(self, config: Config) -> Config:
        return config.but(label_smoothing=0.0 if config.label_smoothing == 1 else config.label_smoothing)


@defect("M5.12a")
class refusal_names_nothing(ReferenceComponent):
    """Every fault is called invalid."""

    def check_config(self) -> None:
        try:
            super().check_config()
        except ValueError:
            raise ValueError("invalid configuration") from None


@defect("M5.12a")
class refusal_of_the_wrong_kind(ReferenceComponent):
    """A configuration that makes no sense raises a RuntimeError."""

    def check_config(self) -> None:
        try:
            super().check_config()
        except ValueError as error:
            raise RuntimeError(str(error)) from None
