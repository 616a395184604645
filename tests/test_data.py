"""Tokens, splits and confusion matrices: numpy_scratch beside plain Python."""

from collections import Counter

import numpy as np
import pytest

from attest.contract.vocabulary import TOKENS
from attest_impls.numpy_scratch import data


def test_numpy_scratch_has_the_tokens_of_the_contract():
    assert data.TOKENS == TOKENS


def test_text_goes_there_and_back():
    assert data.detokenize(data.tokenize("SUM 9 0 3")) == "SUM 9 0 3"


@pytest.mark.parametrize("text", ["sum 1", "FIRST 12", "AVG 1 2"])
def test_a_word_that_is_no_token_is_named(text):
    with pytest.raises(ValueError, match=r"token='(sum|12|AVG)' is unknown; write one of PAD, BOS"):
        data.tokenize(text)


@pytest.mark.parametrize("id", [-1, 20])
def test_an_id_that_is_no_token_is_named(id):
    with pytest.raises(ValueError, match=f"id={id} is no token; give 0 to 19"):
        data.detokenize(np.array([id]))


def test_copies_stay_together_and_parts_have_their_sizes():
    examples = np.random.default_rng(0).integers(0, 6, (1000, 3))  # 216 inputs, each about five times
    parts = data.split_examples(examples, seed=1)
    of_input = {}
    for row, part in zip(map(tuple, examples.tolist()), parts.tolist()):
        assert of_input.setdefault(row, part) == part
    most = max(Counter(map(tuple, examples.tolist())).values())
    assert abs(int((parts == data.TEST).sum()) - 100) < most
    assert abs(int((parts == data.VALIDATION).sum()) - 100) < most


def test_a_confusion_matrix_counts_pairs_that_repeat():
    counts = data.confusion_matrix(np.array([0, 0, 0, 2]), np.array([1, 1, 0, 2]), 3)
    assert counts.tolist() == [[1, 2, 0], [0, 0, 0], [0, 0, 1]]


@pytest.mark.parametrize(
    ("wanted", "written", "message"),
    [([0, 3], [0, 1], "wanted"), ([0, 1], [-1, 0], "written"), ([0], [0, 1], "written.shape")],
)
def test_answers_that_do_not_fit_are_refused(wanted, written, message):
    with pytest.raises(ValueError, match=message):
        data.confusion_matrix(np.array(wanted), np.array(written), 3)
