"""Defects of dropout: places, rate, factor, seed and mode."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from attest.judging.catalogue import defect
from attest.reference import ops
from attest.reference.component import ReferenceComponent
from attest.reference.parts.attention import Attention
from attest.reference.parts.dropout import Dropout
from attest.reference.parts.embedding import Embedding
from attest.reference.parts.norms import Residual, Sublayer
from attest.reference.parts.part import Outputs
from attest.reference.parts.where import Where
from attest.reference.scope import Scope
from attest.reference.tape import Array, Var, node

REQUIRED = ("embedding", "sublayer")


@defect("M3.7")
class dropout_missing_on_embedding(Dropout):
    """Tokens and positions go in whole."""

    def __call__(self, x: Var, place: str) -> Var:
        return x if place == "embedding" else super().__call__(x, place)


@defect("M3.7a")
class dropout_missing_on_sublayer(Dropout):
    """Sublayers' outputs are added whole."""

    def __call__(self, x: Var, place: str) -> Var:
        return x if place == "sublayer" else super().__call__(x, place)


class Chosen(Residual):
    """Dropout is left out in one sublayer of a layer."""

    spared = ""

    def __call__(self, x: Var, sublayer: Sublayer, norm: Scope) -> Var:
        noise = self.noise
        if norm.prefix.endswith(self.spared):
            self.parts.noise = None
        try:
            return super().__call__(x, sublayer, norm)
        finally:
            self.parts.noise = noise


@defect("M3.7a")
class first_sublayer_spared(Chosen):
    """Self-attention's output is never dropped."""

    spared = "norm0."


@defect("M3.7a")
class third_sublayer_spared(Chosen):
    """The decoder's feed-forward output is never dropped."""

    spared = "norm2."


@defect("M4.16")
class gradient_not_rescaled(Dropout):
    """What was kept is divided by 1 - p, its gradient is not."""

    def __call__(self, x: Var, place: str) -> Var:
        y = super().__call__(x, place)
        if y is x:
            return x
        keeps = 1.0 - self.config.dropout
        return node(y.value, (y,), lambda g: (keeps * g,), y.variance)


@defect("M3.7", "M3.7a")
class dropout_not_rescaled(Dropout):
    """What is kept is not divided by 1 - p."""

    def __call__(self, x: Var, place: str) -> Var:
        if self.noise is None:
            return x
        return ops.scale(super().__call__(x, place), 1.0 - self.config.dropout)


@defect("M3.7", "M3.7a")
class dropout_rescaled_by_p(Dropout):
    """What is kept is divided by p."""

    def __call__(self, x: Var, place: str) -> Var:
        p = self.config.dropout
        if self.noise is None or not p:
            return x
        return ops.scale(super().__call__(x, place), (1.0 - p) / p)


@defect("M3.7", "M3.7a")
class rate_is_the_share_kept(Dropout):
    """p is taken for the probability of keeping."""

    def __call__(self, x: Var, place: str) -> Var:
        p = self.config.dropout
        if self.noise is None or not p:
            return x
        return ops.scale(x, (self.noise.random(x.shape) < p) / p)


@defect("M3.7", "M3.7a")
class rate_never_above_a_half(Dropout):
    """Above a half, p and 1 - p change places."""

    def __call__(self, x: Var, place: str) -> Var:
        p = min(self.config.dropout, 1.0 - self.config.dropout)
        if self.noise is None or not p:
            return x
        return ops.scale(x, (self.noise.random(x.shape) >= p) / (1.0 - p))


@defect("M3.7", "M3.7a")
class dropout_twice(Dropout):
    """Once in the sublayer and once in the residual connection."""

    def __call__(self, x: Var, place: str) -> Var:
        found = super().__call__(x, place)
        return super().__call__(found, place) if place in REQUIRED else found


@defect("M3.7", "M3.7a")
class rate_a_third_too_high(Dropout):
    """More is dropped than the factor makes up for."""

    def __call__(self, x: Var, place: str) -> Var:
        p = self.config.dropout
        if self.noise is None or not p:
            return x
        return ops.scale(x, (self.noise.random(x.shape) >= 4 * p / 3) / (1.0 - p))


