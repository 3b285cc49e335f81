"""Which items may be in the lists of a batch on the device: candidates, or the bits of a filter.

Copies of filters stay on each device, because the same filter comes with many requests.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import Any, NamedTuple

import cupy
import numpy as np
from numpy.typing import NDArray

from gpu.cuda.arrays import to_device
from gpu.ranking.eligible import Eligible
from gpu.ranking.requests import RankingRequests

# Copies of each kind on a device; those unused for longest are dropped. 32 MB of bits at a million items.
MOST_HELD = 256


class Choice(NamedTuple):
    """The items of B lists. A user has candidates, a filter, or neither.

    Attributes:
        candidates: uint64 (B,), addresses of rows, int32, ascending.
        n_candidates: int32 (B,), rows there; −1: no candidates are given.
        filters: uint64 (B,), addresses of bits, uint32 as in `Eligible`; 0: all items are eligible.
        filter_words: int32 (B,), words there.
        n_eligible: int64 (B,), at most this many items pass the filter; all items without one.
        held: the arrays at these addresses.
    """

    candidates: NDArray[np.uint64]
    n_candidates: NDArray[np.int32]
    filters: NDArray[np.uint64]
    filter_words: NDArray[np.int32]
    n_eligible: NDArray[np.int64]
    held: tuple[Any, ...]


def choice_of(requests: RankingRequests, eligible: Sequence[Eligible | None], n_items: int, most: int) -> Choice:
    """The choice of each user. Up to `most` items that pass a filter are candidates: users share one array of rows."""
    distinct = {one: place for place, one in enumerate(dict.fromkeys(eligible))}
    chosen: list[tuple[tuple[int, ...], Any]] = []  # the numbers of each distinct filter, and the array to hold
    for one in distinct:
        if one is None:
            chosen.append(((0, -1, 0, 0, n_items), None))
        elif one.count <= most:
            copy = rows_of(one)
            chosen.append(((copy.data.ptr, int(np.searchsorted(one.rows, n_items)), 0, 0, n_items), copy))
        else:
            copy = bits_of(one)
            chosen.append(((0, -1, copy.data.ptr, len(copy), min(one.count, n_items)), copy))
    of_user = [distinct[one] for one in eligible]
    rows, lengths, bits, words, counts = np.array([numbers for numbers, _ in chosen])[of_user].T
    choice = Choice(
        candidates=rows.astype(np.uint64),
        n_candidates=lengths.astype(np.int32),
        filters=bits.astype(np.uint64),
        filter_words=words.astype(np.int32),
        n_eligible=counts,
        held=tuple(array for _, array in chosen),
    )
    bounds, has_some = requests.candidate_starts, requests.has_candidates
    if not has_some.any():
        return choice
    given = to_device(requests.candidates[bounds[0] : bounds[-1]].astype(np.int32))
    addresses = (given.data.ptr + 4 * (bounds[:-1] - bounds[0])).astype(np.uint64)
    return choice._replace(
        candidates=np.where(has_some, addresses, choice.candidates),
        n_candidates=np.where(has_some, np.diff(bounds), choice.n_candidates).astype(np.int32),
        held=(*choice.held, given),
    )


def bits_of(eligible: Eligible) -> Any:
    """The bits of a filter, uint32 on the current device."""
    held, device = _held_bits(eligible), cupy.cuda.Device().id
    if device not in held:
        held[device] = to_device(eligible.bits)
    return held[device]


def rows_of(eligible: Eligible) -> Any:
    """The rows that pass a filter, ascending, int32 on the current device."""
    held, device = _held_rows(eligible), cupy.cuda.Device().id
    if device not in held:
        held[device] = to_device(eligible.rows)
    return held[device]


@functools.lru_cache(maxsize=MOST_HELD)
def _held_bits(eligible: Eligible) -> dict[int, Any]:
    """Copies by device."""
    del eligible  # the key
    return {}


@functools.lru_cache(maxsize=MOST_HELD)
def _held_rows(eligible: Eligible) -> dict[int, Any]:
    """Copies by device."""
    del eligible  # the key
    return {}
