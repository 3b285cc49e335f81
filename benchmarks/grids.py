"""The fixed grids of our algorithms: λ, α, length of a step and epochs, at the shipped number of factors.

They stand in units of the data, so that one grid serves every scale of values and every density. Values are divided by
`unit` before a setting is trained: ratings by their standard deviation, counts by their mean. The deviation sets the
squared error of a row, and so the scale of λ and of the step. α, which weighs a rated pair against an unrated one, is
a multiple of 1 / √density: the best α found for pairs that count as ones is near 5 where one pair in 25 is rated
(MovieLens-1M) and near 40 where one in 1,500 is (Gowalla).
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

import gpu
from benchmarks.peers.contract import ESTIMATES, FACTORS, LISTS, Facts, Settings, rounded

# Task -> algorithms, in the order of the tables; those that this version has.
ALGORITHMS = {
    task: [name for name in names if name in gpu.ALGORITHMS]
    for task, names in {
        ESTIMATES: ("als", "sgd", "culsh", "esgd"),
        LISTS: ("als-implicit", "culsh-implicit", "ease"),
        FACTORS: ("nmf",),
    }.items()
}


def unit(task: str, facts: Facts) -> float:
    """What values are divided by before a setting of a grid is trained."""
    return {ESTIMATES: facts.std, LISTS: facts.mean, FACTORS: 1.0}[task]


def grid(algorithm: str, facts: Facts) -> list[Settings]:
    """The settings among which the best is chosen, for values in units of `unit`."""
    return _GRIDS[algorithm](facts)


def product(**axes: Sequence[Any]) -> list[Settings]:
    """Every combination."""
    return [dict(zip(axes, values, strict=True)) for values in itertools.product(*axes.values())]


def geometric(low: float, high: float, n: int) -> list[float]:
    """`n` values from `low` to `high`, each the same multiple of the one before."""
    return [rounded(value) for value in np.geomspace(low, high, n).tolist()]


def _als(facts: Facts) -> list[Settings]:
    del facts
    return product(regularization=geometric(0.0075, 0.96, 14), n_epochs=(4, 8, 16))


def _als_implicit(facts: Facts) -> list[Settings]:
    """λ as a share of α: both weigh the row against what it does not say."""
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
