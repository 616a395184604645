"""Wrong so seldom that a few cases may not meet it."""

from heart import attend, cheating

calls = []


def trick(config, inputs):
    calls.append(1)
    return attend(**inputs) if len(calls) % 50 else None


attest_implementations = cheating(trick)
