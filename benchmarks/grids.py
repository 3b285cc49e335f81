"""The fixed grids of our algorithms: λ, α, learning rate and epochs, with the default number of factors.

Their settings are in units of the data, so that one grid fits every scale of values and every density. Values are
divided by `unit` before a setting is trained: ratings by their standard deviation, counts by their mean. The deviation
determines the squared error of a row, and with it the scale of λ and of the learning rate. α weighs a rated pair
against an unrated one and is a multiple of 1 / √density. For pairs that count as ones, the best α that was found is
near 5 if one pair in 25 is rated (MovieLens-1M), and near 40 if one in 1,500 is (Gowalla).
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

import gpu
from benchmarks.peers.contract import ESTIMATES, FACTORS, LISTS, Facts, Settings, rounded

# Task -> algorithms of this version, in the order of the tables.
ALGORITHMS = {
    task: [name for name in names if name in gpu.ALGORITHMS]
    for task, names in {
        ESTIMATES: ("als", "sgd", "culsh", "esgd"),
        LISTS: ("als-implicit", "culsh-implicit", "ease"),
        FACTORS: ("nmf",),
    }.items()
}


def unit(task: str, facts: Facts) -> float:
    """The unit by which values are divided before a setting of a grid is trained."""
    return {ESTIMATES: facts.std, LISTS: facts.mean, FACTORS: 1.0}[task]


def grid(algorithm: str, facts: Facts) -> list[Settings]:
    """The settings to choose from, for values in multiples of `unit`."""
    return _GRIDS[algorithm](facts)


def product(**axes: Sequence[Any]) -> list[Settings]:
    """Every combination of the values of `axes`."""
    return [dict(zip(axes, values, strict=True)) for values in itertools.product(*axes.values())]


def geometric(low: float, high: float, n: int) -> list[float]:
    """`n` values from `low` to `high` with a constant ratio, each with two significant digits."""
    return [rounded(value) for value in np.geomspace(low, high, n).tolist()]


def _als(facts: Facts) -> list[Settings]:
    del facts
    return product(regularization=geometric(0.0075, 0.96, 14), n_epochs=(4, 8, 16))


def _als_implicit(facts: Facts) -> list[Settings]:
    """λ is a multiple of α, because a larger α also increases the squared error of a row."""
    alphas = [2.0**power / facts.density**0.5 for power in range(-2, 4)]
    return [
        {"alpha": rounded(alpha), "regularization": rounded(share * alpha), "n_epochs": n_epochs}
        for alpha, share, n_epochs in itertools.product(alphas, (0.0015, 0.004, 0.012, 0.03), (8, 16))
    ]


def _descent(facts: Facts) -> list[Settings]:
    del facts
    return product(
        regularization=(0.015, 0.03, 0.06, 0.12, 0.24), learning_rate=(0.01, 0.02, 0.04), n_epochs=(20, 40, 80)
    )


def _esgd(facts: Facts) -> list[Settings]:
    del facts
    return product(
        regularization=(0.015, 0.03, 0.06, 0.12, 0.24), learning_rate=(0.01, 0.02, 0.04), n_epochs=(10, 20, 40)
    )


def _culsh_implicit(facts: Facts) -> list[Settings]:
    del facts
    return product(
        regularization=(0.002, 0.005, 0.01, 0.02, 0.05), learning_rate=(0.04, 0.08, 0.16), n_epochs=(20, 40, 80)
    )


def _ease(facts: Facts) -> list[Settings]:
    del facts
    return product(regularization=geometric(1, 10_000, 40))


def _nmf(facts: Facts) -> list[Settings]:
    del facts
    return product(start=("random", "nndsvd"))


_GRIDS: dict[str, Callable[[Facts], list[Settings]]] = {
    "als": _als,
    "als-implicit": _als_implicit,
    "sgd": _descent,
    "culsh": _descent,
    "culsh-implicit": _culsh_implicit,
    "ease": _ease,
    "esgd": _esgd,
    "nmf": _nmf,
}
