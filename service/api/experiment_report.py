"""What an experiment has led to, with intervals."""

from __future__ import annotations

import math
from statistics import NormalDist

from msgspec import Struct

from service.engine.queries.experiment_queries import ArmCounts, ExperimentCounts

CONFIDENCE = 0.95
_Z = NormalDist().inv_cdf((1 + CONFIDENCE) / 2)  # standard deviations


class Rate(Struct):
    """Events of a type in an arm.

    Attributes:
        events: their number.
        users: users with at least one of them.
        rate: `users` divided by all users with events that were attributed to the arm; null without any.
        low, high: the interval of the rate (Wilson).
    """

    events: int
    users: int
    rate: float | None
    low: float
    high: float


class ArmReport(Struct):
    """One arm; see `ArmCounts`."""

    model: str
    share: float
    answered: int
    users: int
    types: dict[str, Rate]


class Difference(Struct):
    """The rate of a type in an arm minus that in the first arm, and its interval (Newcombe's, of Wilson's).

    An interval without 0 speaks for a difference.
    """

    model: str
    type: str
    difference: float
    low: float
    high: float


class ExperimentReport(Struct):
    """An experiment, what its arms have led to, and how they compare with the first one."""

    experiment: str
    salt: str
    stream_id: str
    confidence: float
    arms: list[ArmReport]
    differences: list[Difference]
    as_of: str


def report_of(counts: ExperimentCounts) -> ExperimentReport:
    """The report of an experiment."""
    types = sorted({name for arm in counts.arms for name in arm.types})
    arms = [_arm(arm, types) for arm in counts.arms]
    differences = [
        _difference(arm, name, arms[0].types[name], arm.types[name])
        for arm in arms[1:]
        for name in types
        if arms[0].users and arm.users
    ]
    where = counts.experiment, counts.salt, counts.stream_id
    return ExperimentReport(*where, CONFIDENCE, arms, differences, counts.as_of)


def _arm(arm: ArmCounts, types: list[str]) -> ArmReport:
    known = {name: (arm.types[name].events, arm.types[name].users) if name in arm.types else (0, 0) for name in types}
    rates = {name: _rate(*counts, arm.users) for name, counts in known.items()}
    return ArmReport(arm.model, arm.share, arm.answered, arm.users, rates)


def _rate(n_events: int, n_users: int, n_all: int) -> Rate:
    if not n_all:
        return Rate(n_events, n_users, None, 0.0, 1.0)
    low, high = _wilson(n_users, n_all)
    return Rate(n_events, n_users, n_users / n_all, low, high)


def _wilson(n: int, of: int) -> tuple[float, float]:
    """Wilson's interval (1927) of the share `n / of`. SciPy's takes a second to import, which holds up requests."""
    share, square = n / of, _Z * _Z / of
    middle, width = share + square / 2, _Z * math.sqrt(share * (1 - share) / of + square / of / 4)
    return (0.0 if n == 0 else (middle - width) / (1 + square)), (1.0 if n == of else (middle + width) / (1 + square))


def _difference(arm: ArmReport, name: str, first: Rate, other: Rate) -> Difference:
    p, q = first.rate or 0.0, other.rate or 0.0
    low = q - p - math.hypot(q - other.low, first.high - p)
    high = q - p + math.hypot(other.high - q, p - first.low)
    return Difference(arm.model, name, q - p, low, high)
