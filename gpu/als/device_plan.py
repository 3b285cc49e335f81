"""The plan of a half-iteration on a device: which rows are solved whole, which in parts, and in what order.

Blocks take work items in turns (kernels/als_work.cuh). Items are sorted by length, long ones first, and within a turn
the block with the least work so far gets the longest, so that all blocks end at about the same time. A second kernel
adds the sums A and b of the parts of a row. Two rules decide the parts:

* Length: a row of more than `LONG` ratings would keep one block busy for too long.
* Cache: if the fixed table is larger than half of the L2 cache, its rows are divided into ranges. Rows with many
  ratings in each range are cut at the ranges. Parts of the same range run together, so that their reads hit the cache.

If the sums of all parts do not fit into memory, rows in parts are solved in batches that follow each other. How a row
is cut follows from its own length and from the size of the fixed table: neither batches nor ranks change its bits.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from gpu.als.objective import AlsObjective
from gpu.cuda.work import ITEM, SPLIT, WHOLE
from gpu.data.ratings import Rows
from gpu.data.views import by_group, extremes_of, longest_first, taken

LONG = 8192  # ratings of a part, at most
SLOTS_SHARE = 16  # sums of a batch of rows in parts may take 1 / SLOTS_SHARE of the device's memory, on each side
NARROW = 144  # columns of the fixed table; up to this width a few warps hold A
SHORT, SHORT_OF_WIDE = 32, 64  # ratings of a short row, at most, of narrow and of wide tables: forming A would not pay
PARTS_OF_BLOCK = 4  # of parts of rows of the greatest length, in mode reduce
CUT = 2048  # ratings of a row that is cut at ranges, at least
PER_RANGE = 512  # ratings of a part of such a row, on average at least
MAX_PARTS = 1024  # parts of one row, at most, whose sums must all be in memory
STAGE = 64  # ratings that a block loads at once, as in als_tiles.cuh: a shorter last stage takes as long
TWO_WARPS = 112  # columns of the fixed table; up to this width two warps hold A, beyond it three
UNEVEN = 1.01  # work of the busiest block, in that of all on average, from which on some turns mix lengths
BAND, LEAST_BAND = (32, 8), 8  # these turns: from a 32nd to an eighth of all; the least number
MOST_WEIGHT = 1e30  # kernels divide by a weight with `rcp`, which gives 0 from 2^126 on; larger shares overflow instead

SOLVER = np.dtype("<f4, <f4, <f4, <f4, <f4, <f4, <f4, <i4")
SOLVER.names = ("alpha", "mean", "regularization", "exponent", "offset", "prior", "tolerance", "n_steps")


class Plan(NamedTuple):
    """Attributes:
    items: `ITEM` (n,): parts of rows batch by batch, in order of their ranges, then by length, longest first; then
        whole rows by length, longest first. Rows without ratings are left out.
    splits: `SPLIT` (n,): the rows that come in parts; the slots of one row are consecutive numbers.
    n_slots: parts in all. In the plan `fused` an item has the number of its slot from the first one of its batch.
    n_short: items at the end that are short rows, see `short_of`.
    """

    items: NDArray[np.void]
    splits: NDArray[np.void]
    n_slots: int
    n_short: int


class Batch(NamedTuple):
    """Consecutive splits whose sums are in memory together, and their parts, which are consecutive items.

    Attributes:
        first_slot: the first of these items.
        n_slots: their number.
        n_items: the same, and the whole rows after them that are formed in the same launch.
    """

    first_split: int
    n_splits: int
    first_slot: int
    n_slots: int
    n_items: int


def solver_of(problem: AlsObjective, n_rated: int) -> NDArray[np.void]:
    """`SOLVER` () of a half-iteration with ρ = λ (n + offset)^ν + λ0, without names.

    `n_rated` is the number of fixed rows with ratings.
    """
    offset = n_rated / problem.alpha if problem.is_implicit else 0.0
    ridge = (problem.regularization, problem.exponent, offset, problem.prior)
    constants = (problem.alpha, problem.mean, *ridge, problem.cg_tolerance, problem.n_cg_steps)
    return np.array(constants, dtype=SOLVER).view(f"V{SOLVER.itemsize}")  # CuPy spells out the names at each launch


def n_ranges(table_bytes: int, cache_bytes: int) -> int:
    """Number of ranges of the fixed side's rows so that each takes at most half of the cache."""
    return max(1, -(-table_bytes // max(1, cache_bytes // 2)))


def short_of(n_columns: int) -> int:
    """Ratings of a short row, at most; `n_columns` of the fixed table."""
    return SHORT if n_columns <= NARROW else SHORT_OF_WIDE


def least_ratings(ranges: int) -> int:
    """Rows with more ratings are cut at the `ranges` ranges; with one range, by their length."""
    return LONG if ranges == 1 else max(CUT, PER_RANGE * ranges)


def parts_of(lengths: NDArray[np.int64], ranges: int) -> NDArray[np.int64]:
    """Number of parts of each row, 0 for one that is solved whole: exact for one range, else an upper bound."""
    is_ranged = lengths > least_ratings(ranges)
    return np.where((lengths > LONG) | is_ranged, -(-lengths // LONG) + (ranges - 1) * is_ranged, 0)


def weights(rows: Rows, problem: AlsObjective) -> NDArray[np.float32]:
    """Largest α·|r| of each row, or |r − μ| in explicit problems, since FP16 holds shares of it; 1 instead of 0."""
    (lowest, highest), mean = extremes_of(rows), np.float32(problem.mean)
    largest: NDArray[np.float32] = np.maximum(np.abs(highest - mean), np.abs(lowest - mean))
    if problem.is_implicit:
        largest *= np.float32(problem.alpha)
    largest[(largest == 0) | (rows.lengths == 0)] = 1
    np.minimum(largest, np.float32(MOST_WEIGHT), out=largest)
    return largest


def fused(
    rows: Rows, row_weights: NDArray[np.float32], n_columns: int, ranges: int, max_slots: int, short: int = SHORT
) -> tuple[Plan, list[Batch]]:
    """The plan of the kernels that form and solve A in one launch a batch; there is at least one batch.

    Args:
        rows: ratings of the side to solve.
        row_weights: float32 (rows,), see `weights`.
        n_columns: rows of the fixed side.
        ranges: see `n_ranges`.
        max_slots: parts of a batch, at most; a single row may need more.
        short: see `short_of`.
    """
    is_ranged = rows.lengths > least_ratings(ranges)
    is_long = is_ranged | (rows.lengths > LONG)
    long, whole = np.flatnonzero(is_long), np.flatnonzero((rows.lengths > 0) & ~is_long)
    whole = whole[longest_first(rows.lengths[whole])]
    whole_lengths = rows.lengths[whole]
    bounds = _range_bounds(rows, long, np.arange(1, ranges, dtype=np.int64) * n_columns // ranges)
    bounds[~is_ranged[long], 1:-1] = bounds[~is_ranged[long], -1:]
    parts = _parts(bounds, long, -(-np.diff(bounds) // LONG))
    in_range = np.repeat(np.arange(len(long) * ranges) % ranges, parts.n_parts.ravel())
    splits = _splits(long, parts.n_parts.sum(axis=1), rows, row_weights)
    found = batches(splits, max_slots) or [Batch(0, 0, 0, 0, 0)]
    sizes = np.array([batch.n_slots for batch in found])
    first_slots = np.repeat(np.cumsum(sizes) - sizes, sizes)
    order = np.lexsort((-parts.lengths, in_range, first_slots))
    items = np.zeros(len(order) + len(whole), dtype=ITEM)
    items["begin"] = np.concatenate([parts.begins[order], rows.starts[whole]])
    numbers = np.concatenate([parts.rows[order], whole])
    items["row"], items["weight"] = numbers, row_weights[numbers]
    items["length"] = np.concatenate([parts.lengths[order], whole_lengths])
    items["total"] = np.concatenate([rows.lengths[parts.rows[order]], whole_lengths])
    items["slot"][: len(order)], items["slot"][len(order) :] = order - first_slots, WHOLE
    splits["first_slot"] -= np.repeat(np.cumsum(sizes) - sizes, [batch.n_splits for batch in found])
    n_short = int(np.count_nonzero(whole_lengths <= short))
    found[-1] = found[-1]._replace(n_items=found[-1].n_items + len(whole) - n_short)
    return Plan(items, splits, len(order), n_short), found


def mixes_lengths(n_columns: int) -> bool:
    """Whether `balanced` should mix rows of all lengths, in explicit problems with a fixed table of `n_columns`.

    Where one or two warps hold A, an epoch is then up to 4 % shorter. Where three do, it is 8 % longer, and 14 % in
    implicit problems, which never mix.
    """
    return n_columns <= TWO_WARPS or n_columns > NARROW


def balanced(items: NDArray[np.void], n_blocks: int, *, is_mixed: bool) -> NDArray[np.void]:
    """The items in an order that gives all blocks of a launch about equal work.

    Block b of G takes items b, 2G − 1 − b, 2G + b, … (kernels/als_work.cuh). Parts of rows stay in the turn of their
    range; whole rows may go anywhere. Lengths fall steeply, and each range starts with long parts. So in the order of
    their lengths some blocks would always have the longer items: on one of four devices the busiest would have 1.4
    times the mean on Netflix's shape. So in each turn the block with the least work so far gets the longest item. Turns
    of rows that are all alike cannot make up for turns before; turns of rows of all lengths can.

    Args:
        items: `ITEM` (n,): parts turn by turn, then whole rows, longest first.
        n_blocks: G, blocks of the launch.
        is_mixed: whether all turns of whole rows but the first quarter, with the longest ones, have rows of all
            lengths. Else turns have rows of one length, but for a few if the busiest block had `UNEVEN` times the mean.
    """
    n, work = len(items), -(-items["length"] // STAGE)
    n_ordered = -(-int(np.count_nonzero(items["slot"] != WHOLE)) // n_blocks)  # turns with parts
    whole = np.arange(min(n_ordered * n_blocks, n), n)
    n_turns = len(whole) // n_blocks  # full ones

    def dealt(first: int, last: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """(block of each item, work of each block), where turns `first` to before `last` of whole rows are mixed."""
        alike, mixed, others = np.split(whole[: n_turns * n_blocks], [first * n_blocks, last * n_blocks])
        turns = [np.arange(turn * n_blocks, min((turn + 1) * n_blocks, n)) for turn in range(n_ordered)]
        turns += [*alike.reshape(-1, n_blocks), *mixed.reshape(n_blocks, -1).T, *others.reshape(-1, n_blocks)]
        turns.append(whole[n_turns * n_blocks :])
        loads, owners = np.zeros(n_blocks, dtype=np.int64), np.empty(n, dtype=np.int64)
        for turn, some in enumerate(turns):
            longest_first = some[np.argsort(-work[some], kind="stable")]
            blocks = np.arange(n_blocks)[:: -1 if turn % 2 else 1][: len(some)]
            least_first = blocks[np.argsort(loads[blocks], kind="stable")]
            owners[longest_first] = least_first
            loads[least_first] += work[longest_first]
        return owners, loads

    owners, loads = dealt(n_turns // 4, n_turns) if is_mixed else dealt(0, 0)
    if not is_mixed and loads.max() > UNEVEN * loads.mean():
        owners, _ = dealt(n_turns // BAND[0], min(max(n_turns // BAND[1], LEAST_BAND), n_turns))
    # Every block takes its whole rows longest first, as they are.
    by_block = np.concatenate([np.arange(n - len(whole)), whole[by_group(owners[whole], n_blocks)]])
    counts = np.bincount(owners[whole], minlength=n_blocks)
    turn_of = np.arange(n) // n_blocks
    turn_of[n - len(whole) :] = n_ordered + np.arange(len(whole)) - np.repeat(np.cumsum(counts) - counts, counts)
    own = owners[by_block]
    order = np.empty(n, dtype=np.int64)
    order[turn_of * n_blocks + np.where(turn_of % 2, n_blocks - 1 - own, own)] = by_block
    return taken(items, order)


def two_phase(rows: Rows) -> Plan:
    """The plan of the kernels that write every A to memory: all rows are split into parts, longest row first."""
    rated = longest_first(rows.lengths)[: np.count_nonzero(rows.lengths)]
    n_parts = n_parts_of(rows.lengths[rated])
    bounds = np.column_stack([rows.starts[rated], rows.starts[rated] + rows.lengths[rated]])
    parts = _parts(bounds, rated, n_parts[:, None])
    items = np.zeros(len(parts.rows), dtype=ITEM)
    items["begin"], items["row"], items["length"] = parts.begins, parts.rows, parts.lengths
    items["slot"], items["total"], items["weight"] = np.arange(len(items)), rows.lengths[parts.rows], 1
    row_weights = np.ones(len(rows.starts), dtype=np.float32)
    return Plan(items, _splits(rated, n_parts, rows, row_weights), len(items), 0)


def n_parts_of(lengths: NDArray[np.int64]) -> NDArray[np.int64]:
    """Number of parts of rows of these lengths in the plan `two_phase`."""
    return np.minimum(-(-lengths // LONG), MAX_PARTS)


def batches(splits: NDArray[np.void], max_slots: int) -> list[Batch]:
    """Cut `splits` into runs of at most `max_slots` parts, but at least one row."""
    ends = np.cumsum(splits["n_slots"], dtype=np.int64)
    runs: list[Batch] = []
    first, slot = 0, 0
    while first < len(splits):
        last = max(first + 1, int(np.searchsorted(ends, slot + max_slots, side="right")))
        n_slots = int(ends[last - 1]) - slot
        runs.append(Batch(first, last - first, slot, n_slots, n_slots))
        first, slot = last, int(ends[last - 1])
    return runs


class Summed(NamedTuple):
    """How A and b of rows are formed in mode reduce of several ranks.

    Attributes:
        items: `ITEM` (n,): parts of rows, longest first but for turns, see `balanced`. A row's first part has the slot
            of the row, its place in the batch; further parts have consecutive slots after those of all rows.
        joined: int32 (3, m): of each row in several parts its place, the slot of its second part, and the number of
            parts but the first.
    """

    items: NDArray[np.void]
    joined: NDArray[np.int32]


def summed(
    part: Rows, numbers: NDArray[np.int64], lengths: NDArray[np.int64], row_weights: NDArray[np.float32], n_blocks: int
) -> Summed:
    """The plan of the rows of a batch: no part has more than a share of a block's work, and than `LONG` ratings.

    One row may have twice the ratings that a block has on average, such as the most popular of Hugewiki's items on one
    of four devices: in one part it would take as long as all of the half.

    Args:
        part: the rows, with the ratings over the fixed rows of this rank.
        numbers: int64 (rows,), their numbers on their side, to which `lengths`, all ratings, and `row_weights` belong.
        n_blocks: blocks of the launch.
    """
    n_parts = -(-part.lengths // most_of_part(int(part.lengths.sum()), n_blocks))
    rated = np.flatnonzero(n_parts)
    bounds = np.column_stack([part.starts[rated], part.starts[rated] + part.lengths[rated]])
    parts, more = _parts(bounds, rated, n_parts[rated][:, None]), np.maximum(n_parts - 1, 0)
    firsts = len(n_parts) + np.cumsum(more) - more
    place = np.arange(len(parts.rows)) - np.repeat(np.cumsum(n_parts[rated]) - n_parts[rated], n_parts[rated])
    slots = np.where(place == 0, parts.rows, firsts[parts.rows] + place - 1)
    order = longest_first(parts.lengths)
    items = np.zeros(len(order), dtype=ITEM)
    items["begin"], items["length"], items["slot"] = parts.begins[order], parts.lengths[order], slots[order]
    items["row"] = numbers[parts.rows[order]]
    items["total"], items["weight"] = lengths[items["row"]], row_weights[items["row"]]
    several = np.flatnonzero(more)
    joined = np.array([several, firsts[several], more[several]], dtype=np.int32)
    return Summed(balanced(items, n_blocks, is_mixed=False), joined)


def most_of_part(n_ratings: int, n_blocks: int) -> int:
    """Ratings of a part of a row in mode reduce, at most, where `n_blocks` share `n_ratings`."""
    return max(LONG, -(-n_ratings // (PARTS_OF_BLOCK * n_blocks)))


def most_more(n_ratings: int, n_blocks: int) -> int:
    """Slots, at most, beside one for each row."""
    return min(n_ratings // LONG, PARTS_OF_BLOCK * n_blocks)


class _Parts(NamedTuple):
    """Parts in order of rows and ranges: begins, lengths and rows (n,); and the number of parts per (row, range)."""

    begins: NDArray[np.int64]
    lengths: NDArray[np.int64]
    rows: NDArray[np.int64]
    n_parts: NDArray[np.int64]


def _parts(bounds: NDArray[np.int64], rows: NDArray[np.int64], n_parts: NDArray[np.int64]) -> _Parts:
    """Cut each stretch between two `bounds` (rows, ranges + 1) into its `n_parts` (rows, ranges) of equal length."""
    flat = n_parts.ravel()
    starts, lengths = bounds[:, :-1].ravel(), np.diff(bounds).ravel()
    stretch = np.repeat(np.arange(len(flat)), flat)
    position = np.arange(len(stretch)) - np.repeat(np.cumsum(flat) - flat, flat)
    begins = lengths[stretch] * position // flat[stretch]
    ends = lengths[stretch] * (position + 1) // flat[stretch]
    owners = np.repeat(rows, n_parts.sum(axis=1))
    return _Parts(starts[stretch] + begins, ends - begins, owners, n_parts)


def _range_bounds(rows: Rows, long: NDArray[np.int64], edges: NDArray[np.int64]) -> NDArray[np.int64]:
    """Where each range of a row begins in the flat arrays, and where the last ends; `edges` divide the columns."""
    starts, ends = rows.starts[long], rows.starts[long] + rows.lengths[long]
    low, high = (np.repeat(side[:, None], len(edges), axis=1) for side in (starts, ends))
    while (is_open := low < high).any():
        middle = (low + high) >> 1
        is_below = rows.items[np.where(is_open, middle, 0)] < edges
        low = np.where(is_open & is_below, middle + 1, low)
        high = np.where(is_open & ~is_below, middle, high)
    return np.column_stack([starts, low, ends])


def _splits(
    split: NDArray[np.int64], n_parts: NDArray[np.int64], rows: Rows, row_weights: NDArray[np.float32]
) -> NDArray[np.void]:
    splits = np.zeros(len(split), dtype=SPLIT)
    splits["row"], splits["n_slots"] = split, n_parts
    splits["first_slot"] = np.cumsum(n_parts) - n_parts
    splits["total"], splits["weight"] = rows.lengths[split], row_weights[split]
    return splits
