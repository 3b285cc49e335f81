"""The fixed grids of our algorithms: λ, α, learning rate and epochs, with the default number of factors.

Their settings are in units of the data, so that one grid fits every scale of values and every density. Values are
divided by `unit` before a setting is trained: ratings by their standard deviation, counts by their mean. The deviation
determines the squared error of a row, and with it the scale of λ and of the learning rate. α weighs a rated pair
against an unrated one and is a multiple of 1 / √density. For pairs that count as ones, the best α that was found is
near 5 if one pair in 25 is rated (MovieLens-1M), and near 40 if one in 1,500 is (Gowalla).
"""

from __future__ import annotations

import itertools
from collections.abc import Callable

import numpy as np

from benchmarks.peers import ESTIMATES, FACTORS, LISTS, Facts, Settings, product, rounded

# Task -> algorithms, in the order of the tables.
ALGORITHMS = {
    ESTIMATES: ("als", "sgd", "culsh", "esgd"),
    LISTS: ("als-implicit", "culsh-implicit", "ease"),
    FACTORS: ("nmf",),
}
RIDGES, STEPS = (0.015, 0.03, 0.06, 0.12, 0.24), (0.01, 0.02, 0.04)  # λ and learning rates of descent


def unit(task: str, facts: Facts) -> float:
    """The unit by which values are divided before a setting of a grid is trained."""
    return {ESTIMATES: facts.std, LISTS: facts.mean, FACTORS: 1.0}[task]


def geometric(low: float, high: float, n: int) -> list[float]:
    """`n` values from `low` to `high` with a constant ratio, each with two significant digits."""
    return [rounded(value) for value in np.geomspace(low, high, n).tolist()]


def _als_implicit(facts: Facts) -> list[Settings]:
    """λ is a multiple of α, because a larger α also increases the squared error of a row."""
    alphas = [2.0**power / facts.density**0.5 for power in range(-2, 4)]
    return [
        {"alpha": rounded(alpha), "regularization": rounded(share * alpha), "n_epochs": n_epochs}
        for alpha, share, n_epochs in itertools.product(alphas, (0.0015, 0.004, 0.012, 0.03), (8, 16))
    ]


# Algorithm -> the settings to choose from, for values in multiples of `unit`.
GRIDS: dict[str, Callable[[Facts], list[Settings]]] = {
    "als": lambda _: product(regularization=geometric(0.0075, 0.96, 14), n_epochs=(4, 8, 16)),
    "als-implicit": _als_implicit,
    "sgd": lambda _: product(regularization=RIDGES, learning_rate=STEPS, n_epochs=(20, 40, 80)),
    "culsh": lambda _: product(regularization=RIDGES, learning_rate=STEPS, n_epochs=(20, 40, 80)),
    "esgd": lambda _: product(regularization=RIDGES, learning_rate=STEPS, n_epochs=(10, 20, 40)),
    "culsh-implicit": lambda _: product(
        regularization=(0.002, 0.005, 0.01, 0.02, 0.05), learning_rate=(0.04, 0.08, 0.16), n_epochs=(20, 40, 80)
    ),
    "ease": lambda _: product(regularization=geometric(1, 10_000, 40)),
    "nmf": lambda _: product(start=("random", "nndsvd")),
}
