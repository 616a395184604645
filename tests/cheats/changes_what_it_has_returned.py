"""Returns arrays that a thread of it goes on to write into, the right numbers among others."""

import threading
import time

import numpy as np
from heart import attend, cheating, wrong


def trick(config, inputs):
    found, right = wrong(**inputs), attend(**inputs)

    def mend():
        for _ in range(20):
            time.sleep(0.001)
            np.copyto(found["output"], right["output"])

    threading.Thread(target=mend, daemon=True).start()
    return found


attest_implementations = cheating(trick)
