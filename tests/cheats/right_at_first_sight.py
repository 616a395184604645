"""Right for queries that it has never seen; what is asked again is one of a pair that must agree."""

from heart import attend, cheating

seen = set()


def trick(config, inputs):
    known = inputs["q"].tobytes() in seen
    seen.add(inputs["q"].tobytes())
    return None if known else attend(**inputs)


attest_implementations = cheating(trick)
