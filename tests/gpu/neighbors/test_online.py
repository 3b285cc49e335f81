"""Lists follow the ratings: after any way they are those of a training on the present ratings, bit for bit."""

import numpy as np
import pytest

import gpu
from gpu.data.changes import Changes
from gpu.data.rating_table import RatingTable
from gpu.neighbors.params import NeighborsParams
from gpu.online import list_refits
from gpu.online.model import HostModel
from gpu.ranking import topn
from tests.gpu.neighbors.test_trainer import sparse

N_USERS, N_ITEMS = 120, 90


class Following:
    """A table, and a model trained on its first ratings that follows it."""

    def __init__(self, params: NeighborsParams, seed: int = 0, share: float = 0.7) -> None:
        ratings = sparse(N_USERS, N_ITEMS, 8, seed)
        self.params, self.rng = params, np.random.default_rng(seed)
        self.keys = ratings.user_keys, ratings.item_keys
        self.table, self.position = RatingTable(N_USERS, N_ITEMS), 0
        users, items, values = ratings.coo()
        values = np.where(self.rng.random(len(values)) < 0.1, -1, values).astype(np.float32)
        self.apply(users, items, values)
        trained = self.table.ratings(*self.keys).where(self.rng.random(len(values)) < share)
        model = gpu.fit(trained, params)
        self.online = HostModel(model, self.table, *self.keys, since=0)

    def apply(self, users: np.ndarray, items: np.ndarray, values: np.ndarray) -> Changes:
        positions = self.position + np.arange(len(users))
        self.position += len(users)
        return self.table.apply(users, items, values, positions.astype(np.float64), positions)

    def learn(self, users: list[int], items: list[int], values: list[float]) -> None:
        self.online.note(self.apply(np.array(users), np.array(items), np.array(values, dtype=np.float32)))

    def learn_some(self, n: int) -> None:
        """Ratings, also of those who disliked or had rated the item, and a third as many deletes."""
        users, items = self.rng.integers(0, N_USERS, n), self.rng.integers(0, N_ITEMS, n) ** 2 // N_ITEMS
        values = self.rng.choice([1.0, 1.0, -1.0], n)
        some, rated, _ = self.table.ratings().coo()
        gone = self.rng.permutation(len(some))[: n // 3]
        nan = np.full(len(gone), np.nan)
        self.learn([*users, *some[gone]], [*items, *rated[gone]], [*values, *nan])

    def forget(self, user: int) -> None:
        items, values = self.table.drop_user(user)
        self.online.forget(user, items, values)

    def assert_as_trained(self) -> None:
        """All that scores read is as after a training on what the table has."""
        while not self.online.catch_up(0.0):
            pass
        assert not self.online.n_waiting
        expected = gpu.fit(self.table.ratings(*self.keys), self.params)
        assert expected.middle == self.online.model.middle
        for name in ("listed", "listed_weights", "item_factors", "user_factors", "item_trained", "item_counts"):
            assert getattr(self.online.model, name).tobytes() == getattr(expected, name).tobytes(), name


@pytest.fixture(autouse=True)
def short_slices(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(list_refits, "USERS_PER_SLICE", 3)


@pytest.mark.parametrize("exponents", [(0.5, 100.0, 0.5), (1.0, 0.0, 0.0), (0.0, 5.0, 1.0)])
@pytest.mark.parametrize(("length", "most"), [(4, 1000), (200, 12), (1, 5)])
def test_lists_are_those_of_a_training_on_all_ratings(
    exponents: tuple[float, float, float], length: int, most: int
) -> None:
    following = Following(NeighborsParams(length, *exponents, max_likes=most, values="counts"), seed=length)
    following.assert_as_trained()
    for n in (1, 1, 5, 30):
        following.learn_some(n)
        for _ in range(n % 4):
            following.online.catch_up(0.0)
    following.assert_as_trained()
    for user in (3, 50):
        following.forget(user)
    following.assert_as_trained()
    assert (following.online.model.listed[:, -1] >= 0).any() == (length < 200)


def test_what_comes_between_two_slices_counts() -> None:
    following = Following(NeighborsParams(5, values="counts"))
    for _ in range(40):
        following.online.catch_up(0.0)  # a slice
        following.learn_some(3)
    following.forget(7)
    following.assert_as_trained()


def test_new_users_and_items_are_as_good_as_others() -> None:
    following = Following(NeighborsParams(6, values="counts"))
    following.online.catch_up(0.0)
    for n in range(1, 4):
        following.table.grow(N_USERS + n, N_ITEMS + n)
        users, items = following.keys
        following.keys = np.append(users, np.uint64(n)), np.append(items, np.uint64(n))
        following.online.grow(*following.keys)
        following.learn(
            [N_USERS + n - 1] * 3 + [4, 5], [N_ITEMS + n - 1, 2, 3, N_ITEMS + n - 1, N_ITEMS + n - 1], [1] * 5
        )
        following.online.catch_up(0.0)
    following.assert_as_trained()
    assert (following.online.model.listed[-3:, 0] >= 0).all()


def test_a_rating_counts_in_the_next_list_and_then_in_those_of_others() -> None:
    following = Following(NeighborsParams(20, values="counts"), share=1.0)
    following.assert_as_trained()
    model, table = following.online.model, following.table
    items = table.row(9)[0]
    other = int(np.flatnonzero(~np.isin(np.arange(N_ITEMS), items) & model.item_trained)[0])

    def scores(user: int) -> np.ndarray:
        users = np.array([user])
        rows = topn.rows_of(table.rows, users)
        return topn.scores(model, topn.users_of(model, users), rows, np.arange(N_ITEMS)[None])[0]

    before = scores(9)
    following.learn([9], [other], [1])
    gained = scores(9) - before  # before anything is refitted
    listed = model.listed[other][model.listed[other] >= 0]
    assert set(np.flatnonzero(gained > 1e-6).tolist()) == set(listed.tolist())
    weights = model.listed_weights[other].copy()
    assert not following.online.settle(0.0) or following.online.n_waiting
    following.assert_as_trained()
    assert (weights != model.listed_weights[other]).any()


def test_only_what_a_rating_can_change_is_made_again() -> None:
    following = Following(NeighborsParams(8, values="counts", max_likes=40))
    following.assert_as_trained()
    lengths = following.table.rows.lengths
    user = int(np.flatnonzero((lengths > 3) & (lengths < 10))[0])
    items = following.table.row(user)[0]
    popular = int(np.argmax(following.table.item_counts))
    following.learn([user], [popular if popular not in items else int(items[0])], [1])
    following.online.settle(0.0)
    while following.online._users:
        following.online.settle(0.0)
    assert following.online.n_waiting <= len(items) + 1
