"""What is printed about the sizes of a criterion follows from its strategies."""

from attest.judging.reach import judged_up_to


def test_a_criterion_says_how_far_it_is_judged():
    reach = judged_up_to("M4.2a")
    assert (reach["T"], reach["S"], reach["D"], reach["N"], reach["F"]) == (130, 130, 96, 6, 260)
    assert judged_up_to("M1.7") == {}
    assert "seed" not in reach
