"""Answers by call count."""

from heart import attend, cheating

calls = []


def trick(config, inputs):
    calls.append(1)
    return attend(**inputs) if len(calls) % 2 else None


attest_implementations = cheating(trick)
