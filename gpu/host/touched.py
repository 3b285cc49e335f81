"""What a user has to do with neighbours of items on the host: terms of [004] eq. 1 through inverse lists.

Each rated item adds its W and C to the items that have it as a neighbour, O(|Ω_i|·K) a user instead of O(I·K); what a
rated neighbour takes from the sum over C is subtracted from the whole sum. Sums lie by item in memory that is only
touched, and only set up, where there are any: in blocks, so that roots are taken in vectors.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numba import njit, prange
from numpy.typing import NDArray

from gpu.host.arena import Int
from gpu.host.item_index import Tables
from gpu.scoring import Requests

BLOCK = 64  # items
PARALLEL_FROM = 2**20  # entries of inverse lists, some milliseconds


class Touched(NamedTuple):
    """Items that have a neighbour that the user has rated, ascending; B users.

    Attributes:
        starts, lengths: int64 (B,).
        items, scores: int32 and float32, flat; all of the score but the user's bias and the product of the factors.
    """

    starts: NDArray[np.int64]
    lengths: NDArray[np.int64]
    items: NDArray[np.int32]
    scores: NDArray[np.float32]


def touched(requests: Requests, tables: Tables) -> Touched:
    """The touched items of every user."""
    n_users = len(requests.starts)
    bounds = np.zeros(n_users + 1, dtype=np.int64)
    if len(tables.owners):
        count(requests, tables, bounds)
    n = int(bounds[-1])
    near = Touched(
        bounds[:-1], np.zeros(n_users, dtype=np.int64), np.empty(n, dtype=np.int32), np.empty(n, dtype=np.float32)
    )
    if n:
        (touch_parallel if n >= PARALLEL_FROM else touch_all)(requests, tables, *near)
    return near


@njit(cache=True, nogil=True)
def count(requests: Requests, tables: Tables, bounds: NDArray[np.int64]) -> None:
    """Where each user's entries begin (B + 1,): there are as many as inverse lists say, or as items, at most."""
    for b in range(len(requests.starts)):
        n = 0
        for place in range(requests.starts[b], requests.starts[b] + requests.lengths[b]):
            if requests.items[place] < len(tables.lengths):
                n += tables.lengths[requests.items[place]]
        bounds[b + 1] = bounds[b] + min(n, len(tables.plain))


@njit(cache=True, nogil=True)
def open_block(
    block: Int,
    tables: Tables,
    n_rated: NDArray[np.uint32],
    explicit: NDArray[np.float32],
    implicit: NDArray[np.float32],
) -> None:
    """Set the sums of a block to those of somebody who has rated nothing."""
    for j in range(block * BLOCK, (block + 1) * BLOCK):
        n_rated[j], explicit[j], implicit[j] = 0, 0, tables.implicit_sums[j]


@njit(cache=True, nogil=True, fastmath={"nnan", "contract"}, error_model="numpy")
def score_block(
    fixed: NDArray[np.float32],
    n_slots: NDArray[np.int32],
    n_rated: NDArray[np.uint32],
    explicit: NDArray[np.float32],
    implicit: NDArray[np.float32],
    scores: NDArray[np.float32],
) -> None:
    """All but bias and product, fixed + |R|^-½ explicit + |N|^-½ implicit, in vectors."""
    one = np.float32(1)
    for j in range(BLOCK):
        rated = np.float32(n_rated[j])
        unrated = np.float32(n_slots[j]) - rated
        scores[j] = fixed[j] + (explicit[j] / np.sqrt(max(rated, one)) + implicit[j] / np.sqrt(max(unrated, one)))


@njit(cache=True, nogil=True)
def add_ratings(
    request: Int,
    requests: Requests,
    tables: Tables,
    is_open: NDArray[np.bool_],
    n_rated: NDArray[np.uint32],
    explicit: NDArray[np.float32],
    implicit: NDArray[np.float32],
) -> None:
    """Sum what each rated item gives to the items that have it as a neighbour."""
    start = requests.starts[request]
    for n in range(start, start + requests.lengths[request]):
        x = requests.items[n]
        if x >= len(tables.baselines):
            continue
        residual = requests.values[n] - (tables.baselines[x] + requests.baselines[request])
        weight = np.float32(1) if tables.is_implicit else np.float32(residual)
        first = np.uint64(tables.starts[x])
        for place in range(first, first + np.uint64(tables.lengths[x])):
            owner = np.uint32(tables.owners[place])  # unsigned: not tested for counting from the end, a third of it
            if not is_open[owner // np.uint32(BLOCK)]:
                is_open[owner // np.uint32(BLOCK)] = True
                open_block(owner // np.uint32(BLOCK), tables, n_rated, explicit, implicit)
            n_rated[owner] += np.uint32(1)
            explicit[owner] += weight * tables.explicit_weights[place]
            implicit[owner] -= tables.implicit_weights[place]


@njit(cache=True, nogil=True)
def touch(
    first: Int,
    last: Int,
    requests: Requests,
    tables: Tables,
    starts: NDArray[np.int64],
    lengths: NDArray[np.int64],
    items: NDArray[np.int32],
    scores: NDArray[np.float32],
) -> None:
    """Fill `Touched` for the users `first` to `last` (excluded)."""
    n_items = len(tables.plain)
    n_rated, is_open = np.empty(n_items, dtype=np.uint32), np.empty(n_items // BLOCK, dtype=np.bool_)
    explicit, implicit = np.empty(n_items, dtype=np.float32), np.empty(n_items, dtype=np.float32)
    found = np.empty(BLOCK, dtype=np.float32)
    for b in range(first, last):
        is_open[:] = False
        add_ratings(b, requests, tables, is_open, n_rated, explicit, implicit)
        place = starts[b]
        for block in range(len(is_open)):
            if not is_open[block]:
                continue
            part = slice(block * BLOCK, (block + 1) * BLOCK)
            score_block(tables.fixed[part], tables.n_slots[part], n_rated[part], explicit[part], implicit[part], found)
            for j in range(BLOCK):
                if n_rated[block * BLOCK + j]:
                    items[place], scores[place] = block * BLOCK + j, found[j]
                    place += 1
        lengths[b] = place - starts[b]


@njit(cache=True, nogil=True)
def touch_all(
    requests: Requests,
    tables: Tables,
    starts: NDArray[np.int64],
    lengths: NDArray[np.int64],
    items: NDArray[np.int32],
    scores: NDArray[np.float32],
) -> None:
    """`touch` of all users on one thread."""
    touch(0, len(starts), requests, tables, starts, lengths, items, scores)


@njit(cache=True, nogil=True, parallel=True)
def touch_parallel(
    requests: Requests,
    tables: Tables,
    starts: NDArray[np.int64],
    lengths: NDArray[np.int64],
    items: NDArray[np.int32],
    scores: NDArray[np.float32],
) -> None:
    """`touch` on all threads, each with users of its own."""
    n_users = len(starts)
    n_parts = 8
    for part in prange(n_parts):
        first, last = part * n_users // n_parts, (part + 1) * n_users // n_parts
        touch(first, last, requests, tables, starts, lengths, items, scores)
