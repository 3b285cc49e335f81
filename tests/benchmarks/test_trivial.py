"""What every model has to beat is computed as its formula says."""

import numpy as np
import pytest

import gpu
from benchmarks import trivial

USERS, ITEMS, VALUES = np.array([0, 0, 1]), np.array([0, 1, 0]), np.array([4.0, 2.0, 5.0])


@pytest.fixture
def three():
    """The first user rates both items, the second one only the first; a third user rates nothing."""
    return gpu.Ratings.from_coo(USERS, ITEMS, VALUES, (3, 2))


def test_one_turn_of_the_biases_by_hand(three, monkeypatch):
    monkeypatch.setattr(trivial, "N_TURNS", 1)
    mean = 11 / 3
    items = [(4 - mean + 5 - mean) / (2 + 5), (2 - mean) / (1 + 5)]
    users = [(4 - mean - items[0] + 2 - mean - items[1]) / (2 + 5), (5 - mean - items[0]) / (1 + 5), 0.0]
    found = trivial.shrunk_biases(three, np.array([0, 1, 1, 2]), np.array([0, 0, 1, 1]))
    wanted = [users[0] + items[0], users[1] + items[0], users[1] + items[1], users[2] + items[1]]
    assert found == pytest.approx(mean + np.array(wanted))


def test_eight_turns_are_each_others_means(ratings):
    users, items, values = ratings.coo()
    user_bias, item_bias, mean = np.zeros(ratings.n_users), np.zeros(ratings.n_items), values.astype(float).mean()
    for _ in range(8):
        for i in range(ratings.n_items):
            rated = items == i
            item_bias[i] = sum(values[rated] - mean - user_bias[users[rated]]) / (rated.sum() + 5)
        for u in range(ratings.n_users):
            rated = users == u
            user_bias[u] = sum(values[rated] - mean - item_bias[items[rated]]) / (rated.sum() + 5)
    found = trivial.shrunk_biases(ratings, users, items)
    assert found == pytest.approx(mean + user_bias[users] + item_bias[items], abs=1e-6)


def test_popularity_scores_an_item_by_its_ratings(three):
    found = trivial.popularity(three)
    assert (found["user_factors"] @ found["item_factors"].T).tolist() == [[2, 1]] * 3
