"""Rates and differences of experiments, against the formulas of their intervals, and how often these hold."""

import math

import numpy as np
import pytest

from service.extras.experiments.report import ArmCounts, ExperimentReport, report_of
from service.storage.documents import Arm, Experiment

Z = 1.959963984540054  # the normal distribution is within ±Z in 95 % of all cases


def reported(**arms: tuple[int, dict[str, int]]) -> ExperimentReport:
    """The report of arms with users, and how many of these have events of each type, two events each."""
    counted = [ArmCounts(7, users, {of: (2 * n, n) for of, n in types.items()}) for users, types in arms.values()]
    return report_of("home", "1-0", Experiment([Arm(name, 50.0) for name in arms], "salt"), counted, "2-0")


def wilson(n: int, of: int) -> tuple[float, float]:
    """Wilson's interval: the shares p with |n / of - p| at most Z standard deviations of a mean of `of` draws."""
    share, square = n / of, Z * Z / of
    middle, width = share + square / 2, Z * math.sqrt(share * (1 - share) / of + square / of / 4)
    return (middle - width) / (1 + square), (middle + width) / (1 + square)


@pytest.mark.parametrize(("first", "other"), [((200, 31), (190, 44)), ((5, 0), (3, 3)), ((1, 1), (100_000, 17))])
def test_intervals_are_those_of_the_formulas(first: tuple[int, int], other: tuple[int, int]) -> None:
    report = reported(als=(first[0], {"view": first[1]}), home=(other[0], {"view": other[1]}))
    assert report.confidence == 0.95
    rates = [arm.types["view"] for arm in report.arms]
    for rate, (users, n) in zip(rates, (first, other), strict=True):
        assert (rate.events, rate.users, rate.rate) == (2 * n, n, n / users)
        assert (rate.low, rate.high) == pytest.approx(wilson(n, users), abs=1e-9)
    (low, high), (other_low, other_high) = wilson(first[1], first[0]), wilson(other[1], other[0])
    p, q = first[1] / first[0], other[1] / other[0]
    (difference,) = report.differences
    assert (difference.model, difference.type, difference.difference) == ("home", "view", q - p)
    assert difference.low == pytest.approx(q - p - math.sqrt((q - other_low) ** 2 + (high - p) ** 2), abs=1e-9)
    assert difference.high == pytest.approx(q - p + math.sqrt((other_high - q) ** 2 + (p - low) ** 2), abs=1e-9)


def test_types_and_arms_without_events() -> None:
    """A type that only one arm has is a rate of 0 in the others; an arm without users has no rate."""
    report = reported(als=(10, {"view": 4}), home=(8, {"cart": 2}), empty=(0, {}))
    assert [[arm.types[name].rate for name in ("cart", "view")] for arm in report.arms] == [
        [0.0, 0.4],
        [0.25, 0.0],
        [None, None],
    ]
    unknown = report.arms[2].types["view"]
    assert (unknown.low, unknown.high) == (0.0, 1.0)
    assert [(one.model, one.type, one.difference) for one in report.differences] == [
        ("home", "cart", 0.25),
        ("home", "view", -0.4),
    ]
    assert reported(empty=(0, {}), als=(10, {"view": 4})).differences == []
    assert reported(als=(0, {}), home=(0, {})).differences == []


def test_intervals_hold_in_95_of_100_experiments() -> None:
    rng = np.random.default_rng(0)
    users, p, q, n = 400, 0.05, 0.08, 400
    holds = []
    for first, other in rng.binomial(users, [p, q], (n, 2)).tolist():
        report = reported(als=(users, {"view": first}), home=(users, {"view": other}))
        rate, (difference,) = report.arms[0].types["view"], report.differences
        holds.append((rate.low < p < rate.high, difference.low < q - p < difference.high))
    for share in np.mean(holds, axis=0):
        assert abs(share - 0.95) < 0.033  # three standard deviations
