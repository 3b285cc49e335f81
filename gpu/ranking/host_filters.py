"""Filters of a batch on the host: panels without eligible items are skipped, other items start with a score of −inf."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, NamedTuple

import numpy as np
from numpy.typing import NDArray

from gpu.base.host import njit
from gpu.data.host_arena import Int
from gpu.ranking.eligible import WORD, Eligible
from gpu.ranking.host_item_index import PANEL

WORDS = PANEL // WORD  # words of a panel
BITS = np.uint32(1) << np.arange(WORD, dtype=np.uint32)  # LLVM makes vectors of a look-up here, but not of a shift


class Filters(NamedTuple):
    """The filters of B users; users often share one, and a batch seldom has more than one.

    Attributes:
        of_user: int64 (B,), the user's row of `words`; −1: all items are eligible.
        words: uint32 (filters, P, `WORDS`), bits of the items of each panel.
        has_any: bool (filters, P), panels with an eligible item.
    """

    of_user: NDArray[np.int64]
    words: Annotated[NDArray[np.uint32], 3]
    has_any: Annotated[NDArray[np.bool_], 2]


def filters_of(eligible: Sequence[Eligible | None], n_panels: int) -> Filters:
    """The filters of users with these sets of items; None: all items are eligible."""
    if not any(eligible):
        none = np.zeros((0, n_panels, WORDS), dtype=np.uint32)
        return Filters(np.full(len(eligible), -1), none, np.zeros((0, n_panels), dtype=np.bool_))
    distinct = {one: row for row, one in enumerate(dict.fromkeys(one for one in eligible if one is not None))}
    of_user = np.array([-1 if one is None else distinct[one] for one in eligible], dtype=np.int64)
    words = np.zeros((len(distinct), n_panels, WORDS), dtype=np.uint32)
    for one, flat in zip(distinct, words.reshape(len(distinct), n_panels * WORDS), strict=True):
        known = one.bits[: len(flat)]
        flat[: len(known)] = known
    has_any: NDArray[np.bool_] = np.any(words, axis=2)
    return Filters(of_user, words, has_any)


@njit(cache=True, nogil=True)
def is_open(request: Int, panel: Int, filters: Filters) -> bool:
    """Whether a panel may have an eligible item of this user."""
    row = filters.of_user[request]
    return row < 0 or bool(filters.has_any[row, panel])


@njit(cache=True, nogil=True)
def count_open(first: Int, last: Int, panel: Int, filters: Filters) -> int:
    """Number of the users `first` to `last` (excluded) to whom a panel `is_open`."""
    n_open = 0
    for b in range(first, last):
        n_open += is_open(b, panel, filters)
    return n_open


@njit(cache=True, nogil=True)
def mask_others(request: Int, panel: Int, filters: Filters, scores: NDArray[np.float32]) -> None:
    """Set the scores of a panel's items that are not eligible for this user to −inf."""
    row, none = filters.of_user[request], np.float32(-np.inf)
    if row < 0:
        return
    for n in range(WORDS):
        word, part = filters.words[row, panel, n], scores[n * WORD : (n + 1) * WORD]
        for j in range(WORD):
            part[j] = part[j] if word & BITS[j] else none
