"""Order: what the items of a user weigh by the number of newer ones, in models where order counts.

The k-th newest item of a user has the weight w_k = exp(−k/τ) + c for k ≤ K, and 0 beyond: τ is `decay_items`, c is
`old_weight`, K is `window`. c tells what the user likes at all, and the first term what comes next. The newest item is
the one with the latest time; of equal times, the later in the stream.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from gpu.base.errors import InvalidInput, InvalidParams
from gpu.data.decay import Times
from gpu.data.param_kinds import Params
from gpu.data.ratings import Ratings


def curve(params: Params) -> NDArray[np.float64]:
    """w_k of `params` with numbers, float64 (K + 1,); w_0, of what is still to come, is 0."""
    k = np.arange(params.window + 1)
    weights = np.exp(-k / (params.decay_items or 1.0)) + (params.old_weight or 0.0)
    weights[0] = 0
    return weights


def places_back(
    lengths: NDArray[np.int64], counts: NDArray[np.bool_], seconds: NDArray[np.float64], stream: NDArray[np.int64]
) -> NDArray[np.int64]:
    """K of each entry of rows that follow each other, int64 (B,): 1 for the newest of its row, 0 if it does not count.

    Args:
        lengths: of the rows.
        counts: bool (B,), entries that take a place.
        seconds, stream: (B,), when they came, and their order in the stream, which decides between equal times.
    """
    rows = np.repeat(np.arange(len(lengths)), lengths)
    newest_first = np.lexsort((stream, seconds, rows))[::-1]
    newest_first = newest_first[counts[newest_first]]
    of_rows, places = rows[newest_first], np.zeros(len(rows), dtype=np.int64)
    is_first = np.ones(len(of_rows), dtype=np.bool_)
    is_first[1:] = of_rows[1:] != of_rows[:-1]
    firsts = np.flatnonzero(is_first)
    at = np.arange(len(of_rows))
    places[newest_first] = at - np.repeat(firsts, np.diff(np.append(firsts, len(of_rows)))) + 1
    return places


def weights_of(places: NDArray[np.int64], params: Params) -> NDArray[np.float32]:
    """W of entries at these places (B,), float32 (B,); 0 for place 0."""
    weights = np.append(curve(params), 0.0)
    return weights[np.minimum(places, params.window + 1)].astype(np.float32)


def in_order(ratings: Ratings, times: Times | None, params: Params) -> Ratings:
    """`ratings` with their order by time.

    Raises:
        InvalidParams: `times` is None.
        InvalidInput: there are not as many times as ratings.
    """
    if times is None:
        raise InvalidParams(
            f"Invalid ratings for {params.algorithm}: expected ratings with times, which say what came next, got none"
        )
    if len(times.seconds) != len(ratings):
        raise InvalidInput(f"Invalid length of times: expected {len(ratings):,}, got {len(times.seconds):,}")
    order = np.empty(len(ratings), dtype=np.int64)
    order[np.lexsort((times.stream, times.seconds))] = np.arange(len(ratings))
    return ratings.ordered(order)
