"""Histories in which the order says what comes next."""

import numpy as np

import gpu
from gpu.data.ratings import Ratings


def walks(n_users: int = 300, n_items: int = 30, length: int = 12, seed: int = 0) -> tuple[Ratings, gpu.Times]:
    """Users who mostly go from each item to the one after it, each item once; (ratings of 1 to 5, their times)."""
    rng = np.random.default_rng(seed)
    users, items = [], []
    for user in range(n_users):
        left = np.ones(n_items, dtype=np.bool_)
        item = int(rng.integers(n_items))
        for _ in range(length):
            left[item] = False
            users.append(user)
            items.append(item)
            following = (item + 1) % n_items
            item = following if left[following] and rng.random() < 0.8 else int(rng.choice(np.flatnonzero(left)))
    rows, columns = np.array(users), np.array(items)
    ratings = Ratings.from_coo(rows, columns, rng.integers(1, 6, len(rows)).astype(np.float32), (n_users, n_items))
    order = np.lexsort((columns, rows))
    return ratings, gpu.Times(np.arange(len(rows), dtype=np.float64)[order], float(len(rows)))


def histories_of(ratings: Ratings, times: gpu.Times) -> list[list[int]]:
    """The items of each user, the oldest first."""
    users, items, _ = ratings.coo()
    oldest_first = sorted(range(len(users)), key=lambda n: (users[n], times.seconds[n], times.stream[n]))
    histories: list[list[int]] = [[] for _ in range(ratings.n_users)]
    for n in oldest_first:
        histories[users[n]].append(int(items[n]))
    return histories
