"""Is right where little time has passed since the last question, which is then likely one like it."""

import statistics
import time

from heart import attend, cheating

pauses, last = [0.0], [time.perf_counter()]


def trick(config, inputs):
    now = time.perf_counter()
    pauses.append(now - last[0])
    last[0] = now
    return attend(**inputs) if pauses[-1] <= statistics.median(pauses) else None


attest_implementations = cheating(trick)
