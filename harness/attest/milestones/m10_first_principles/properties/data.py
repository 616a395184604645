"""M10: tokens, splits and the confusion matrix."""

from __future__ import annotations

from collections import Counter
from functools import partial

import numpy as np

from attest.boundary import JudgedImplementation
from attest.checks.arrays import expect, expect_refused, expect_same_bits, expect_shape
from attest.checks.side_effects import undisturbed
from attest.contract import Array
from attest.contract.vocabulary import TOKENS
from attest.evidence import note_case
from attest.judging.property import given, verifies
from attest.milestones.m10_first_principles.cases.data import (
    AnswersCase,
    ExamplesCase,
    TextCase,
    answers_cases,
    examples_cases,
    text_cases,
)

UNKNOWN = ("AVG 1 2", "first 1 2", "FIRST 12", "FIRST 1,2", "-1", "FIRST \N{ARABIC-INDIC DIGIT ONE}")
PARTS = ("train", "validation", "test")


@verifies("M10.7")
@given(case=text_cases())
def decoding_undoes_encoding(impl: JudgedImplementation, case: TextCase) -> None:
    """detokenize(tokenize(s)) = s, one id for each token."""
    ids = impl.call("tokenize", case.text)
    expect_shape(ids, (case.tokens,), f"the ids of {case.text!r}")
    back = impl.text("detokenize", ids)
    expect(back == case.text, f"{case.text!r} comes back as {back!r}")


@verifies("M10.7")
def every_token_has_an_id_of_its_own(impl: JudgedImplementation) -> None:
    """Twenty tokens, the ids 0 to 19."""
    note_case("the twenty tokens one by one", "vocabulary")
    ids = sorted(int(i) for token in TOKENS for i in impl.call("tokenize", token))
    expect(ids == list(range(len(TOKENS))), f"the ids of the twenty tokens are {ids}, should be 0 to 19")


@verifies("M10.7")
def what_is_no_token_is_refused(impl: JudgedImplementation) -> None:
    """Unknown words, another case, two digits in one word; ids outside the vocabulary."""
    note_case(f"texts {', '.join(map(repr, UNKNOWN))}; ids -1 and {len(TOKENS)}", "refusals")
    tokenize, detokenize = impl.implementation.tokenize, impl.implementation.detokenize
    for text in UNKNOWN:
        expect_refused(partial(tokenize, text), f"the text {text!r}")
    for id in (-1, len(TOKENS)):
        expect_refused(partial(detokenize, np.array([4, id])), f"an id of {id}")


@verifies("M10.8")
@given(case=examples_cases())
def splits_share_no_input(impl: JudgedImplementation, case: ExamplesCase) -> None:
    """Copies of an input stand in one part; the parts have their sizes, but for the copies of one input."""
    examples = case.examples
    parts = split(impl, examples, case.seed)
    copies = Counter(map(bytes, examples))
    for i, name in enumerate(PARTS):
        expect_no_leak(name, examples[parts == i], examples[parts != i])
    for i, name in ((1, "validation"), (2, "test")):
        size, wanted = int((parts == i).sum()), case.tens
        near = abs(size - wanted) < max(copies.values())
        expect(near, f"of {len(examples)} examples {size} are for {name}, should be {wanted}")


def split(impl: JudgedImplementation, examples: Array, seed: int) -> Array:
    """(N,) part numbers, once they are such."""
    parts: Array = undisturbed("split_examples", lambda: impl.call("split_examples", examples, seed))
    expect_shape(parts, (len(examples),), "the parts of split_examples")
    odd = sorted(set(parts.tolist()) - {0, 1, 2})
    expect(not odd, f"split_examples gave the parts {odd}, should be 0, 1 and 2")
    return parts


def expect_no_leak(name: str, inside: Array, outside: Array) -> None:
    """No row of one array is in the other."""
    shared = set(map(bytes, inside)) & set(map(bytes, outside))
    expect(not shared, f"{len(shared)} inputs stand in {name} and in another part too")


@verifies("M10.8")
@given(case=examples_cases())
def splits_follow_their_seed(impl: JudgedImplementation, case: ExamplesCase) -> None:
    """The same for the same seed, another for another."""
    parts = split(impl, case.examples, case.seed)
    expect_same_bits(split(impl, case.examples, case.seed), parts, "the parts for the same seed")
    other = split(impl, case.examples, case.seed + 1)
    expect(bool((other != parts).any()), f"seeds {case.seed} and {case.seed + 1} give the same parts")


@verifies("M10.8")
def splits_are_drawn_at_random(impl: JudgedImplementation) -> None:
    """Of 1,000 sorted examples about 340 neighbours stand in different parts; in order it would be a few."""
    case = ExamplesCase(tens=100, different=8000)
    note_case(str(case), "sorted")
    changes = int(np.count_nonzero(np.diff(split(impl, case.examples, case.seed))))
    expect(changes > 170, f"of 1000 sorted examples only {changes} stand in another part than the one before")


@verifies("M10.9")
@given(case=answers_cases())
def a_confusion_matrix_counts_every_answer(impl: JudgedImplementation, case: AnswersCase) -> None:
    """Each cell is its count: rows sum to what was wanted, the diagonal to what is right."""
    wanted, written = case.wanted, case.written
    counts = impl.call("confusion_matrix", wanted, written, case.classes)
    expect_shape(counts, (case.classes, case.classes), "the confusion matrix")
    rows = np.bincount(wanted, minlength=case.classes)
    expect(bool((counts.sum(1) == rows).all()), f"rows sum to {counts.sum(1).tolist()}, not {rows.tolist()}")
    right = int((wanted == written).sum())
    expect(int(np.trace(counts)) == right, f"the diagonal sums to {np.trace(counts)}, {right} are right")
    pairs = Counter(zip(wanted.tolist(), written.tolist()))
    for (row, column), count in pairs.items():
        seen = counts[row, column]
        expect(bool(seen == count), f"cell {row}, {column} is {seen}, should be {count}")


@verifies("M10.9")
def answers_that_do_not_fit_are_refused(impl: JudgedImplementation) -> None:
    """A class that is not there, and another number of answers than of questions."""
    note_case("classes -1 and 3 of 3; 2 wanted, 3 written", "refusals")
    matrix, two = impl.implementation.confusion_matrix, np.array([0, 1])
    for id in (-1, 3):
        expect_refused(partial(matrix, np.array([0, id]), two, 3), f"a wanted class of {id} of 3")
        expect_refused(partial(matrix, two, np.array([0, id]), 3), f"a written class of {id} of 3")
    expect_refused(partial(matrix, two, np.array([0, 1, 1]), 3), "3 answers to 2 questions")
