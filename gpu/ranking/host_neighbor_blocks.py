"""Neighbor terms of [004] eq. 1 on the host, for all items of a user, by inverse lists.

Each rated item adds its W and C to the items that have it as a neighbor: O(|Ω_i|·K) a user instead of O(I·K). The C of
rated neighbors is subtracted from the sum over all neighbors. Sums lie in blocks of items, so that vector instructions
take the roots. Only blocks with a term are initialized and read.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from gpu.base.host import njit, prange
from gpu.base.host.forms import serial_and_parallel
from gpu.data.host_arena import Int
from gpu.data.host_evidence import merit
from gpu.ranking.host_item_index import Tables
from gpu.ranking.requests import RankingRequests

BLOCK = 16  # items of a block; panels of the ranked items have whole blocks
DENSE = 64  # items per entry of inverse lists; below it all blocks are initialized in order, which is cheaper
PARTS = 8  # parts of the users that threads share


class Touched(NamedTuple):
    """Blocks with items that have a neighbor that the user has rated, ascending; B users.

    Attributes:
        starts, lengths: int64 (B,).
        blocks: int32 (n,).
        scores: float32 (n, `BLOCK`), the score without the user's bias and the product of the factors.
    """

    starts: NDArray[np.int64]
    lengths: NDArray[np.int64]
    blocks: NDArray[np.int32]
    scores: NDArray[np.float32]


class NeighborSums(NamedTuple):
    """Sums of one user's neighbor terms over the neighbors of each item; work space for I items.

    Attributes:
        n_rated: uint32 (I,), neighbors that the user has rated.
        explicit: float32 (I,), Σ residual · w over these.
        implicit: float32 (I,), Σ c over the other neighbors.
    """

    n_rated: NDArray[np.uint32]
    explicit: NDArray[np.float32]
    implicit: NDArray[np.float32]


@njit(cache=True, nogil=True)
def count(requests: RankingRequests, tables: Tables, bounds: NDArray[np.int64]) -> None:
    """Set `bounds` (B + 1,) to upper bounds of each user's blocks: all blocks, or the entries of inverse lists."""
    n_items = len(tables.plain)
    for b in range(len(requests.starts)):
        n = 0
        for position in range(requests.starts[b], requests.starts[b] + requests.lengths[b]):
            if requests.items[position] < len(tables.lengths):
                n += tables.lengths[requests.items[position]]
        bounds[b + 1] = bounds[b] + (n if n * DENSE < n_items else n_items // BLOCK)


@njit(cache=True, nogil=True)
def open_blocks(first: Int, last: Int, tables: Tables, sums: NeighborSums) -> None:
    """Set the sums of blocks `first` to `last` (excluded) to those of a user without ratings."""
    n_rated, explicit, implicit = sums
    for j in range(first * BLOCK, last * BLOCK):
        n_rated[j], explicit[j], implicit[j] = 0, 0, tables.implicit_sums[j]


@njit(cache=True, nogil=True, fastmath={"nnan", "contract"}, error_model="numpy")
def score_blocks(blocks: NDArray[np.int32], tables: Tables, sums: NeighborSums, scores: NDArray[np.float32]) -> None:
    """Compute fixed + |R|^-½ explicit + |N|^-½ implicit of blocks, in vectors."""
    n_rated, explicit, implicit = sums
    one, fixed, n_slots = np.float32(1), tables.fixed, tables.n_slots
    for n in range(len(blocks)):
        first = np.uint32(blocks[n]) * np.uint32(BLOCK)
        for k in range(np.uint32(BLOCK)):
            j = first + k
            rated = np.float32(n_rated[j])
            unrated = np.float32(n_slots[j]) - rated
            terms = explicit[j] / np.sqrt(max(rated, one)) + implicit[j] / np.sqrt(max(unrated, one))
            scores[n, k] = fixed[j] + terms


@njit(cache=True, nogil=True)
def add_ratings(
    request: Int,
    requests: RankingRequests,
    tables: Tables,
    is_open: NDArray[np.bool_],
    are_all_open: bool | np.bool_,
    sums: NeighborSums,
) -> None:
    """Add the terms of each rated item to the items that have it as a neighbor."""
    n_rated, explicit, implicit = sums
    start = requests.starts[request]
    for n in range(start, start + requests.lengths[request]):
        x = requests.items[n]
        if x >= len(tables.baselines):
            continue
        value = min(max(requests.values[n], tables.low), tables.high)
        residual = value - (tables.baselines[x] + requests.baselines[request])
        sign = np.float32(1) if merit(value, tables.lift) >= tables.middle else np.float32(-1)
        weight = sign if tables.is_implicit else np.float32(residual)
        first = np.uint64(tables.starts[x])
        for position in range(first, first + np.uint64(tables.lengths[x])):
            owner = np.uint32(tables.owners[position])  # unsigned: not tested for counting from the end, a third of it
            if not are_all_open:
                block = owner // np.uint32(BLOCK)
                if not is_open[block]:
                    is_open[block] = True
                    open_blocks(block, block + np.uint32(1), tables, sums)
            n_rated[owner] += np.uint32(1)
            explicit[owner] += weight * tables.explicit_weights[position]
            implicit[owner] -= tables.implicit_weights[position]


def _touch(n_parts: Int, requests: RankingRequests, tables: Tables, out: Touched) -> None:
    """Write the blocks of all users, who come in `n_parts` parts; a part allocates one set of sums."""
    starts, lengths, blocks, scores = out.starts, out.lengths, out.blocks, out.scores
    n_users, n_items, ends = len(starts), len(tables.plain), np.append(starts, len(blocks))
    for part in prange(n_parts):
        n_rated, is_open = np.empty(n_items, dtype=np.uint32), np.empty(n_items // BLOCK, dtype=np.bool_)
        sums = NeighborSums(n_rated, np.empty(n_items, dtype=np.float32), np.empty(n_items, dtype=np.float32))
        for b in range(part * n_users // n_parts, (part + 1) * n_users // n_parts):
            are_all_open = ends[b + 1] - ends[b] == len(is_open)
            is_open[:] = are_all_open
            if are_all_open:
                open_blocks(0, len(is_open), tables, sums)
            add_ratings(b, requests, tables, is_open, are_all_open, sums)
            end = starts[b]
            for block in range(len(is_open)):
                if is_open[block]:
                    blocks[end] = block
                    end += 1
            lengths[b] = end - starts[b]
            score_blocks(blocks[starts[b] : end], tables, sums, scores[starts[b] : end])


touch, touch_parallel = serial_and_parallel(_touch)


@njit(cache=True, nogil=True)
def touched_blocks(requests: RankingRequests, tables: Tables, is_parallel: bool | np.bool_) -> Touched:
    """The touched blocks of every user."""
    n_users = len(requests.starts)
    bounds, lengths = np.zeros(n_users + 1, dtype=np.int64), np.zeros(n_users, dtype=np.int64)
    if len(tables.owners):
        count(requests, tables, bounds)
    starts, n = bounds[:-1], bounds[-1]
    out = Touched(starts, lengths, np.empty(n, dtype=np.int32), np.empty((n, BLOCK), dtype=np.float32))
    if n and is_parallel:
        touch_parallel(PARTS, requests, tables, out)
    elif n:
        touch(1, requests, tables, out)
    return out
