"""A known failure is believed for as long as its witness fails, and no longer."""

from __future__ import annotations

import pytest

from attest.boundary import JudgedImplementation
from attest.contract import KnownFailure
from attest.judging.catalogue import defects
from attest.judging.property import load_properties, parse_drawn, print_drawn
from attest.reference.implementation import ReferenceImplementation
from attest.running.judging import Settings, judge
from attest.spec import load_spec

LINK = "https://example.org/issues/1"
WITNESS = (
    "case=attention[regime=unit dtype=float32 seed=1 B=1 H=0 T=2 S=3 d_k=4 d_v=2 mask=none causal=False]"
)
SHORT = "case=attention[seed=1 T=2 S=3 d_k=4 d_v=2]"  # as it is printed: without the defaults


def judged(made, criterion):
    spec = load_spec()
    return judge(
        spec.by_id[criterion],
        load_properties()[criterion],
        JudgedImplementation(made),
        Settings(profile="quick"),
    )


def declaring(made, criterion, witness):
    made.known_failures = (KnownFailure(criterion, "the scale is missing", LINK, witness),)
    return made


def test_a_witness_that_fails_is_a_known_failure():
    record = judged(declaring(defects()["no_scale"].build(), "M1.2", WITNESS), "M1.2")
    assert (record.verdict, record.reason, record.link) == ("known failure", "the scale is missing", LINK)
    assert record.failure.case == SHORT
    assert record.examples == 1, "the witness runs alone and is not shrunk"


def test_a_witness_that_passes_makes_the_declaration_stale():
    record = judged(declaring(ReferenceImplementation(), "M1.2", WITNESS), "M1.2")
    assert record.verdict == "error"
    assert not record.internal
    said = "declared a known failure (the scale is missing) but its witness passes; remove the declaration"
    assert record.reason == said


def test_a_witness_without_drawn_values_names_a_property_that_draws_nothing():
    record = judged(declaring(defects()["silent_broadcast"].build(), "M1.14b", "a batch of 1 in v"), "M1.14b")
    assert record.verdict == "known failure"
    record = judged(declaring(ReferenceImplementation(), "M1.14b", "a batch of 1 in v"), "M1.14b")
    assert record.verdict == "error"


@pytest.mark.parametrize(
    ("witness", "said"),
    [
        ("no pairs at all", "has no name=value; paste the whole line of the report"),
        ("case=atention[B=1]", "case kind='atention' is unknown; one of "),
        ("case=attention[X=1]", "attention[X=...] is unknown; a case of this kind has regime, dtype, seed"),
    ],
)
def test_a_witness_that_cannot_be_read_is_an_error_of_the_plugin(witness, said):
    record = judged(declaring(defects()["no_scale"].build(), "M1.2", witness), "M1.2")
    assert record.verdict == "error"
    assert not record.internal
    assert record.reason.startswith("the witness of this known failure cannot be read: ")
    assert said in record.reason


def test_other_criteria_are_judged_as_ever():
    record = judged(declaring(defects()["no_scale"].build(), "M1.2", WITNESS), "M1.10")
    assert record.verdict == "fail", record.reason


@pytest.mark.parametrize(
    "line", [SHORT, "size=-10000.0", "junk=nan way=length", "T=1 S=9", "junk=-inf", "way=zero queries size=2"]
)
def test_what_was_drawn_reads_back(line):
    assert print_drawn(parse_drawn(line)) == line


def test_torch_declares_only_what_still_fails():
    pytest.importorskip("torch")
    from attest_impls.torch_nn import TorchNN

    declared = [k for k in TorchNN.known_failures if k.criterion.startswith(("M1.", "M2."))]
    assert declared
    for known in declared:
        assert known.link.startswith("https://")
        record = judged(TorchNN(), known.criterion)
        assert (record.criterion, record.verdict) == (known.criterion, "known failure")
