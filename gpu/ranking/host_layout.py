"""`lay_out`: the user side of a batch of lists, as the kernels of a device read it, in one piece of memory."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from gpu.base.host import njit
from gpu.base.host.declared import Use, called_for
from gpu.ranking.requests import RankingRequests

LINE = 16  # numbers of 4 bytes in a line of the cache


@called_for(Use.RANKING_ON_DEVICE)
@njit(cache=True, nogil=True)
def lay_out(
    given: NDArray[np.int32],
    starts: NDArray[np.int64],
    requests: RankingRequests,
    candidates: NDArray[np.uint64],
    filters: NDArray[np.uint64],
    n_candidates: NDArray[np.int32],
    filter_words: NDArray[np.int32],
    lowest: float,
    highest: float,
) -> int:
    """Write the columns of a batch one after the other. Ratings and excluded rows become compact copies.

    First a number of each cache line of all ratings is read: few are in the cache, and so the loads overlap.

    Args:
        given: overwritten.
        starts: int64 (13,), where each of `gpu.ranking.batch_layout.COLUMNS` starts in `given`, and their end. Seen
            items and values without room are left out.
        candidates, filters, n_candidates, filter_words: as in `Choice`; of addresses, those of each part follow.
        lowest, highest: values are clipped to them.

    Returns:
        how many numbers read first were above 0, so that no compiler leaves the loads out.
    """
    n_users, width = requests.factors.shape
    addresses = given[starts[0] : starts[2]].view(np.uint64)
    addresses[: len(candidates)] = candidates
    addresses[len(candidates) :] = filters
    factors = given[starts[2] : starts[3]].view(np.float32)
    padded = len(factors) // max(n_users, 1)
    biases, baselines = given[starts[3] : starts[4]].view(np.float32), given[starts[4] : starts[5]].view(np.float32)
    seen_starts, seen = given[starts[5] : starts[6]], given[starts[6] : starts[7]]
    values = given[starts[7] : starts[8]].view(np.float32)
    excluded_starts, excluded = given[starts[8] : starts[9]], given[starts[9] : starts[10]]
    loaded, n_seen, first = 0, 0, requests.exclude_starts[0]
    for user in range(n_users if len(seen) else 0):
        for position in range(requests.starts[user], requests.starts[user] + requests.lengths[user], LINE):
            loaded += requests.items[position] > 0
            if len(values):
                loaded += requests.values[position] > 0
    seen_starts[0] = 0
    for user in range(n_users):
        at = user * padded
        factors[at : at + width] = requests.factors[user]
        factors[at + width : at + padded] = 0
        biases[user], baselines[user] = requests.biases[user], requests.baselines[user]
        start, length = requests.starts[user], requests.lengths[user] if len(seen) else 0
        seen[n_seen : n_seen + length] = requests.items[start : start + length]
        if len(values):
            for n in range(length):
                values[n_seen + n] = min(max(requests.values[start + n], lowest), highest)
        n_seen += length
        seen_starts[user + 1] = n_seen
        excluded_starts[user] = requests.exclude_starts[user] - first
        given[starts[10] + user], given[starts[11] + user] = n_candidates[user], filter_words[user]
    excluded_starts[n_users] = requests.exclude_starts[n_users] - first
    for n in range(len(excluded)):
        excluded[n] = requests.excluded[first + n]
    return loaded
