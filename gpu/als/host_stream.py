"""ALS on the CPU with ratings that are read in batches of rows, such as those of a mapped file.

The twin of `gpu.als.device_stream`; see `gpu.als.batches`. A thread reads the ratings where they lie, and the
rows of a batch are solved before the pages of the next one are touched.
"""

from __future__ import annotations

from itertools import pairwise
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from gpu.als import host as als
from gpu.als.host import Side, Table
from gpu.als.objective import RATING_BYTES, AlsObjective, Extent
from gpu.data.ratings import Rows
from gpu.data.views import part_of


class Batch(NamedTuple):
    """Consecutive rows, and their ratings."""

    rows: slice
    side: Side


class Feed:
    """What all sides of a training share: nothing; see the twin."""

    def wait(self) -> None:
        """Do nothing: all is in place."""

    def forget(self) -> None:
        """Do nothing: nothing is loaded ahead."""


def n_buffers() -> int:
    """Batches in memory at the same time."""
    return 1


def can_stream(problem: AlsObjective) -> bool:
    """Whether ratings can be read in batches: always."""
    del problem
    return True


def side_bytes(lengths: NDArray[np.int64], n_columns: int, problem: AlsObjective) -> int:
    """Bytes for rows with `lengths` ratings that are all in memory."""
    del n_columns, problem
    return RATING_BYTES * int(lengths.sum())


def base_bytes(users: Extent, items: Extent, problem: AlsObjective, *, on_host: bool = False) -> int:
    """Bytes of a training without any ratings; `on_host`: see the twin."""
    del on_host
    return als.base_bytes(users, items, problem)


def row_bytes(lengths: NDArray[np.int64], n_columns: int, problem: AlsObjective) -> NDArray[np.int64]:
    """Bytes of each row of a side in a batch."""
    del n_columns, problem
    return RATING_BYTES * lengths


def prepare(
    rows: Rows,
    n_columns: int,
    problem: AlsObjective,
    n_rated: int,
    bounds: NDArray[np.int64],
    feed: Feed,
    table: Table,
) -> list[Batch]:
    """The batches of one side; rows `bounds[k]` to `bounds[k + 1]` (excluded) are in batch k.

    Args:
        bounds: int64 (q + 1,).
        feed: of the training.
        table: not used: see the twin.
        rows, n_columns, problem, n_rated: as in `gpu.als.host.prepare`.
    """
    del feed, table
    spans = [slice(first, last) for first, last in pairwise(bounds.tolist())]
    return [Batch(span, als.prepare(part_of(rows, span)[0], n_columns, problem, n_rated)) for span in spans]


def solve(stream: list[Batch], solved: Table, fixed: Table, problem: AlsObjective) -> None:
    """As `gpu.als.host.solve`, with the same bits."""
    system = als.system_to_solve(fixed, problem)
    for rows, side in stream:
        als.solve_against(side, solved[rows], system, problem)


def errors(
    stream: list[Batch], table: Table, fixed: Table, problem: AlsObjective, scale: tuple[float, float], first: int = 0
) -> tuple[float, float]:
    """As `gpu.als.host.errors`, but for the order of summation."""
    sums = [als.errors(side, table[rows], fixed, problem, scale, first) for rows, side in stream]
    return sum(squares for squares, _ in sums), sum(loss for _, loss in sums)


def penalty(stream: list[Batch], table: Table, problem: AlsObjective) -> float:
    """As `gpu.als.host.penalty`, but for the order of summation."""
    return sum(als.penalty(side, table[rows], problem) for rows, side in stream)
