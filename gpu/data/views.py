"""Plain tuples of arrays that the training and prediction primitives of every backend read and write."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, NamedTuple

import numpy as np
from numpy.typing import NDArray

from gpu.data.model import Model
from gpu.data.ratings import Rows

NO_WEIGHTS = np.zeros(0, dtype=np.float32)
BOUND_ROWS = 1 << 16  # rows whose costs are added up at a time, which the cache holds
N_COUNTS, MOST_GROUPS = (
    64,
    1 << 15,
)  # stretches of places that are counted at a time; lengths that are sorted by counting


class Arrays(NamedTuple):
    """The arrays of a model that eq. 1 of [004] reads and eq. 5 writes; views, not copies.

    For implicit models a rating from `middle` on is a like and counts as 1; a lower one is a dislike and counts as −1.
    Beside events its merit decides, with `lift` (`gpu.data.evidence.merits`).
    Other models clip ratings to `low` and `high` (`Model.learned_scale`).
    """

    mean: np.float32
    middle: np.float32
    lift: np.float32
    low: np.float32
    high: np.float32
    is_implicit: bool
    user_factors: Annotated[NDArray[np.float32], 2]
    item_factors: Annotated[NDArray[np.float32], 2]
    user_bias: NDArray[np.float32]
    item_bias: NDArray[np.float32]
    user_baseline: NDArray[np.float32]
    item_baseline: NDArray[np.float32]
    neighbors: Annotated[NDArray[np.uint32], 2]
    explicit_weights: Annotated[NDArray[np.float32], 2]
    implicit_weights: Annotated[NDArray[np.float32], 2]
    item_slots: NDArray[np.int32]
    item_weights: Annotated[NDArray[np.float32], 2]
    listed: Annotated[NDArray[np.int32], 2]
    listed_weights: Annotated[NDArray[np.float32], 2]


class Samples(NamedTuple):
    """Targets of one epoch; user i has `items[cuts[i, g] : cuts[i, g + 1]]` in item group g of D groups.

    Attributes:
        items (S,), targets (S,): int32 item rows and float32 values to learn, grouped by user, then by item group.
        cuts (U, D + 1): int64.
        weights (S,): float32, factors of the samples' errors; empty: all are 1.
    """

    items: NDArray[np.int32]
    targets: NDArray[np.float32]
    cuts: Annotated[NDArray[np.int64], 2]
    weights: NDArray[np.float32] = NO_WEIGHTS


class Rates(NamedTuple):
    """Step lengths γ and regularization λ of one epoch (eq. 5); `bias_step` is 0 where there are no biases."""

    step: np.float32
    bias_step: np.float32
    weight_step: np.float32
    regularization: np.float32
    bias_regularization: np.float32
    weight_regularization: np.float32

    @classmethod
    def none(cls) -> Rates:
        """Rates of zero, which change no parameter."""
        return cls(*[np.float32(0)] * 6)


class Shares(NamedTuple):
    """Shares by which λ0, the constant part of the ridge λ n + λ0, shrinks parameters in an epoch."""

    factors: float
    biases: float
    weights: float


def arrays_of(model: Model) -> Arrays:
    """The arrays of `model` in the form of the primitives.

    Neighbors become unsigned, so that `NO_NEIGHBOR` is larger than any row and an index needs no sign check.
    """
    low, high = model.learned_scale
    return Arrays(
        np.float32(model.mean),
        np.float32(model.middle),
        np.float32(model.lift),
        np.float32(low),
        np.float32(high),
        model.is_implicit,
        model.user_factors,
        model.item_factors,
        model.user_bias,
        model.item_bias,
        model.user_baseline,
        model.item_baseline,
        model.neighbors.view(np.uint32),
        model.explicit_weights,
        model.implicit_weights,
        model.item_slots,
        model.item_weights,
        model.listed,
        model.listed_weights,
    )


def balanced_bounds(lengths: NDArray[np.int64], n_groups: int) -> NDArray[np.int64]:
    """Bounds, int64 (D + 1,), of D = `n_groups` runs of rows with similar numbers of ratings."""
    return weighted_bounds(lengths, (1.0,) * n_groups)


def weighted_bounds(lengths: NDArray[np.int64], weights: Sequence[float], row_cost: int = 0) -> NDArray[np.int64]:
    """Bounds, int64 (D + 1,), of D runs of rows whose numbers of ratings are about in proportion to `weights` (D,).

    Args:
        row_cost: what a row with ratings costs beside them, in ratings.
    """

    def ends_in(first: int) -> NDArray[np.int64]:
        """Running costs within the block of rows from `first` on."""
        block = lengths[first : first + BOUND_ROWS]
        return np.cumsum(block + row_cost * (block > 0))

    # Block by block: sums over tens of millions of rows would fill gigabytes with numbers that are read once.
    totals = [int(ends_in(first)[-1]) for first in range(0, len(lengths), BOUND_ROWS)]
    ends, parts = np.cumsum([0, *totals]), np.cumsum(weights)
    cuts = []
    for target in parts[:-1] * (ends[-1] / parts[-1]):
        block = max(int(np.searchsorted(ends, target)) - 1, 0)
        first = block * BOUND_ROWS
        cuts.append(min(first + np.searchsorted(ends_in(first), target - ends[block]), len(lengths)))
    return np.array([0, *cuts, len(lengths)], dtype=np.int64)


def part_of(rows: Rows, own: slice) -> tuple[Rows, int]:
    """(consecutive rows of a compact matrix, as a compact matrix of views; position of their first entry in `rows`)."""
    first, n = int(rows.lengths[: own.start].sum()), int(rows.lengths[own].sum())
    entries = slice(first, first + n)
    return Rows(rows.starts[own] - first, rows.lengths[own], rows.items[entries], rows.values[entries]), first


def within_columns(rows: Rows, columns: slice) -> Rows:
    """All rows with only those entries that lie in `columns`, counted from its first."""
    from gpu.data import host_rows  # noqa: PLC0415 - `import gpu` loads no kernel

    begins, counts = _find_columns(rows, columns)
    starts, n = np.cumsum(counts) - counts, int(counts.sum())
    items, values = np.empty(n, dtype=np.int32), np.empty(n, dtype=np.float32)
    host_rows.copy_entries(begins, counts, rows.items, rows.values, columns.start, starts, items, values)
    return Rows(starts, counts, items, values)


def lengths_within(rows: Rows, columns: slice) -> NDArray[np.int64]:
    """Number of entries of each row that lie in `columns`: int64 (rows,)."""
    return _find_columns(rows, columns)[1]


def extremes_of(rows: Rows) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
    """(smallest, largest) value of each row, float32 (rows,); 0 for rows without ratings."""
    from gpu.data import host_rows  # noqa: PLC0415 - as above

    lowest, highest = np.zeros((2, len(rows.starts)), dtype=np.float32)
    host_rows.find_extremes(rows.starts, rows.lengths, rows.values, lowest, highest)
    return lowest, highest


def by_group(groups: NDArray[np.integer], n_groups: int) -> NDArray[np.int64]:
    """A stable argsort of `groups` (n,), numbers from 0 to before `n_groups`, on all cores."""
    from gpu.data import host_rows  # noqa: PLC0415 - as above

    order = np.empty(len(groups), dtype=np.int64)
    host_rows.order_by_group(groups.astype(np.int32), np.zeros((N_COUNTS, n_groups), dtype=np.int64), order)
    return order


def longest_first(lengths: NDArray[np.int64]) -> NDArray[np.int64]:
    """Places of `lengths` (n,), descending, equal ones in their order."""
    longest = int(lengths.max(initial=0))
    if longest >= MOST_GROUPS:
        return np.argsort(-lengths, kind="stable")
    return by_group(longest - lengths, longest + 1)


def taken(records: NDArray[np.void], order: NDArray[np.int64]) -> NDArray[np.void]:
    """`records[order]`, on all cores; a record has a multiple of eight bytes."""
    from gpu.data import host_rows  # noqa: PLC0415 - as above

    found, shape = np.empty(len(order), dtype=records.dtype), (-1, records.dtype.itemsize // 8)
    host_rows.take_words(records.view(np.int64).reshape(shape), order, found.view(np.int64).reshape(shape))
    return found


def _find_columns(rows: Rows, columns: slice) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """(where the entries of each row in `columns` begin, their number)."""
    from gpu.data import host_rows  # noqa: PLC0415 - as above

    begins, counts = np.empty_like(rows.starts), np.empty_like(rows.lengths)
    host_rows.find_columns(rows.starts, rows.lengths, rows.items, columns.start, columns.stop, begins, counts)
    return begins, counts
