"""An implementation that leaves out some cases by NotImplementedError is judged on the others."""

from __future__ import annotations

import pytest

from attest.boundary import JudgedImplementation
from attest.judging.catalogue import defects
from attest.judging.property import load_properties
from attest.reference.implementation import ReferenceImplementation
from attest.running.judging import Settings, judge
from attest.spec import load_spec

WORDS = "even widths only"


def refusing(implementation, when):
    """The implementation, whose layer norm is not built where `when` holds for the config."""
    build = implementation.layer_norm

    def layer_norm(config):
        if when(config):
            raise NotImplementedError(WORDS)
        return build(config)

    implementation.layer_norm = layer_norm
    return implementation


def judged(implementation, *, id="M4.9", seed=0):
    settings = Settings(profile="quick", seed=seed)
    return judge(load_spec().by_id[id], load_properties()[id], JudgedImplementation(implementation), settings)


def odd(config):
    return config.d_model % 2 == 1


@pytest.mark.parametrize("seed", range(3))
def test_the_cases_that_are_offered_decide(seed):
    record = judged(refusing(ReferenceImplementation(), odd), seed=seed)
    assert record.verdict == "pass", record.reason
    assert record.reason == f"judged without: layer_norm: {WORDS}"
    assert record.examples >= record.floor


@pytest.mark.parametrize("seed", range(3))
def test_a_refusal_does_not_hide_a_failure(seed):
    record = judged(refusing(defects()["unbiased_variance"].build(), odd), seed=seed)
    assert record.verdict == "fail", record.reason


def test_where_no_case_is_offered_the_criterion_is_not():
    record = judged(refusing(ReferenceImplementation(), lambda config: True))
    assert (record.verdict, record.reason) == ("not offered", f"layer_norm: {WORDS}")


def test_a_property_that_is_not_claimed_needs_no_examples():
    implementation = ReferenceImplementation()
    implementation.only = {"norm": ("pre",), "d_model": "even"}
    record = judged(implementation, id="M4.1")
    assert record.verdict == "pass", record.reason
    assert record.floor < judged(ReferenceImplementation(), id="M4.1").floor


@pytest.mark.parametrize("only", [{"norm": ("pre",)}, {"norm": ("post",), "d_model": "even"}], ids=str)
@pytest.mark.parametrize("id", ["M5.12", "M5.12a"])
def test_a_value_that_cannot_be_is_put_to_the_builder_whatever_is_claimed(only, id):
    asked = []
    implementation = ReferenceImplementation()
    build = implementation.transformer

    def transformer(config):
        asked.append((config.norm, config.d_model))
        return build(config)

    implementation.only, implementation.transformer = only, transformer
    record = judged(implementation, id=id)
    assert record.verdict == "pass", record.reason
    assert "no_such" in {norm for norm, _ in asked}
    assert -1 in {width for _, width in asked}


class Caching:
    """A language model whose cache has steps and no reorder."""

    name = "caching"
    dtypes = ("float32", "float64")

    def language_model(self, config):
        return Stepping(ReferenceImplementation().language_model(config))


class Stepping:
    """What a component of the reference has, without what takes a state elsewhere."""

    def __init__(self, model):
        self.model = model

    def __call__(self, **inputs):
        return self.model(**inputs)

    def __getattr__(self, name):
        if name in ("reorder", "rewind"):
            raise AttributeError(name)
        return getattr(self.model, name)


WITHOUT_REORDER = ("M9.8", "M9.18a", "M9.19a")


@pytest.mark.parametrize("id", WITHOUT_REORDER)
def test_a_cache_whose_rows_stay_is_judged_by_its_steps(id):
    implementation = Caching()
    implementation.only = {"reorder": (False,)}
    record = judged(implementation, id=id)
    assert record.verdict == "pass", record.reason


@pytest.mark.parametrize("id", WITHOUT_REORDER)
def test_a_cache_without_reorder_is_told_how_to_say_so(id):
    record = judged(Caching(), id=id)
    assert record.verdict == "not offered", record.reason
    assert 'has no reorder(); declare only = {"reorder": (False,)}' in record.reason
