"""Parts of a catalog that several devices rank, and the merge of their lists.

Each device scans the items of its part and lists the best n of them. The best n of all items are among these: of a part
with one of them, at most n − 1 other items are better.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

TILE = 32  # items that stay together, as in kernels/topn_items.cuh; a word of `gpu.ranking.eligible.Eligible`

LARGEST = np.int32(0x7FFFFFFF)

Lists = tuple[NDArray[np.int32], NDArray[np.float32]]  # (B, n) rows and scores, padded with −1 and −inf


class Part(NamedTuple):
    """Tiles of items dealt in turn: part `number` has tiles `number`, `number` + `n_parts`, and so on.

    So parts are equally long to one tile, and new items change no other item's part. An item of a part has two numbers:
    its row among all items, and its position among those of the part. Both are in the same order.
    """

    number: int = 0
    n_parts: int = 1

    def length(self, n_rows: int) -> int:
        """How many of the first `n_rows` rows belong to the part."""
        rounds, rest = divmod(n_rows, TILE * self.n_parts)
        return rounds * TILE + min(max(rest - self.number * TILE, 0), TILE)

    def holds(self, rows: NDArray[np.integer]) -> NDArray[np.bool_]:
        """Whether each of `rows` (B,) belongs to the part."""
        belong: NDArray[np.bool_] = rows // TILE % self.n_parts == self.number
        return belong

    def positions(self, rows: NDArray[np.integer]) -> NDArray[np.integer]:
        """The positions of `rows` (B,), all of which belong to the part."""
        return rows // (TILE * self.n_parts) * TILE + rows % TILE

    def rows(self, positions: NDArray[np.integer]) -> NDArray[np.integer]:
        """The rows at `positions` (B,) of the part."""
        return (positions // TILE * self.n_parts + self.number) * TILE + positions % TILE


def merged(lists: Sequence[Lists]) -> Lists:
    """The best items of the lists of all parts, as many as each list has; ties to the lower row.

    A score and its row become one number, because a sort by two keys takes several times as long. Scores are not −0.
    """
    if len(lists) == 1:
        return lists[0]
    n = lists[0][0].shape[1]
    rows, scores = (np.concatenate(columns, axis=1) for columns in zip(*lists, strict=True))
    keys = ~(_ascending(scores.view(np.int32)).astype(np.int64) << 32 | LARGEST - rows.astype(np.int64))
    keys.sort(axis=1)
    best = ~keys[:, :n]
    best_scores: NDArray[np.float32] = _ascending((best >> 32).astype(np.int32)).view(np.float32)
    return (LARGEST - (best & 0xFFFFFFFF)).astype(np.int32), best_scores


def _ascending(bits: NDArray[np.int32]) -> NDArray[np.int32]:
    """Whole numbers in the order of the numbers with these bits in float32, and from the former to the latter."""
    return bits ^ (bits >> 31 & LARGEST)
