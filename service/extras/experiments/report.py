"""What an experiment has led to, with intervals."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from statistics import NormalDist
from typing import NamedTuple

from msgspec import Struct

from service.storage.documents import Experiment

CONFIDENCE = 0.95
_Z = NormalDist().inv_cdf((1 + CONFIDENCE) / 2)  # standard deviations


class ArmCounts(NamedTuple):
    """What an arm has led to.

    Attributes:
        answered: lists that this process has answered since its start.
        users: users with events of any type that were attributed to the arm.
        types: by type, the events, and the users with any.
    """

    answered: int
    users: int
    types: Mapping[str, tuple[int, int]]


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


def report_of(
    name: str, put: str, experiment: Experiment, counted: Sequence[ArmCounts], as_of: str
) -> ExperimentReport:
    """The report of an experiment.

    Args:
        name, put: its id, and the position at which it was put.
        experiment: its arms.
        counted: of each arm.
        as_of: position of the counts.
    """
    types = sorted({of for arm in counted for of in arm.types})
    arms = []
    for arm, (answered, n_users, counts) in zip(experiment.arms, counted, strict=True):
        rates = {of: _rate(*counts.get(of, (0, 0)), n_users) for of in types}
        arms.append(ArmReport(arm.model, arm.share, answered, n_users, rates))
    first = arms[0]
    differences = [
        _difference(arm, of, first.types[of], arm.types[of])
        for arm in arms[1:]
        for of in types
        if first.users and arm.users
    ]
    return ExperimentReport(name, experiment.salt, put, CONFIDENCE, arms, differences, as_of)


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
