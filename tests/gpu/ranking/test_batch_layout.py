"""The user side of a batch in one piece of memory, against NumPy."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from gpu.ranking.batch_layout import COLUMNS, Sizes, laid_out
from gpu.ranking.requests import RankingRequests


def requests_of(n_users: int, width: int, rng: np.random.Generator) -> RankingRequests:
    """Users whose ratings lie apart in a larger table, and whose excluded rows begin after those of others."""
    lengths = rng.integers(0, 9, n_users)
    starts = np.cumsum(lengths + 3) - lengths
    n_entries = int((starts + lengths).max(initial=0)) + 5
    exclude = np.concatenate([[4], 4 + np.cumsum(rng.integers(0, 4, n_users))])
    none = np.zeros(0, dtype=np.int64)
    return RankingRequests(
        factors=rng.standard_normal((n_users, width)).astype(np.float32),
        biases=rng.standard_normal(n_users).astype(np.float32),
        baselines=rng.standard_normal(n_users).astype(np.float32),
        starts=starts,
        lengths=lengths,
        items=rng.integers(0, 1000, n_entries).astype(np.int32),
        values=rng.normal(3, 4, n_entries).astype(np.float32),
        exclude_starts=exclude,
        excluded=rng.integers(0, 1000, exclude[-1] + 2),
        candidate_starts=np.zeros(n_users + 1, dtype=np.int64),
        candidates=none,
        has_candidates=np.zeros(n_users, dtype=np.bool_),
        include_seen=False,
    )


@pytest.mark.parametrize("n_users", [1, 2, 37])
@pytest.mark.parametrize("width", [16, 20])
@pytest.mark.parametrize(("reads_seen", "reads_values"), [(True, True), (True, False), (False, False)])
@pytest.mark.parametrize("n_parts", [1, 3])
def test_columns_follow_each_other(n_users: int, width: int, reads_seen: bool, reads_values: bool, n_parts: int):
    rng, padded = np.random.default_rng(n_users), 32
    requests = requests_of(n_users, width, rng)
    candidates, filters = (rng.integers(0, 2**60, n_parts * n_users).astype(np.uint64) for _ in range(2))
    n_candidates, words = (rng.integers(-1, 99, n_users).astype(np.int32) for _ in range(2))
    lowest, highest = 0.5, 4.9
    at = [np.arange(start, start + n) for start, n in zip(requests.starts, requests.lengths, strict=True)]
    places = np.concatenate(at) if reads_seen else np.zeros(0, dtype=np.int64)
    seen_starts = np.zeros(n_users + 1, dtype=np.int32)
    if reads_seen:
        seen_starts[1:] = np.cumsum(requests.lengths)
    first, last = requests.exclude_starts[[0, -1]]
    values = np.clip(requests.values[places], lowest, highest) if reads_values else np.zeros(0, dtype=np.float32)
    columns = [
        candidates,
        filters,
        np.pad(requests.factors, ((0, 0), (0, padded - width))),
        requests.biases,
        requests.baselines,
        seen_starts,
        requests.items[places],
        values,
        (requests.exclude_starts - first).astype(np.int32),
        requests.excluded[first:last].astype(np.int32),
        n_candidates,
        words,
    ]
    words_of = [np.ascontiguousarray(column).ravel().view(np.int32) for column in columns]
    starts = list(itertools.accumulate(map(len, words_of), initial=0))
    memory = np.full(starts[-1] + 9, -7, dtype=np.int32)
    of_candidates, scale = (n_candidates, words), (lowest, highest)
    layout = laid_out(
        requests,
        (candidates, filters),
        of_candidates,
        10,
        Sizes(stride=4, n_sampled=64, room=100),
        5,
        padded,
        scale,
        lambda n: memory[: n + 3],
        reads_seen=reads_seen,
        reads_values=reads_values,
    )
    assert len(layout.given) == starts[-1]
    assert (memory[starts[-1] :] == -7).all()
    for n, (name, expected) in enumerate(zip(COLUMNS, words_of, strict=True)):
        assert layout.positions[name] == 4 * starts[n], name
        np.testing.assert_array_equal(layout.given[starts[n] : starts[n + 1]], expected, err_msg=name)
    sizes = {"keys": 800, "rows": 400, "sample": 4 * 64, "touched": 4 * 5, "floors": 4, "counts": 8 * 11}
    end = layout.given.nbytes
    for name, n_bytes in sizes.items():  # a user each
        assert end <= layout.positions[name] < end + 256, name
        end = layout.positions[name] + n_users * n_bytes
    assert (layout.positions["items"], layout.positions["scores"]) == (end - 80 * n_users, end - 40 * n_users)
    assert 0 <= layout.n_bytes - end < 2**20
