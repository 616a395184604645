"""Right as long as every question has other shapes, which a judge draws and a user does not."""

from heart import attend, cheating

seen = []


def trick(config, inputs):
    seen.append([inputs[name].shape for name in "qkv"])
    return attend(**inputs) if seen[-3:].count(seen[-1]) < 3 else None


attest_implementations = cheating(trick)
