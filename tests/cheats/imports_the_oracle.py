"""Lets the reference answer."""

from heart import cheating


def trick(config, inputs):
    from attest.reference.implementation import ReferenceImplementation

    return ReferenceImplementation().attention(config)(**inputs)


attest_implementations = cheating(trick)
