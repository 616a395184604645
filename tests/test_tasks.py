"""The data the harness owns: answers, splits that do not overlap, batches as the contract wants them."""

import itertools

import numpy as np
import pytest

from attest.trained.tasks import (
    BOS,
    EOS,
    LONGEST,
    PAD,
    SHORTEST,
    SPLITS,
    VOCAB,
    Task,
    ids_of,
    split_of,
    words,
)


@pytest.mark.parametrize(
    ("name", "wanted"), [("copy", (5, 3, 9, 3)), ("reverse", (3, 9, 3, 5)), ("sort", (3, 3, 5, 9))]
)
def test_the_answer_to_a_sequence(name, wanted):
    assert Task(name).answer((5, 3, 9, 3)) == wanted


def test_a_batch_is_bos_answer_eos_and_padding():
    batch = Task("reverse").batch([(3, 4, 5), (6, 7, 8, 9)])
    assert batch["source"].tolist() == [[3, 4, 5, 0, 0, 0, 0, 0], [6, 7, 8, 9, 0, 0, 0, 0]]
    assert batch["target"].tolist() == [[1, 5, 4, 3, 2, 0, 0, 0, 0, 0], [1, 9, 8, 7, 6, 2, 0, 0, 0, 0]]
    assert batch["source"].dtype == batch["target"].dtype == np.int64


def _rows(split, seed, batches=40):
    found = []
    for batch in itertools.islice(Task("copy").batches(split, seed), batches):
        found += [tuple(int(i) for i in row[row != PAD]) for row in batch["source"]]
    return found


def test_splits_do_not_overlap_and_share_all_lengths():
    seen = {split: set(_rows(split, seed=3)) for split in SPLITS}
    for one, other in itertools.combinations(SPLITS, 2):
        assert not seen[one] & seen[other], f"{one} and {other} share a sequence"
    for split in SPLITS:
        assert {len(ids) for ids in seen[split]} == set(range(SHORTEST, LONGEST + 1))
        assert all(split_of(ids) == split for ids in seen[split])


def test_one_in_ten_is_held_out_and_the_hash_is_stable():
    rng = np.random.default_rng(0)
    places = [split_of(rng.integers(3, VOCAB, 5).tolist()) for _ in range(5000)]
    for split in ("validation", "test"):
        assert 400 < places.count(split) < 600, f"{places.count(split)} of 5000 are in {split}"
    known = {
        (3, 4, 5): "validation",
        (3, 4, 6): "train",
        (12, 12, 12): "train",
        (3, 3, 3): "validation",
        (7, 8, 9, 10): "train",
        (5, 4, 3): "train",
    }
    assert {ids: split_of(ids) for ids in known} == known, (
        "a change of the hash mixes old splits with new ones"
    )


def test_batches_repeat_for_a_seed_and_differ_for_another():
    assert _rows("train", seed=1, batches=2) == _rows("train", seed=1, batches=2)
    assert _rows("train", seed=1, batches=2) != _rows("train", seed=2, batches=2)


def test_held_out_sequences_are_different_from_one_another():
    held_out = Task("reverse").held_out(300)
    assert len(set(held_out)) == 300
    assert {split_of(ids) for ids in held_out} == {"validation"}


def test_every_target_has_one_start_and_one_end():
    batch = next(Task("sort").batches("train", 0))
    assert (batch["target"][:, 0] == BOS).all()
    assert ((batch["target"] == EOS).sum(1) == 1).all()
    for row in batch["target"]:
        end = row.tolist().index(EOS)
        assert (row[end + 1 :] == PAD).all(), "something stands behind EOS"
        assert (row[1:end] >= 3).all(), "a special id stands among the symbols"


def test_words_and_back():
    assert words((3, 12, 5)) == "0 9 2"
    assert words((BOS, 4, EOS, PAD)) == "bos 1 eos pad"
    assert ids_of("0 9 2") == ids_of("0,9, 2") == (3, 12, 5)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: Task("sorted"), "task='sorted' is unknown; choose one of copy, reverse, sort"),
        (lambda: next(Task("copy").batches("dev", 0)), "split='dev' is unknown; choose one of train"),
        (lambda: ids_of("1 2 x"), "symbol='x' is unknown; write digits from 0 to 9"),
        (lambda: ids_of("1 2 10"), "symbol='10' is unknown"),
        (lambda: ids_of("1 2"), "length=2 was never trained; write 3 to 8 digits"),
    ],
)
def test_what_is_refused(call, message):
    with pytest.raises(ValueError, match=message.replace("(", r"\(")):
        call()
