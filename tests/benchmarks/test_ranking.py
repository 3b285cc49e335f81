"""The splits behind the ranking table hold out what they say, and the popular model ranks by count."""

import numpy as np
import pytest

import gpu
from benchmarks.leave_one_out import N_NEGATIVES, leave_one_out
from benchmarks.ranking import by_popularity, per_user_split

N_USERS, N_ITEMS = 30, 200


@pytest.fixture(scope="module")
def ratings():
    rng = np.random.default_rng(0)
    users = np.repeat(np.arange(N_USERS), 10)
    items = np.concatenate([rng.permutation(N_ITEMS)[:10] for _ in range(N_USERS)])
    return gpu.Ratings.from_coo(users, items, rng.uniform(1, 5, len(users)), (N_USERS, N_ITEMS))


def pairs(ratings):
    users, items, _ = ratings.coo()
    return set(zip(users.tolist(), items.tolist(), strict=True))


def test_a_fifth_of_each_users_ratings_is_held_out(ratings):
    train, test = per_user_split(ratings, 0.2, seed=42)
    assert (test.by_user.lengths == 2).all()
    assert pairs(train) | pairs(test) == pairs(ratings)
    assert not pairs(train) & pairs(test)
    assert pairs(per_user_split(ratings, 0.2, seed=43)[1]) != pairs(test)


def test_one_rating_of_each_user_competes_with_unrated_items(ratings):
    rest, positives, negatives = leave_one_out(ratings, seed=42)
    held_out = set(enumerate(positives.tolist()))
    assert held_out <= pairs(ratings)
    assert pairs(rest) == pairs(ratings) - held_out
    assert negatives.shape == (N_USERS, N_NEGATIVES)
    for user, items in enumerate(negatives.tolist()):
        assert len(set(items)) == N_NEGATIVES
        assert not {(user, item) for item in items} & pairs(ratings)


def test_the_popular_model_scores_an_item_by_its_ratings(ratings):
    model, items = by_popularity(ratings), np.arange(N_ITEMS)
    scores = gpu.evaluate.predict(model, ratings.by_user, np.zeros(N_ITEMS, dtype=int), items)
    assert scores.tolist() == ratings.by_item.lengths.tolist()
