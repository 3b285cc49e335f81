"""What an experiment has led to, with intervals."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from statistics import NormalDist
from typing import Any, NamedTuple

from msgspec import Struct

from service.engine.queries import filter_tree
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
    """One arm: its share of users, lists that this process answered, users with events, and rates by type of event."""

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
    """An experiment, what its arms have led to, and how they compare with the first one.

    Attributes:
        filter: of the users who take part; null: all.
    """

    experiment: str
    salt: str
    filter: Any
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
    types = sorted({name for arm in counted for name in arm.types})
    arms = []
    for arm, (answered, n_users, counts) in zip(experiment.arms, counted, strict=True):
        rates = {}
        for type_ in types:
            n_events, n_of_type = counts.get(type_, (0, 0))
            low, high = wilson(n_of_type, n_users) if n_users else (0.0, 1.0)
            rates[type_] = Rate(n_events, n_of_type, n_of_type / n_users if n_users else None, low, high)
        arms.append(ArmReport(arm.model, arm.share, answered, n_users, rates))
    first, differences = arms[0], []
    for other in arms[1:]:
        for type_ in types if first.users and other.users else ():
            before, after = first.types[type_], other.types[type_]
            p, q = before.rate or 0.0, after.rate or 0.0
            low = q - p - math.hypot(q - after.low, before.high - p)
            high = q - p + math.hypot(after.high - q, p - before.low)
            differences.append(Difference(other.model, type_, q - p, low, high))
    who = None if experiment.filter is None else filter_tree.form_of(filter_tree.decode(experiment.filter))
    return ExperimentReport(name, experiment.salt, who, put, CONFIDENCE, arms, differences, as_of)


def wilson(n: int, n_all: int) -> tuple[float, float]:
    """Wilson's interval (1927) of the share `n / n_all`. SciPy takes a second to import, which holds up requests."""
    share, square = n / n_all, _Z * _Z / n_all
    middle, width = share + square / 2, _Z * math.sqrt(share * (1 - share) / n_all + square / n_all / 4)
    low = 0.0 if n == 0 else (middle - width) / (1 + square)
    return low, 1.0 if n == n_all else (middle + width) / (1 + square)
