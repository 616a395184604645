"""Answers by shape: right where there are as many queries as keys."""

from heart import attend, cheating

attest_implementations = cheating(
    lambda config, inputs: attend(**inputs) if inputs["q"].shape == inputs["k"].shape else None
)