@defect("M3.7", "M3.7a")
class whole_positions_dropped(Dropout):
    """All features of a position share one draw."""

    def __call__(self, x: Var, place: str) -> Var:
        if self.noise is None or not self.config.dropout or place not in REQUIRED:
            return super().__call__(x, place)
        kept = self.noise.random((*x.shape[:-1], 1)) >= self.config.dropout
        return ops.scale(x, np.broadcast_to(kept, x.shape) / (1.0 - self.config.dropout))


@defect("M3.7", "M3.7a")
class one_mask_for_the_batch(Dropout):
    """All sentences of a batch share their mask."""

    def __call__(self, x: Var, place: str) -> Var:
        if self.noise is None or not self.config.dropout or place not in REQUIRED:
            return super().__call__(x, place)
        kept = self.noise.random((1, *x.shape[1:])) >= self.config.dropout
        return ops.scale(x, np.broadcast_to(kept, x.shape) / (1.0 - self.config.dropout))


@defect("M3.7")
class half_a_mask_repeated(Dropout):
    """Half of the features are drawn, the others copy them."""

    def __call__(self, x: Var, place: str) -> Var:
        if self.noise is None or not self.config.dropout or place != "embedding":
            return super().__call__(x, place)
        half = self.noise.random((*x.shape[:-1], (x.shape[-1] + 1) // 2)) >= self.config.dropout
        kept = np.concatenate([half, half], axis=-1)[..., : x.shape[-1]]
        return ops.scale(x, kept / (1.0 - self.config.dropout))


@defect("M3.7a")
class one_mask_for_all_sublayers(Dropout):
    """Every sublayer draws from the same seed again."""

    def __call__(self, x: Var, place: str) -> Var:
        if self.noise is None or place != "sublayer":
            return super().__call__(x, place)
        noise, self.parts.noise = self.noise, np.random.default_rng(7)
        try:
            return super().__call__(x, place)
        finally:
            self.parts.noise = noise


@defect("M3.7")
class dropout_before_positions(Embedding):
    """Tokens are dropped, their positions are not."""

    def __call__(self, ids: Array, table: Var, where: Where) -> Var:
        tokens = ops.scale(self.embed(ids, table), self.scale())
        return self.parts.positions.add(self.parts.dropout(tokens, "embedding"), where)


@defect("M3.7a")
class dropout_on_residual_sum(Residual):
    """The sum of input and sublayer is dropped, and the residual path with it."""

    def __call__(self, x: Var, sublayer: Sublayer, norm: Scope) -> Var:
        if self.config.norm == "pre":
            return self.parts.dropout(ops.add(x, sublayer(self.parts.norm(x, norm))), "sublayer")
        return self.parts.norm(self.parts.dropout(ops.add(x, sublayer(x)), "sublayer"), norm)


@defect("M3.7a")
class dropout_after_the_norm(Residual):
    """In a post-norm layer, what the norm puts out is dropped."""

    def __call__(self, x: Var, sublayer: Sublayer, norm: Scope) -> Var:
        if self.config.norm == "pre":
            return super().__call__(x, sublayer, norm)
        return self.parts.dropout(self.parts.norm(ops.add(x, sublayer(x)), norm), "sublayer")


@defect("M3.7a")
class dropout_on_skip_path(Residual):
    """The input of the sublayer is dropped where it is added back."""

    def __call__(self, x: Var, sublayer: Sublayer, norm: Scope) -> Var:
        if self.config.norm == "pre":
            return ops.add(self.parts.dropout(x, "sublayer"), sublayer(self.parts.norm(x, norm)))
        return self.parts.norm(ops.add(self.parts.dropout(x, "sublayer"), sublayer(x)), norm)


@defect("M3.7a")
class dropout_on_scores(Attention):
    """Scores are dropped before the softmax: the key is then seen with a score of zero."""

    def scale(self, scores: Var, q: Var, k: Var, where: Where) -> Var:
        return self.parts.dropout(super().scale(scores, q, k, where), "attention")


@defect("M3.7a")
class attention_dropout_not_rescaled(Dropout):
    """Attention weights that are kept are not divided by 1 - p."""

    def __call__(self, x: Var, place: str) -> Var:
        found = super().__call__(x, place)
        if self.noise is None or place != "attention":
            return found
        return ops.scale(found, 1.0 - self.config.dropout)


@defect("M3.7")
class dropout_ignores_the_seed(ReferenceComponent):
    """Every call draws anew."""

    def noise(self) -> np.random.Generator | None:
        return None if self.seed is None else np.random.default_rng()


@defect("M3.7")
class dropout_goes_on_drawing(ReferenceComponent):
    """The generator is seeded by train and moves on with every call."""

    stream: np.random.Generator | None = None

    def train(self, seed: int) -> None:
        super().train(seed)
        self.stream = np.random.default_rng(seed)

    def noise(self) -> np.random.Generator | None:
        return None if self.seed is None else self.stream


@defect("M3.7")
class one_mask_for_all_seeds(ReferenceComponent):
    """The seed of train is not used."""

    def noise(self) -> np.random.Generator | None:
        return None if self.seed is None else np.random.default_rng(0)


@defect("M3.8")
class dropout_in_eval(ReferenceComponent):
    """A functional dropout that does not ask for the mode."""

    def noise(self) -> np.random.Generator | None:
        return np.random.default_rng(1 if self.seed is None else self.seed)


@defect("M3.8")
class eval_has_no_effect(ReferenceComponent):
    """Once in training mode, always in training mode."""

    def eval(self) -> None:
        return


@defect("M3.8")
class eval_rescales(Dropout):
    """Kept numbers are not scaled up in training, so evaluation scales down."""

    def __call__(self, x: Var, place: str) -> Var:
        if self.noise is None:
            return ops.scale(x, 1.0 - self.config.dropout)
        return super().__call__(x, place)


@defect("M3.8")
class attention_drops_in_eval(Dropout):
    """The fused attention takes a rate and knows no mode."""

    def __call__(self, x: Var, place: str) -> Var:
        if place != "attention" or self.noise is not None or not self.config.dropout:
            return super().__call__(x, place)
        kept = np.random.default_rng(1).random(x.shape) >= self.config.dropout
        return ops.scale(x, kept / (1.0 - self.config.dropout))


@defect("M3.8")
class rate_zero_is_the_default(Dropout):
    """p = 0 is taken for `not given` and becomes 0.1."""

    def __call__(self, x: Var, place: str) -> Var:
        if self.noise is None:
            return x
        p = self.config.dropout or 0.1
        return ops.scale(x, (self.noise.random(x.shape) >= p) / (1.0 - p))


@defect("M3.10")
class dropout_backward_by_p(Dropout):
    """Backward, kept numbers are divided by p."""

    def __call__(self, x: Var, place: str) -> Var:
        found = super().__call__(x, place)
        p = self.config.dropout
        if self.noise is None or not p:
            return found
        factor = np.where(found.value == 0, 0.0, 1.0 / p)
        return node(found.value, (x,), lambda g: (g * factor,))


@defect("M3.10")
class dropout_mask_redrawn_backward(ReferenceComponent):
    """The backward pass draws another mask than the forward pass."""

    backwards = False

    def backward(self, operation: str, given: Mapping[str, Any], cotangents: Any) -> Any:
        self.backwards = True
        try:
            return super().backward(operation, given, cotangents)
        finally:
            self.backwards = False

    def noise(self) -> np.random.Generator | None:
        return None if self.seed is None else np.random.default_rng([self.seed, int(self.backwards)])


@defect("M3.10a")
class dropout_seeds_the_global_generator(ReferenceComponent):
    """train(seed) ends in np.random.seed."""

    def outputs(self, operation: str, p: Scope, inputs: Mapping[str, Any]) -> Outputs:
        if self.seed is not None and self.config.dropout:
            np.random.seed(0)
        return super().outputs(operation, p, inputs)
