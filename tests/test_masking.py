"""Hidden tokens and the loss over them: what the reference says, by hand."""

import math

import numpy as np
import pytest

from attest.contract import Config
from attest.reference.implementation import ReferenceImplementation

REFERENCE = ReferenceImplementation()
IDS = np.array([[1, 5, 6, 7, 0], [1, 8, 9, 0, 0]])
SPECIAL = np.array([0, 1])
MASK, VOCABULARY = 3, 10


def test_a_rate_of_one_chooses_every_ordinary_token_and_of_zero_none():
    for rate, chosen in ((1.0, np.isin(IDS, (5, 6, 7, 8, 9))), (0.0, np.zeros(IDS.shape, bool))):
        masked, marks = REFERENCE.mask_tokens(IDS, MASK, VOCABULARY, SPECIAL, 0, rate)
        assert (marks == chosen).all()
        assert (masked[~chosen] == IDS[~chosen]).all()


def test_the_seed_decides():
    first, same, other = (
        REFERENCE.mask_tokens(np.full((8, 64), 5), MASK, VOCABULARY, SPECIAL, seed) for seed in (4, 4, 5)
    )
    assert (first == same).all()
    assert (first != other).any()


@pytest.mark.parametrize("wrong", [{"rate": 1.5}, {"rate": -0.1}, {"mask_id": 10}, {"ids": IDS + 3}])
def test_what_makes_no_sense_is_refused(wrong):
    given = {"ids": IDS, "mask_id": MASK, "rate": 0.15} | wrong
    with pytest.raises(ValueError, match=next(iter(wrong))):
        REFERENCE.mask_tokens(given["ids"], given["mask_id"], VOCABULARY, SPECIAL, 0, given["rate"])


def test_the_loss_is_of_chosen_tokens_and_counts_those_that_were_left():
    """Logits of ln 3 on the right one of 2 classes cost ln(4/3); the other places would cost more."""
    logits = np.zeros((1, 3, 2))
    logits[0, 0, 1] = logits[0, 1, 1] = math.log(3)
    ids, masked = np.array([[1, 1, 1]]), np.array([[1, 0, 1]])  # the first was chosen and left
    loss = REFERENCE.masked_language_model_loss(Config(pad_id=0, dtype="float64"))
    found = loss(logits=logits, ids=ids, masked=masked, chosen=np.array([[1, 1, 0]]))["loss"]
    assert found == pytest.approx(math.log(4 / 3))
    assert loss(logits=logits, ids=ids, masked=ids, chosen=np.zeros((1, 3), int))["loss"] == 0.0
