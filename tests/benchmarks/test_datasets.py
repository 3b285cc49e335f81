"""Sets are read whole, split as said, and never leak from one part into the other."""

import numpy as np
import pytest

from benchmarks import datasets
from benchmarks.peers.contract import ESTIMATES, LISTS
from service.cli import offline
from service.cli.files import ratings_file


def triples(*parts):
    return [triple for part in parts for triple in zip(*(column.tolist() for column in part.coo()), strict=True)]


def test_a_random_tenth_of_the_file_is_the_test(data):
    path = data / "ml-100k" / "u.data"
    fold = datasets.estimates_fold(path)
    users, items, rows = offline.numbered(ratings_file.read(path))
    held_out = np.random.default_rng(42).permutation(len(rows.values))[: round(0.1 * len(rows.values))]
    wanted = zip(
        rows.users[held_out].tolist(), rows.items[held_out].tolist(), rows.values[held_out].tolist(), strict=True
    )
    assert sorted(triples(fold.test)) == sorted(wanted)
    assert (fold.train.n_users, fold.train.n_items) == (len(users), len(items))


@pytest.mark.parametrize("name", ["ml-100k", "ml-1m", "ml-1m-lists", "ml-1m-ones", "yelp2018"])
def test_parts_are_disjoint_and_complete(data, name):
    dataset = datasets.load(data, name)
    whole, inner = dataset.whole, dataset.inner
    parts = triples(whole.train, whole.test)
    assert len(set(parts)) == len(parts) == 80 * 15
    assert sorted(triples(inner.train, inner.test)) == sorted(triples(whole.train))
    assert len(inner.test) == round(0.1 * len(whole.train))


def test_lists_hold_out_a_fifth_of_each_user_and_ones_are_ones(data):
    dataset = datasets.load(data, "ml-1m-ones")
    assert (dataset.whole.test.by_user.lengths == 3).all()
    assert set(dataset.whole.train.coo()[2].tolist()) == {1.0}
    assert len(set(datasets.load(data, "ml-1m-lists").whole.train.coo()[2].tolist())) > 1


def test_only_sets_that_are_there_are_offered(data):
    assert datasets.available(data, []) == ["ml-100k", "ml-1m", "ml-1m-lists", "ml-1m-ones", "yelp2018"]
    assert datasets.available(data, ["jester", "ml-1m"]) == ["ml-1m"]


def test_pairs_count_as_ones(data):
    dataset = datasets.load(data, "yelp2018")
    assert dataset.task == LISTS
    assert dataset.facts.mean == 1
    assert dataset.facts.density == pytest.approx(80 * 12 / 80 / 40)


def test_some_users_keep_all_of_theirs(ratings):
    some = datasets.of_some_users(ratings, 7)
    assert np.count_nonzero(some.by_user.lengths) == 7
    kept = some.by_user.lengths > 0
    assert (some.by_user.lengths[kept] == ratings.by_user.lengths[kept]).all()
    assert len(datasets.of_some_users(ratings, 1000)) == len(ratings)


def test_changed_units_change_both_parts_and_no_pair(data):
    fold = datasets.load(data, "ml-100k").whole
    changed = fold.scaled(20, -3)
    for before, after in ((fold.train, changed.train), (fold.test, changed.test)):
        assert after.coo()[2] == pytest.approx(20 * before.coo()[2].astype(float) - 3, rel=1e-6)
        assert [column.tolist() for column in after.coo()[:2]] == [column.tolist() for column in before.coo()[:2]]
    assert (changed.train.user_keys == fold.train.user_keys).all()


def test_facts_are_of_the_training_part(data):
    dataset = datasets.load(data, "ml-100k")
    values = dataset.whole.train.coo()[2].astype(float)
    assert dataset.task == ESTIMATES
    assert dataset.facts[:3] == pytest.approx((values.mean(), values.std(), len(values) / 80 / 40))
