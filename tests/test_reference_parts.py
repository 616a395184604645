"""The parts of the reference: one class per slot, and joints for what later milestones put between them."""

from __future__ import annotations

from typing import get_type_hints

import numpy as np
import pytest

from attest.contract import Config
from attest.reference import ops
from attest.reference.assembly import SLOTS, Parts, oracle_parts, replaced_by
from attest.reference.initial import random_parameters
from attest.reference.parts.attention import Attention
from attest.reference.parts.feed_forward import Gelu, Relu
from attest.reference.parts.heads import HeadByHead, MultiHead
from attest.reference.parts.part import FORMULAS, Part, formula
from attest.reference.parts.positions import Sinusoids
from attest.reference.parts.where import Where
from attest.reference.scope import Scope
from attest.reference.tape import Var, leaf

TINY = Config(
    d_model=8,
    num_heads=2,
    d_ff=6,
    num_encoder_layers=2,
    num_decoder_layers=2,
    source_vocab=7,
    target_vocab=7,
    max_len=9,
    dtype="float64",
)
SOURCE = np.array([[4, 5, 6, 3], [6, 4, 0, 0]])
TARGET = np.array([[1, 5, 4, 6, 3], [1, 6, 3, 0, 0]])


class Turned(Sinusoids):
    """Pairs of features of queries and keys turn with the position: rotary, without the table."""

    def add(self, x, where):
        return x

    def rotate(self, x, where):
        if where.place == "cross":
            return x
        angle = 0.7 * (where.offset + np.arange(x.shape[-2]))[:, None]
        half = x.shape[-1] // 2
        a, b = ops.columns(x, 0, half), ops.columns(x, half, 2 * half)
        first = ops.sub(ops.scale(a, np.cos(angle)), ops.scale(b, np.sin(angle)))
        second = ops.add(ops.scale(b, np.cos(angle)), ops.scale(a, np.sin(angle)))
        return ops.concat([first, second])


class Sloped(Sinusoids):
    """A bias that grows with the distance, with a slope for each head: ALiBi."""

    def add(self, x, where):
        return x

    def bias(self, p, where, T, S):
        if where.place == "cross":
            return None
        distance = np.arange(T)[:, None] + (S - T) - np.arange(S)[None, :]
        slopes = 2.0 ** -np.arange(1, self.config.num_heads + 1)
        return Var(-slopes[:, None, None, None] * distance[None])


class Grouped(MultiHead):
    """All heads read the keys and values of the first."""

    def keys_and_values(self, x, p, where):
        k, v = super().keys_and_values(x, p, where)
        return ops.index(k, (slice(None), slice(0, 1))), ops.index(v, (slice(None), slice(0, 1)))


def scope(config=TINY):
    drawn = random_parameters("transformer", config, np.random.default_rng(3))
    return Scope({name: leaf(value) for name, value in drawn.items()})


def logits(parts, p):
    return parts.model(SOURCE, TARGET, p).value


def in_steps(parts, p, cuts):
    state, found = parts.cache.start(SOURCE, p), []
    for tokens in np.split(TARGET, cuts, axis=1):
        made, state = parts.cache.step(state, tokens, p)
        found.append(made.value)
    return np.concatenate(found, axis=1)


def test_every_slot_is_an_attribute_of_its_class():
    hints = get_type_hints(Parts)
    assert list(SLOTS) == list(hints)
    made = Parts(TINY)
    for name, hint in hints.items():
        assert isinstance(getattr(made, name), hint), name


def test_a_piece_replaces_the_class_it_is_derived_from_and_no_other():
    class Leaky(Gelu):
        """A change of GELU alone."""

    assert replaced_by(Leaky) is Gelu
    assert type(Parts(TINY.but(activation="gelu"), Leaky).activation) is Leaky
    assert type(Parts(TINY.but(activation="relu"), Leaky).activation) is Relu
    assert type(oracle_parts(TINY).heads) is HeadByHead


def test_a_class_that_is_no_part_of_the_reference_is_refused():
    class Stray(Part):
        """Derived from no slot."""

    with pytest.raises(AssertionError, match="Stray is derived from no part of the reference"):
        Parts(TINY, Stray)


def test_parts_of_another_config_keep_their_pieces():
    other = Parts(TINY, Turned).but(num_encoder_layers=1)
    assert type(other.positions) is Turned
    assert other.layers.config.num_encoder_layers == 1


def test_an_operation_has_one_formula():
    with pytest.raises(AssertionError, match="two formulas compute attention"):
        formula("attention")(FORMULAS["loss"])


def test_where_goes_across_with_the_mask_of_the_memory():
    mask, memory_mask = np.ones((2, 1, 5), bool), np.ones((2, 1, 4), bool)
    across = Where(mask, memory_mask, causal=True, layer=1, place="decoder").across()
    assert across == Where(memory_mask, layer=1, place="cross")


@pytest.mark.parametrize("piece", [Sinusoids, Turned, Sloped], ids=lambda piece: piece.__name__)
def test_a_positional_encoding_reaches_heads_oracle_and_cache(piece):
    p = scope()
    whole = logits(Parts(TINY, piece), p)
    assert logits(oracle_parts(TINY, piece), p) == pytest.approx(whole, abs=1e-12)
    assert in_steps(Parts(TINY, piece), p, [1, 3]) == pytest.approx(whole, abs=1e-12)
    if piece is not Sinusoids:
        assert np.abs(whole - logits(Parts(TINY), p)).max() > 1e-3


def test_keys_may_have_fewer_heads_than_queries():
    p = scope()
    whole = logits(Parts(TINY, Grouped), p)
    assert in_steps(Parts(TINY, Grouped), p, [2]) == pytest.approx(whole, abs=1e-12)
    assert np.abs(whole - logits(Parts(TINY), p)).max() > 1e-3


def test_an_attention_knows_where_it_stands():
    seen = []

    class Listening(Attention):
        """Notes the places it is asked from."""

        def __call__(self, q, k, v, where):
            seen.append((where.place, where.layer, where.causal))
            return super().__call__(q, k, v, where)

    logits(Parts(TINY, Listening), scope())
    assert seen == [
        ("encoder", 0, False),
        ("encoder", 1, False),
        ("decoder", 0, True),
        ("cross", 0, False),
        ("decoder", 1, True),
        ("cross", 1, False),
    ]
