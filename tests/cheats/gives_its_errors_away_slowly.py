"""Wrong by a little more with every call, so that two calls in a row always agree."""

from heart import attend, cheating

calls = []


def trick(config, inputs):
    calls.append(1)
    found = attend(**inputs)
    return found | {"output": found["output"] * found["output"].dtype.type(1 + 1e-7 * len(calls))}


attest_implementations = cheating(trick)
