"""Other libraries on the same data. No module here imports the project, so another interpreter can run them.

`libraries.py` has the models, and imports each library only to fit one. `child.py` runs one fit in a process.
"""

from __future__ import annotations

import importlib
import itertools
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

Settings = dict[str, Any]
ESTIMATES, LISTS, FACTORS = "estimates", "lists", "factors"  # tasks
SEED = 0  # seed of every library


class Facts(NamedTuple):
    """Facts about the training part on which the settings of a grid depend; `n_factors` is that of NMF."""

    mean: float
    std: float
    density: float
    n_factors: int


class Problem(NamedTuple):
    """One fit: N training ratings, (U, I), and B pairs to estimate (none for lists and factors), of any rows."""

    users: NDArray[np.int32]
    items: NDArray[np.int32]
    values: NDArray[np.float32]
    shape: tuple[int, int]
    test_users: NDArray[np.int32]
    test_items: NDArray[np.int32]


# Seconds of the library's own `fit`, without loading and conversion, and arrays: estimates (B,); or user_factors (U, F)
# and item_factors (I, F) whose products order the lists; or W (U, F) and H (F, I).
Fitted = tuple[float, dict[str, NDArray[Any]]]


class Peer(NamedTuple):
    """One model of a library: its name in the tables, and the package that has it.

    `grid` has the settings to choose its best from, `default` those of its defaults, {} unless they depend on the data.
    `fit` trains with the given settings; it raises ModuleNotFoundError if the library is missing.
    """

    name: str
    package: str
    task: str
    grid: Callable[[Facts], list[Settings]]
    fit: Callable[[Problem, Settings], Fitted]
    default: Callable[[Facts], Settings] = lambda facts: {}


def peers() -> dict[str, Peer]:
    """Every peer by its name, in the order of the tables."""
    return {peer.name: peer for peer in importlib.import_module("benchmarks.peers.libraries").PEERS}


def rounded(number: float) -> float:
    """Round to two significant digits, so that tables show settings exactly."""
    return float(f"{number:.2g}")


def product(**axes: Sequence[Any]) -> list[Settings]:
    """Every combination of the values of `axes`."""
    return [dict(zip(axes, values, strict=True)) for values in itertools.product(*axes.values())]
