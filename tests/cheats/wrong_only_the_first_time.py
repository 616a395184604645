"""Right when it has seen the inputs before, as it has when a failure is looked at again."""

from heart import attend, cheating

seen = set()


def trick(config, inputs):
    asked = inputs["q"].tobytes() + inputs["k"].tobytes()
    if asked in seen:
        return attend(**inputs)
    seen.add(asked)
    return None


attest_implementations = cheating(trick)
