"""Defects of rotary angles that a rule slows down. Shapes: frequencies (r / 2), one for each pair."""

from __future__ import annotations

import math

import numpy as np

from attest.judging.catalogue import defect
from attest.reference.decoding.text_cache import KeysAndValues, TextCache
from attest.reference.parts.heads import MultiHead
from attest.reference.parts.relative_positions import Rotary
from attest.reference.parts.rotary_scaling import LinearScaling, Llama3, Yarn
from attest.reference.parts.where import Where
from attest.reference.scope import Scope
from attest.reference.tape import Array, Var


@defect("M7.14")
class llama3_dropped(Llama3):
    """The rule of Llama 3 is read and not applied."""

    def scaled(self, frequencies: Array) -> Array:
        return frequencies


@defect("M7.14")
class linear_dropped(LinearScaling):
    """The rule linear is read and not applied."""

    def scaled(self, frequencies: Array) -> Array:
        return frequencies


@defect("M7.14")
class linear_multiplies(LinearScaling):
    """Frequencies are multiplied by the factor."""

    def scaled(self, frequencies: Array) -> Array:
        return np.asarray(frequencies * self.config.rotary_factor)


@defect("M7.14")
class linear_by_another_base(LinearScaling):
    """The base is raised so that the last pair alone turns slower by the factor."""

    def scaled(self, frequencies: Array) -> Array:
        pairs = len(frequencies)
        share = np.arange(pairs) / max(pairs - 1, 1)
        return np.asarray(frequencies * self.config.rotary_factor**-share)


@defect("M7.14")
class bands_exchanged(Llama3):
    """Fast pairs turn slower, and slow ones as before."""

    def kept(self, frequencies: Array) -> Array:
        return 1 - super().kept(frequencies)


@defect("M7.14")
class no_band_between(Llama3):
    """A pair is fast or slow; there is no mixture."""

    def kept(self, frequencies: Array) -> Array:
        return np.asarray(self.turns(frequencies) >= self.config.rotary_fast_turns, float)


@defect("M7.14")
class mixture_upside_down(Llama3):
    """Between fast and slow the shares are exchanged."""

    def kept(self, frequencies: Array) -> Array:
        kept = super().kept(frequencies)
        between = (kept > 0) & (kept < 1)
        return np.where(between, 1 - kept, kept)


@defect("M7.14")
class mixture_of_wavelengths(Llama3):
    """Between fast and slow the wavelengths are mixed, not the frequencies."""

    def scaled(self, frequencies: Array) -> Array:
        kept = self.kept(frequencies)
        return np.asarray(frequencies / (kept + (1 - kept) * self.config.rotary_factor))


@defect("M7.14")
class original_length_of_8192(Llama3):
    """The length that was trained is 8192 whatever is configured."""

    def turns(self, frequencies: Array) -> Array:
        return np.asarray(super().turns(frequencies) * 8192 / self.config.rotary_original)


@defect("M7.14")
class turns_without_two_pi(Llama3):
    """A wavelength is taken for 1 over the frequency."""

    def turns(self, frequencies: Array) -> Array:
        return np.asarray(super().turns(frequencies) * 2 * math.pi)


@defect("M7.14")
class factor_of_eight(Llama3):
    """The factor is 8 whatever is configured."""

    def scaled(self, frequencies: Array) -> Array:
        kept = self.kept(frequencies)
        return np.asarray(frequencies * (kept + (1 - kept) / 8))


@defect("M7.14")
class yarn_is_linear(Yarn):
    """All pairs turn slower by the factor."""

    def kept(self, frequencies: Array) -> Array:
        return np.zeros(len(frequencies))


@defect("M7.14")
class yarn_without_its_gain(Yarn):
    """Cosine and sine are not multiplied."""

    def gain(self) -> float:
        return 1.0


@defect("M7.14")
class yarn_gain_squared(Yarn):
    """The gain is applied to cosine and sine and once more to queries and keys."""

    def gain(self) -> float:
        return super().gain() ** 2


@defect("M7.14")
class yarn_share_by_turns(Yarn):
    """The share follows the turns, as the paper writes it, not the pairs, as checkpoints were trained."""

    def kept(self, frequencies: Array) -> Array:
        turns = self.config.rotary_original * frequencies / (2 * math.pi)
        slow, fast = self.config.rotary_slow_turns, self.config.rotary_fast_turns
        return np.clip((turns - slow) / (fast - slow), 0.0, 1.0)


@defect("M7.14")
class yarn_limits_not_whole(Yarn):
    """The places of the last fast and the first slow pair are not rounded."""

    def kept(self, frequencies: Array) -> Array:
        pairs = len(frequencies)
        first = max(self.pair_of(self.config.rotary_fast_turns, pairs), 0.0)
        last = min(self.pair_of(self.config.rotary_slow_turns, pairs), 2 * pairs - 1)
        divided = np.clip((np.arange(pairs) - first) / (last - first), 0.0, 1.0)
        return np.asarray(1 - divided)


@defect("M7.14")
class yarn_limits_exchanged(Yarn):
    """The turns of fast pairs are taken for those of slow ones."""

    def limits(self, pairs: int) -> tuple[int, int]:
        first, last = super().limits(pairs)
        return last, first


@defect("M7.14")
class rule_for_queries_alone(MultiHead):
    """Keys are turned by the angles of training."""

    def turned_keys(self, k: Var, p: Scope, where: Where) -> Var:
        return _without_rule(self).rotate(self.normed(k, p, "key_norm"), where)


@defect("M7.14")
class rule_dropped_in_steps(TextCache):
    """Steps behind the first turn their queries by the angles of training."""

    def attended(self, grown: KeysAndValues, y: Var, p: Scope, where: Where) -> Var:
        kept = self.parts.heads.parts.positions
        if y.shape[1] == grown.keys.array.shape[2] or not isinstance(kept, Rotary):
            return super().attended(grown, y, p, where)
        self.parts.positions = _without_rule(self)
        try:
            return super().attended(grown, y, p, where)
        finally:
            self.parts.positions = kept


def _without_rule(part: MultiHead | TextCache) -> Rotary:
    """Positions of the same config whose angles nothing slows down."""
    if part.config.positions != "rotary":
        return part.parts.positions  # type: ignore[return-value]  # nothing is turned
    found: Rotary = part.parts.but(rotary_scaling="none").positions  # type: ignore[assignment]
    return found
