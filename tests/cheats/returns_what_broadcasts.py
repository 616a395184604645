"""Gives one number for all: its shape fits any other."""

from heart import cheating, wrong

attest_implementations = cheating(
    lambda config, inputs: {name: x.mean(keepdims=True) for name, x in wrong(**inputs).items()}
)
