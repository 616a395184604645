"""Claims only sizes at which there is nothing to scale."""

from heart import cheating

made = cheating(lambda config, inputs: None)


def attest_implementations():
    (found,) = made()
    type(found).only = {"d_model": (1,), "num_heads": (1,)}
    return [found]
