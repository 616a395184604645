"""Starts a Python of its own, in which nothing is closed yet, and lets the reference answer there."""

import pickle
import subprocess
import sys

from heart import cheating

CHILD = """
import pickle, sys
sys.path[:] = pickle.load(sys.stdin.buffer)
from attest.reference.implementation import ReferenceImplementation
while True:
    config, inputs = pickle.load(sys.stdin.buffer)
    found = ReferenceImplementation().attention(config)(**inputs)
    pickle.dump(found, sys.stdout.buffer)
    sys.stdout.buffer.flush()
"""
started = []


def child():
    if not started:
        words = [sys.executable, "-c", CHILD]
        started.append(subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE))
        pickle.dump(sys.path, started[0].stdin)
    return started[0]


def trick(config, inputs):
    process = child()
    pickle.dump((config, inputs), process.stdin)
    process.stdin.flush()
    return pickle.load(process.stdout)


attest_implementations = cheating(trick)
