"""What the harness counts is the call's own, whatever ran before it."""

import gc

from attest.checks.side_effects import bytecodes


class Litter:
    """Waits for the garbage collector, and then runs code of its own."""

    def __init__(self):
        self.me = self

    def __del__(self):
        sum(range(3))


def allocate():
    return [[] for _ in range(3000)]  # enough for the collector to want to run


def test_what_others_left_to_the_garbage_collector_is_not_counted():
    gc.collect()
    alone = bytecodes(allocate)
    for _ in range(20):
        Litter()
    assert bytecodes(allocate) == alone
    assert gc.isenabled()


def test_a_loop_counts_for_each_of_its_turns():
    few, many = (bytecodes(lambda n=n: [None for _ in range(n)]) for n in (10, 110))
    assert many - few >= 100
    assert (many - few) % 100 == 0
