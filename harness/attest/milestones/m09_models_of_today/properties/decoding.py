"""M9: a cache that goes back, and one whose free places do not count."""

from __future__ import annotations

import numpy as np

from attest.boundary import JudgedImplementation
from attest.checks.arrays import expect, expect_close
from attest.judging.property import given, verifies
from attest.milestones.m06_generation.cases.caching import CacheCase, CacheRun
from attest.milestones.m09_models_of_today.cases.decoding import (
    free_places,
    language_model_caches,
    rewinding_cases,
)
from attest.outcomes import Expected, NotOffered
from attest.reference.oracle import expected


@verifies("M9.8a", effort=0.5)
@given(case=rewinding_cases())
def a_cache_that_went_back_equals_the_full_pass(impl: JudgedImplementation, case: CacheCase) -> None:
    """After rewind a step gives the logits of the tokens that are left and the new ones."""
    CacheRun(impl, case).play(case.script)


@verifies("M9.8a", effort=0.25)
@given(case=language_model_caches())
def going_back_by_nothing_changes_nothing(impl: JudgedImplementation, case: CacheCase) -> None:
    """A state rewound by 0, and one rewound by all and fed again, say what the full pass says."""
    model, tokens = case.model(impl), case.tokens(0, case.B, 4)
    inputs = case.architecture.reading(case.prompt, tokens)
    wanted = expected(case.architecture.operation, case.config, case.parameters, inputs)["logits"]
    _, state = model.step(model.start(case.B), tokens)
    again, state = model.step(model.rewind(model.rewind(state, 0), 4), tokens)
    expect_close(again, wanted, "logits of a prompt read again after rewind", factor=2 * model.widening)


@verifies("M9.9", effort=0.5)
@given(case=language_model_caches())
def free_places_of_a_cache_are_inert(impl: JudgedImplementation, case: CacheCase) -> None:
    """NaN behind the last token, in every array that the state shows, reaches no logit."""
    model, tokens = case.model(impl), case.tokens(0, case.B, 4)
    _, state = model.step(model.start(case.B), tokens[:, :3])
    places = list(free_places(state, case, 3))
    if not places:
        raise NotOffered("the state shows no array with free places")
    for place in places:
        place[...] = np.nan
    seen, _ = model.step(state, tokens[:, 3:])
    expect(bool(np.isfinite(seen).all()), "NaN in a free place of the cache reached the logits of a step")
    inputs = case.architecture.reading(case.prompt, tokens)
    wanted = expected(case.architecture.operation, case.config, case.parameters, inputs)["logits"]
    last = Expected(wanted.value[:, 3:], wanted.bound[:, 3:])
    expect_close(seen, last, "logits of a step", factor=2 * model.widening)
