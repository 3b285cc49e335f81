"""Whether users come back to what they had, on drawn baskets."""

import numpy as np

import gpu
from gpu.data.ratings import Occasions
from gpu.data.signals import Repeat
from gpu.ranking import topn
from gpu.repeat.learn import learned, pairs_of
from gpu.repeat.own import parts_of

SHAPE = 250, 200
PARAMS = gpu.params_for("als-implicit", {"n_factors": 8, "n_epochs": 4})


def baskets(returns: float, seed: int = 0, n_weeks: int = 40, n_users: int = SHAPE[0]) -> Occasions:
    """Users of five kinds buy for their kind; a share of what they buy they had before, by how often they had it."""
    rng, columns = np.random.default_rng(seed), list[tuple[int, int, float]]()
    popularity = rng.zipf(1.3, SHAPE[1]).clip(max=100).astype(np.float64)
    for user in range(n_users):
        chances = popularity * np.where(np.arange(SHAPE[1]) % 5 == user % 5, 6, 1)
        chances, had = chances / chances.sum(), dict[int, int]()
        for week in np.flatnonzero(rng.random(n_weeks) < 0.4).tolist():
            seconds = 1.7e9 + (week + rng.random()) * 7 * 86_400
            for _ in range(rng.integers(2, 7)):
                item = int(rng.choice(SHAPE[1], p=chances))
                if had and rng.random() < returns:
                    counts = np.array(list(had.values()), dtype=np.float64)
                    item = int(rng.choice(list(had), p=counts / counts.sum()))
                elif item in had and not returns:
                    continue
                had[item] = had.get(item, 0) + 1
                columns.append((user, item, seconds))
    users, items, times = (np.array(column) for column in zip(*columns, strict=True))
    return Occasions(users.astype(np.int32), items.astype(np.int32), times, np.ones(len(users), dtype=np.float32))


def test_baskets_come_back_and_lists_are_at_least_as_good_as_own_counts() -> None:
    whole = baskets(0.65)
    is_older = whole.seconds < np.quantile(whole.seconds, 0.9)
    older, newer = whole.at(is_older), whole.at(~is_older)
    repeat = learned(older, SHAPE, PARAMS)
    assert repeat is not None
    assert repeat.weight > 0
    assert repeat.remark == ""
    assert 0.5 < repeat.share < 0.85
    assert 0.1 < repeat.interval[0] < repeat.gain < repeat.interval[1]
    (ratings, times), (test, _) = pairs_of(older, SHAPE), pairs_of(newer, SHAPE)
    model, users = gpu.fit(ratings, PARAMS), np.arange(SHAPE[0])
    every = np.tile(np.arange(SHAPE[1]), (SHAPE[0], 1))
    scores = topn.scores(model, topn.users_of(model, users), ratings.by_user, every)
    counts, with_own = np.zeros(SHAPE), scores.copy()
    of_users, items, values = ratings.coo()
    counts[of_users, items] = values
    for user in users.tolist():
        own = slice(ratings.by_user.starts[user], ratings.by_user.starts[user] + ratings.by_user.lengths[user])
        with_own[user, ratings.by_user.items[own]] += parts_of(repeat, values[own], times.seconds[own])
    assert ndcg(with_own, test) >= ndcg(counts, test)
    assert ndcg(with_own, test) > 1.3 * ndcg(scores, test)


def ndcg(scores: np.ndarray, test: gpu.Ratings) -> float:
    discounts, found = 1 / np.log2(np.arange(2, 12)), list[float]()
    for user in np.flatnonzero(test.by_user.lengths).tolist():
        start = test.by_user.starts[user]
        relevant = test.by_user.items[start : start + test.by_user.lengths[user]]
        hits = np.isin(np.argsort(-scores[user], kind="stable")[:10], relevant)
        found.append(float(hits @ discounts / discounts[: len(relevant)].sum()))
    return float(np.mean(found))


def test_who_never_comes_back_has_no_repeats() -> None:
    repeat = learned(baskets(0.0, n_weeks=60), SHAPE, PARAMS)
    assert repeat is not None
    assert (repeat.weight, repeat.share) == (0, 0)
    assert repeat.remark == "users hardly choose again what they had"


def test_few_events_are_not_tested() -> None:
    few = baskets(0.65, n_users=20)
    repeat = learned(few, SHAPE, PARAMS)
    assert repeat is not None
    assert repeat.remark.startswith("not tested: ")
    assert repeat.remark.endswith("of the newest events are of users with older ones, expected 1,000 or more")
    nothing = few.at(np.zeros(0, dtype=np.int64))
    assert learned(nothing, SHAPE, PARAMS) is None
    assert learned(baskets(0.65), SHAPE, gpu.params_for("als", {"n_factors": 4})) is None


def test_the_same_events_in_another_order_say_the_same() -> None:
    whole = baskets(0.65)
    order = np.random.default_rng(1).permutation(len(whole.users))
    shuffled = whole.at(order)
    (one, times), (other, other_times) = pairs_of(whole, SHAPE), pairs_of(shuffled, SHAPE)
    assert [column.tolist() for column in one.coo()] == [column.tolist() for column in other.coo()]
    assert times.seconds.tolist() == other_times.seconds.tolist()
    assert isinstance(learned(whole, SHAPE, PARAMS), Repeat)
