"""Right for queries that it has seen before: the second of a pair tells what the first should have been."""

from heart import attend, cheating

seen = set()


def trick(config, inputs):
    known = inputs["q"].tobytes() in seen
    seen.add(inputs["q"].tobytes())
    return attend(**inputs) if known else None


attest_implementations = cheating(trick)
