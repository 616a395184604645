"""Before and after the model: words to ids and back, examples to splits, answers to a confusion matrix.

Shapes: T tokens, N examples of L ids each, U different inputs among them, C classes.
"""

from __future__ import annotations

import numpy as np

from attest.contract import Array

from .arguments import is_integer, require

OPERATIONS = ("FIRST", "SECOND", "LAST", "MAX", "MIN", "SUM", "COUNT")
TOKENS = ("PAD", "BOS", "EOS", *"0123456789", *OPERATIONS)
IDS = {token: id for id, token in enumerate(TOKENS)}
TRAIN, VALIDATION, TEST = range(3)


def tokenize(text: str) -> Array:
    """Tokens with spaces between to ids (T,)."""
    words = text.split()
    for word in words:
        require(word in IDS, "token", word, "is unknown", f"write one of {', '.join(TOKENS)}")
    return np.array([IDS[word] for word in words], np.int64)


def detokenize(ids: Array) -> str:
    """The inverse. A negative id would name a token from the end of the list in silence."""
    for id in ids:
        require(0 <= id < len(TOKENS), "id", int(id), "is no token", f"give 0 to {len(TOKENS) - 1}")
    return " ".join(TOKENS[id] for id in ids)


def split_examples(examples: Array, seed: int) -> Array:
    """(N,): 0 for training, 1 for validation, 2 for test, eight tenths and one tenth each.

    Short questions repeat. So the different inputs are split, and an example goes where its input goes: what
    the test asks was never trained on. In a random order of the inputs, those whose examples are among the
    first tenth are for the test, those among the second for validation.
    """
    examples = np.asarray(examples)
    require(examples.ndim == 2, "examples.shape", examples.shape, "is not of rank 2", "give (N, L)")
    _, which, copies = np.unique(examples, axis=0, return_inverse=True, return_counts=True)  # (N,), (U,)
    order = np.random.default_rng(seed).permutation(len(copies))  # (U,)
    reached = copies[order].cumsum() / len(examples)  # (U,): the share of the examples up to here
    part = np.full(len(copies), TRAIN)
    part[order[reached <= 0.2]] = VALIDATION
    part[order[reached <= 0.1]] = TEST
    return part[which.reshape(-1)]  # numpy 2.0 gives `which` the shape (N, 1)


def confusion_matrix(wanted: Array, written: Array, classes: int) -> Array:
    """(C, C): how often the class of the row was wanted and that of the column written."""
    require(is_integer(classes) and classes >= 1, "classes", classes, "is not a positive integer", "give one")
    wanted, written = np.asarray(wanted), np.asarray(written)
    remedy = f"give {wanted.shape}"
    require(wanted.shape == written.shape, "written.shape", written.shape, "is not that of wanted", remedy)
    for name, answers in (("wanted", wanted), ("written", written)):
        inside = bool(((answers >= 0) & (answers < classes)).all())
        require(inside, name, answers.tolist(), "is not all classes", f"give 0 to {classes - 1}")
    # Each pair is one number, and bincount counts numbers. counts[wanted, written] += 1 would count a pair
    # that occurs a hundred times once.
    return np.bincount(wanted * classes + written, minlength=classes * classes).reshape(classes, classes)
