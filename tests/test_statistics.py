"""The binomial test against exact sums, its stated false-alarm rate, and what it sees."""

from __future__ import annotations

import math
from fractions import Fraction

import pytest

from attest.checks import statistics
from attest.checks.statistics import (
    COUNTS_IN_A_RUN,
    LIMIT,
    binomial_z,
    expect_share,
    false_alarm_rate,
    two_sided_tail,
    upper_tail,
)
from attest.evidence import collecting
from attest.outcomes import Violation


def exact_upper_tail(count: int, trials: int, share: Fraction) -> Fraction:
    terms = (math.comb(trials, k) * share**k * (1 - share) ** (trials - k) for k in range(count, trials + 1))
    return sum(terms, Fraction(0))


@pytest.mark.parametrize("share", [Fraction(1, 10), Fraction(2, 5), Fraction(1, 2), Fraction(17, 25)])
@pytest.mark.parametrize("trials", [1, 7, 40, 200])
def test_tails_equal_sums_of_fractions(trials: int, share: Fraction) -> None:
    for count in {0, 1, trials // 3, trials // 2, trials - 1, trials}:
        wanted = float(exact_upper_tail(count, trials, share))
        assert upper_tail(count, trials, float(share)) == pytest.approx(wanted, rel=1e-9, abs=1e-290)


def test_tails_at_the_ends() -> None:
    assert upper_tail(0, 10, 0.3) == 1.0
    assert upper_tail(11, 10, 0.3) == 0.0
    assert upper_tail(1, 10, 0.0) == 0.0
    assert upper_tail(10, 10, 1.0) == 1.0
    assert two_sided_tail(5, 10, 0.5) == 1.0
    assert binomial_z(5, 10, 0.5) == 0.0


def accepted(trials: int, share: float) -> tuple[int, int]:
    """The smallest and the largest count that pass."""
    centre = round(trials * share)
    low, high = centre, centre
    while low > 0 and abs(binomial_z(low - 1, trials, share)) < LIMIT:
        low -= 1
    while high < trials and abs(binomial_z(high + 1, trials, share)) < LIMIT:
        high += 1
    return low, high


@pytest.mark.parametrize(
    ("trials", "share"), [(512, 0.1), (2048, 0.1), (2048, 0.4), (10240, 0.1), (900, 0.5)]
)
def test_a_run_of_the_largest_size_keeps_the_stated_rate(trials: int, share: float) -> None:
    low, high = accepted(trials, share)
    refused = upper_tail(high + 1, trials, share) + upper_tail(trials - low + 1, trials, 1 - share)
    assert COUNTS_IN_A_RUN * refused <= false_alarm_rate() < 1e-9


def test_the_limit_is_no_wider_than_seven_deviations() -> None:
    for trials, share in ((2048, 0.1), (10240, 0.4)):
        low, high = accepted(trials, share)
        deviation = math.sqrt(trials * share * (1 - share))
        assert 5.5 * deviation < high - trials * share < 7.5 * deviation
        assert 5.5 * deviation < trials * share - low < 7.5 * deviation


def test_dropout_applied_twice_is_seen() -> None:
    with collecting() as evidence:
        expect_share(205, 2048, 0.1, "numbers dropped")
        assert evidence.worst_ratio is not None
        assert evidence.worst_ratio < 0.1
        with pytest.raises(
            Violation, match=r"numbers dropped: 389 of 2048, a share of 0\.1899, should be 0\.1"
        ):
            expect_share(389, 2048, 0.1, "numbers dropped")


def test_nothing_and_everything_are_refused() -> None:
    with collecting():
        for count in (0, 4096):
            with pytest.raises(Violation, match="z = "):
                expect_share(count, 4096, 0.1, "numbers dropped")


def test_z_is_signed_and_finite() -> None:
    assert binomial_z(0, 10**5, 0.5) < -30
    assert binomial_z(10**5, 10**5, 0.5) > 30
    assert math.isfinite(binomial_z(10**5, 10**5, 0.5))


def test_a_run_on_a_correct_implementation_judges_fewer_counts(monkeypatch: pytest.MonkeyPatch) -> None:
    from attest.boundary import JudgedImplementation
    from attest.judging.property import load_properties
    from attest.reference.implementation import ReferenceImplementation

    calls: list[str] = []
    original = statistics.binomial_z

    def counted(count: int, trials: int, share: float) -> float:
        calls.append(f"{count} of {trials}")
        return original(count, trials, share)

    monkeypatch.setattr(statistics, "binomial_z", counted)
    impl = JudgedImplementation(ReferenceImplementation())
    properties = load_properties()
    for id in ("M3.7", "M3.7a"):
        for property in properties[id]:
            if not property.strategies:
                with collecting():
                    property.check(impl)
    assert 0 < len(calls) <= COUNTS_IN_A_RUN // 2  # M6 judges counts too
