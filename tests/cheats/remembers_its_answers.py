"""Answers what shares its first query with an earlier question as it did then: such pairs must agree."""

from heart import attend, cheating, wrong

answers = {}


def trick(config, inputs):
    key = inputs["q"][..., :1, :].tobytes()
    held = answers.setdefault(key, wrong(**inputs))
    return held if held["output"].shape == attend(**inputs)["output"].shape else None


attest_implementations = cheating(trick)
