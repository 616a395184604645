"""The digit operations: tokens, examples, splits, batches, and how a model of them is judged."""

import functools
import operator

import numpy as np
import pytest

from attest.contract.vocabulary import TOKENS
from attest.trained import digits
from attest.trained.digits import IDS, DigitOperations, answer, detokenize, question, tokenize
from attest.trained.epochs import Training
from attest.trained.evaluation import Answered, by_operation, confusion, mistakes
from attest.trained.tasks import BOS, EOS, PAD

TASK = DigitOperations()


def test_there_are_twenty_tokens_and_text_survives_the_way_there_and_back():
    assert len(TOKENS) == len(set(TOKENS)) == len(IDS) == 20
    assert detokenize(range(20)) == " ".join(TOKENS)
    assert tokenize(" ".join(TOKENS)) == tuple(range(20))
    assert (IDS["PAD"], IDS["BOS"], IDS["EOS"]) == (PAD, BOS, EOS)


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("FIRST 3 1 4", "3"),
        ("SECOND 3 1 4", "1"),
        ("LAST 3 1 4", "4"),
        ("MAX 3 9 4", "9"),
        ("MIN 3 9 4", "3"),
        ("SUM 9 9 4", "2"),
        ("COUNT 0 0", "2"),
    ],
)
def test_the_answer_to_a_question(text, wanted):
    assert detokenize([answer(question(text))]) == wanted


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("FIRST 3 x", "token='x' is unknown; write FIRST, SECOND, LAST, MAX, MIN, SUM, COUNT and digits"),
        ("FIRST 31", "token='31' is unknown"),
        ("3 1 4", "question='3 1 4' begins with no operation; write one of FIRST"),
        ("", "question='' begins with no operation"),
        ("FIRST 3 SUM", "token='SUM' stands among the digits; write"),
        ("FIRST 3", "question='FIRST 3' has 1 digits, which was never trained; write 2 to 3"),
        ("FIRST 3 1 4 1", "has 4 digits, which was never trained"),
    ],
)
def test_what_is_no_question_is_refused(text, message):
    with pytest.raises(ValueError, match=message):
        question(text)


def test_an_id_that_is_no_token_is_refused():
    with pytest.raises(ValueError, match="id=20 is not a token; give ids from 0 to 19"):
        detokenize([3, 20])


def test_splits_have_their_sizes_and_share_no_input():
    parts = TASK.splits
    assert {name: len(rows) for name, rows in parts.items()} == digits.SIZES
    train, validation, test = (set(parts[name]) for name in ("train", "validation", "test"))
    assert not train & validation
    assert not train & test
    assert not validation & test
    assert sorted(functools.reduce(operator.iadd, parts.values(), [])) == sorted(digits.generate(0))
    assert DigitOperations().splits == parts
    assert DigitOperations(seed=1).splits != parts


def test_every_operation_is_in_every_split():
    for rows in TASK.splits.values():
        assert {TOKENS[ids[0]] for ids in rows} == set(digits.OPERATIONS)


def test_a_batch_is_as_wide_as_its_longest_row():
    short, long = question("FIRST 3 1"), question("MAX 3 1 4")
    assert TASK.batch([short])["source"].shape == (1, 3)
    batch = TASK.batch([short, long])
    assert batch["source"].tolist() == [[*short, PAD], list(long)]
    assert batch["target"].tolist() == [[BOS, IDS["3"], EOS], [BOS, IDS["4"], EOS]]


def test_an_epoch_has_every_example_once_in_an_order_of_its_own():
    def rows(number):
        return [tuple(r[r != PAD]) for b in TASK.epoch(number) for r in b["source"]]

    assert sorted(rows(1)) == sorted(TASK.splits["train"])
    assert rows(1) != rows(2)
    assert rows(1) == rows(1)


QUESTIONS = [question(text) for text in ("FIRST 3 1", "FIRST 5 1", "MAX 2 8", "SUM 5 5")]
SEEN = Answered(QUESTIONS, [IDS["3"], IDS["1"], IDS["8"], IDS["MAX"]], [True, True, True, True])


def test_a_confusion_matrix_adds_up():
    counts = confusion(SEEN)
    wanted = np.bincount([answer(ids) - IDS["0"] for ids in QUESTIONS], minlength=10)
    assert counts.shape == (10, 11)
    assert counts.sum(axis=1).tolist() == wanted.tolist()
    assert np.trace(counts[:, :10]) / counts.sum() == SEEN.accuracy == 0.5
    assert (counts[5, 1], counts[0, 10]) == (1, 1)  # a wrong digit, and no digit at all


def test_an_answer_that_does_not_stop_is_wrong():
    endless = Answered(QUESTIONS[:1], [IDS["3"]], [False])
    assert endless.accuracy == 0
    assert confusion(endless)[3, 10] == 1


def test_operations_stand_beside_the_commonest_answer_of_the_training_split():
    train = [question(text) for text in ("FIRST 5 1", "FIRST 5 2", "FIRST 3 3")]
    rows = by_operation(SEEN, train)
    assert rows["FIRST"] == {"questions": 2, "accuracy": 0.5, "baseline": 0.5, "baseline_answer": "5"}
    assert rows["MAX"]["accuracy"] == 1.0


def test_mistakes_are_shown_once():
    twice = Answered(QUESTIONS * 2, [*SEEN.written] * 2, [True] * 8)
    assert [m["question"] for m in mistakes(twice)] == ["FIRST 5 1", "SUM 5 5"]
    assert mistakes(twice)[1] == {"question": "SUM 5 5", "written": "MAX", "wanted": "0"}


def test_the_best_epoch_is_kept_by_value_and_of_equal_ones_the_first():
    training, parameters = Training(), {"w": np.zeros(1)}
    kept = []
    for value, accuracy in enumerate((0.2, 0.7, 0.7, 0.4)):
        parameters["w"][:] = value
        kept.append(training.note(1.0, accuracy, parameters))
    assert kept == [True, True, False, False]
    assert (training.best, training.parameters["w"][0]) == (2, 1.0)
