"""What a harness receives and returns. NumPy and the standard library only."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

Settings = dict[str, Any]
ESTIMATES, LISTS, FACTORS = "estimates", "lists", "factors"  # tasks
SEED = 0  # of every library's random start


class Facts(NamedTuple):
    """What a grid is relative to.

    Attributes:
        mean, std: of the training values.
        density: training pairs over all pairs.
        n_factors: size that both sides use for a non-negative factorization.
    """

    mean: float
    std: float
    density: float
    n_factors: int


class Problem(NamedTuple):
    """One fit: U users, I items, N training ratings, B pairs to estimate (none for lists and factors).

    Attributes:
        users, items: int32 (N,), rows.
        values: float32 (N,).
        shape: (U, I).
        test_users, test_items: int32 (B,), rows; some may have no training rating.
    """

    users: NDArray[np.int32]
    items: NDArray[np.int32]
    values: NDArray[np.float32]
    shape: tuple[int, int]
    test_users: NDArray[np.int32]
    test_items: NDArray[np.int32]


class Fitted(NamedTuple):
    """What a fit leaves.

    Attributes:
        seconds: of the library's own `fit`, without loading and conversion.
        arrays: estimates (B,); or user_factors (U, F) and item_factors (I, F) whose products order the lists; or
            W (U, F) and H (F, I).
    """

    seconds: float
    arrays: dict[str, NDArray[Any]]


class Peer(NamedTuple):
    """One model of a library.

    Attributes:
        name: in the tables.
        package: what has to be installed, by its name in a package index.
        task: `ESTIMATES`, `LISTS` or `FACTORS`.
        grid: the settings among which its best is chosen.
        fit: trains with settings over the library's defaults. Raises ModuleNotFoundError where it is not installed.
        default: the settings that are called its defaults: none, or what the data decide.
    """

    name: str
    package: str
    task: str
    grid: Callable[[Facts], list[Settings]]
    fit: Callable[[Problem, Settings], Fitted]
    default: Callable[[Facts], Settings] = lambda facts: {}


def rounded(number: float) -> float:
    """Two significant digits, so that a table can show a setting as it was."""
    return float(f"{number:.2g}")
