"""`laid_out`: where the arrays of a batch of lists lie in the memory of a device, and the user side, copied there.

The columns of the user side come first, one after the other, in words of four bytes. Arrays that are worked on follow.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from gpu.ranking.host_layout import lay_out
from gpu.ranking.requests import RankingRequests

COLUMNS = (
    "candidates", "filters", "factors", "biases", "baselines", "seen_starts", "seen", "values", "excluded_starts",
    "excluded", "n_candidates", "filter_words",
)  # fmt: skip
ALIGNED, MEBI = 256, 1 << 20  # bytes: starts of arrays that are worked on, and the unit of the size of all


class Sizes(NamedTuple):
    """Attributes:
    stride: one in `stride` tiles is sampled; with 1 every item is scored exactly.
    n_sampled: items of these tiles.
    room: rows, and keys, of a user, at most.
    """

    stride: int
    n_sampled: int
    room: int


class Layout(NamedTuple):
    """Attributes:
    given: int32, the user side.
    positions: bytes at which each of `COLUMNS` and each array that is worked on starts.
    n_bytes: all memory, in whole `MEBI`: the pool finds that of the last batch again, though it had fewer ratings.
    """

    given: NDArray[np.int32]
    positions: dict[str, int]
    n_bytes: int


def laid_out(
    requests: RankingRequests,
    addresses: tuple[NDArray[np.uint64], NDArray[np.uint64]],
    lengths: tuple[NDArray[np.int32], NDArray[np.int32]],
    n: int,
    sizes: Sizes,
    words: int,
    width: int,
    scale: tuple[float, float],
    memory: Callable[[int], NDArray[np.int32]],
    *,
    reads_seen: bool,
    reads_values: bool,
) -> Layout:
    """Write the user side into `memory` of as many words.

    Args:
        n: length of the lists.
        words: of `touched`, of each user.
        addresses, lengths: of candidates and filters, (P B,) and (B,), see `gpu.ranking.device_filters.Choice`.
        width: factors of a user; those beyond F are 0.
        scale: values are clipped to it.
        reads_seen: whether the kernels read what users have rated; `reads_values`: how.
    """
    n_users, bounds = len(requests.biases), requests.exclude_starts
    n_seen = int(np.add.reduce(requests.lengths)) if reads_seen else 0
    n_words = (
        2 * len(addresses[0]), 2 * len(addresses[1]), n_users * width, n_users, n_users, n_users + 1,
        n_seen, n_seen if reads_values else 0, n_users + 1, int(bounds[-1] - bounds[0]), n_users, n_users,
    )  # fmt: skip
    starts = list(itertools.accumulate(n_words, initial=0))
    given = memory(starts[-1])[: starts[-1]]
    requests = requests._replace(factors=np.ascontiguousarray(requests.factors))
    lay_out(given, np.array(starts), requests, *addresses, *lengths, *scale)
    positions, end = {name: 4 * start for name, start in zip(COLUMNS, starts, strict=False)}, given.nbytes
    for name, n_bytes in (
        ("keys", 8 * n_users * sizes.room),
        ("rows", 4 * n_users * sizes.room if sizes.stride > 1 else 0),
        ("sample", 4 * n_users * sizes.n_sampled),
        ("touched", 4 * n_users * words),
        ("floors", 4 * n_users),
        ("counts", 8 * n_users * (1 + n)),  # with the lists behind them
    ):
        positions[name] = -(-end // ALIGNED) * ALIGNED
        end = positions[name] + n_bytes
    positions["items"] = positions["counts"] + 8 * n_users
    positions["scores"] = positions["items"] + 4 * n_users * n
    return Layout(given, positions, -(-end // MEBI) * MEBI)
