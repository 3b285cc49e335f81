from __future__ import annotations

import math

import numpy as np
import pytest

from benchmarks import online
from tests.gpu.models import random_matrix, ratings_of

SHAPE = online.Shape(300, 40, 5)


def test_batches_are_as_described() -> None:
    ratings = ratings_of(random_matrix(200, 100))
    stream = online.Stream(ratings, SHAPE, 0)
    one, other = stream.batch(), stream.batch()
    assert len(np.unique(one.users)) == SHAPE.users
    assert np.count_nonzero(np.unique(one.users) >= 200) == 4
    assert set(range(100, 105)) >= set(one.items[one.items >= 100].tolist()) != set()
    assert other.users.max() == 207
    assert other.items.max() < 110
    assert np.isnan(np.append(one.values, other.values)).any()
    assert (np.diff(np.append(one.positions, other.positions)) == 1).all()
    assert (len(one.user_keys), len(one.item_keys)) == (4, 5)


@pytest.mark.parametrize("algorithm", ["sgd", "culsh"])
def test_the_host_learns_them(algorithm: str) -> None:
    ratings = ratings_of(random_matrix(60, 40))
    given = {"algorithm": algorithm, "n_factors": 4}
    (row,) = online.run(ratings, given, online.Shape(50, 20, 2), ["host"], 1)
    assert (row.place, row.batches, row.batch) == ("host", 1, 50)
    assert row.batch_ms > 0
    assert row.ratings_per_second > 0
    assert math.isnan(row.users_ms)
