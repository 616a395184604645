"""Right as long as a short look lasts."""

from heart import attend, cheating

calls = []


def trick(config, inputs):
    calls.append(1)
    return attend(**inputs) if len(calls) <= 60 else None


attest_implementations = cheating(trick)
