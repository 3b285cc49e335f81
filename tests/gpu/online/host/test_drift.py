"""Kernels that find what to refit, against plain loops."""

import numpy as np

from gpu.data.rating_table import RatingTable
from gpu.online.host.drift import readers

N_USERS, N_ITEMS, N_RATINGS, N_NEIGHBORS = 20, 30, 200, 4


def test_readers_are_refitted_items_of_the_user_with_the_item_as_a_neighbor() -> None:
    rng = np.random.default_rng(5)
    table = RatingTable()
    table.grow(N_USERS, N_ITEMS)
    users, items = rng.integers(0, N_USERS, N_RATINGS), rng.integers(0, N_ITEMS, N_RATINGS)
    table.apply(users, items, np.ones(N_RATINGS, np.float32), np.zeros(N_RATINGS), np.arange(N_RATINGS))
    neighbors = rng.integers(0, N_ITEMS, (N_ITEMS, N_NEIGHBORS)).astype(np.int32)
    is_refitted = rng.random(N_ITEMS - 5) < 0.6  # the last five items came after the snapshot
    asked = [(user, item) for user in range(N_USERS) for item in range(N_ITEMS)]
    expected = {
        (user, item): {
            other
            for other in table.row(user)[0].tolist()
            if other < len(is_refitted) and is_refitted[other] and item in neighbors[other]
        }
        for user, item in asked
    }
    pairs = np.array(asked, dtype=np.int64)
    for user, item in asked:
        found = readers(np.array([user]), np.array([item]), table.ordered_rows, is_refitted, neighbors)
        assert set(found.tolist()) == expected[user, item]
    found = readers(pairs[:, 0].copy(), pairs[:, 1].copy(), table.ordered_rows, is_refitted, neighbors)
    assert set(found.tolist()) == set.union(*expected.values())
    assert any(expected.values())
