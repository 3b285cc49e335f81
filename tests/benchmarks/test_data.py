"""Test parts do not leak into what is trained or chosen, and drawn matrices are what is read."""

from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import gpu
from benchmarks import datasets, make_ratings
from benchmarks.datasets import Dataset, Fold
from benchmarks.defaults import Method, fits_of
from benchmarks.large import copied
from benchmarks.make_ratings import Matrix, Shape, write_matrix
from benchmarks.results import Fit, Store
from benchmarks.sgd import _collisions
from gpu.base.errors import InvalidInput, NotEnoughMemory
from gpu.descent.esgd import order_of
from gpu.descent.order import BLOCK, CHUNK
from tests.data import planted

# Users of a few ratings and of most items, so that both ways of drawing pairs are met.
SHAPE = Shape(500, 90, 9000, 700, 0.5, 5.0, 0.5, 3.5, 1.1, 4, 1.3, 20.0)


def triples(*parts: gpu.Ratings) -> list[tuple[Any, ...]]:
    return sorted(row for part in parts for row in zip(*(column.tolist() for column in part.coo()), strict=True))


def test_parts_are_disjoint_and_complete() -> None:
    ratings = planted(80, 150, 15)
    rest, *held_out = datasets.leave_one_out(ratings, 42)
    for train, test in (datasets.random_split(ratings), datasets.per_user_split(ratings)):
        assert triples(train, test) == triples(ratings)
    assert (datasets.per_user_split(ratings)[1].by_user.lengths == 3).all()
    assert (rest.by_user.lengths == 14).all()
    for user, (positive, negatives) in enumerate(zip(*held_out, strict=True)):
        rated = datasets.items_of(ratings, user)
        assert positive in rated
        assert positive not in datasets.items_of(rest, user)
        assert not np.isin(negatives, rated).any()


class Parabola(Method):
    """Errors are (x − 3)² on the inner part and (x − 2)² on the test part."""

    def grid(self, dataset: Dataset) -> list[dict[str, Any]]:
        return [{}, *({"x": x} for x in range(6))]

    def fitted(self, dataset: Dataset, blank: Fit) -> Fit:
        goal = 3 if blank.stage == "grid" else 2
        return blank._replace(metrics={"rmse": (blank.settings.get("x", 5) - goal) ** 2}, seconds=1.0)


def test_the_best_of_a_grid_is_chosen_without_the_test_part() -> None:
    ratings = planted(80, 150, 15)
    dataset, store = Dataset.of("ml-100k", Fold(*datasets.random_split(ratings))), Store(None)
    first, *_, best = fits_of(Parabola("parabola", "here"), dataset, ("defaults", "best"), store)
    assert (first.metrics, best.settings, best.metrics) == ({"rmse": 9}, {"x": 3}, {"rmse": 1})


def test_a_part_of_a_matrix_is_drawn_alone_and_a_folder_has_all(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    matrix = Matrix(SHAPE)
    whole, part = matrix.part(0, SHAPE.n_users), matrix.part(7, 30)
    is_heavy = matrix.n_ratings * make_ratings.HEAVY > SHAPE.n_items
    assert 10 < np.count_nonzero(is_heavy) < 490
    for alone, together in zip(part, whole, strict=True):
        np.testing.assert_array_equal(alone, together[(whole.users >= 7) & (whole.users < 30)])
    monkeypatch.setattr(make_ratings, "BLOCK", 700)
    write_matrix(matrix, "small", tmp_path)
    train, test = datasets.raw_arrays(tmp_path)
    kept = [column[~whole.is_test] for column in whole[:3]]
    assert triples(train) == sorted(zip(*(column.tolist() for column in kept), strict=True))
    assert triples(gpu.Ratings(train.by_item, train.by_user)) == sorted((i, u, v) for u, i, v in triples(train))
    assert (len(train), len(test)) == (SHAPE.n_train, SHAPE.n_test)
    half = datasets.sampled(train, 0.5)
    assert triples(gpu.Ratings(half.by_item, half.by_user)) == sorted((i, u, v) for u, i, v in triples(half))
    assert triples(datasets.first_users(train, 0.5)) == [one for one in triples(train) if one[0] < SHAPE.n_users / 2]
    monkeypatch.setattr(datasets, "MOST_INT32", SHAPE.n_train - 1)  # longer ones have bounds in int64
    write_matrix(matrix, "long", tmp_path / "long")
    assert triples(*datasets.raw_arrays(tmp_path / "long")) == triples(train, test)
    monkeypatch.undo()
    indices = tmp_path / "R_train_csr.indices.bin"
    np.fromfile(indices, dtype=np.int32)[::-1].tofile(indices)
    with pytest.raises(InvalidInput, match=r"R_train_csr\.indices.*that ascend in each row"):
        datasets.raw_arrays(tmp_path)


def test_the_least_error_of_drawn_ratings_is_known(tmp_path: Path) -> None:
    """Estimates that know what is planted come close to it: means over 10,000 drawn ratings of each pair."""
    matrix, rng = Matrix(SHAPE), np.random.default_rng(1)
    write_matrix(matrix, "small", tmp_path)
    users, items, values = datasets.raw_arrays(tmp_path)[1].coo()
    drawn = matrix._expected(users, items) + rng.normal(0, make_ratings.NOISE, (10_000, len(users)))
    means = np.clip(np.round(drawn / SHAPE.step) * SHAPE.step, SHAPE.low, SHAPE.high).mean(axis=0)
    assert datasets.least_rmse(tmp_path) == pytest.approx(np.sqrt(np.mean((values - means) ** 2)), rel=0.05)
    (tmp_path / "meta.json").write_text("{}")
    with pytest.raises(InvalidInput, match=r"expected a meta\.json with the least .* which `make-ratings` writes"):
        datasets.least_rmse(tmp_path)


def test_a_matrix_that_memory_cannot_hold_is_refused(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr("gpu.base.free_memory.free_bytes", lambda: 10**9)
    with pytest.raises(
        NotEnoughMemory, match=r"Drawing hugewiki \(3,099,900,000 ratings\) needs about \d{3}(,\d{3}){3}"
    ):
        make_ratings.make_ratings("hugewiki", tmp_path / "new")
    assert not (tmp_path / "new").exists()


@pytest.mark.parametrize("name", make_ratings.SHAPES)
def test_every_shape_has_room_for_its_ratings(name: str) -> None:
    """A hundredth of its users or more, as many ratings each: their numbers add up."""
    shape = make_ratings.SHAPES[name]
    share = 3_000 / shape.n_users
    small = shape._replace(
        n_users=3_000, n_train=round(share * shape.n_train), n_test=round(share * shape.n_test), n_items=shape.n_items
    )
    matrix = Matrix(small)
    assert matrix.n_ratings.sum() == small.n_train + small.n_test
    assert matrix.n_test.sum() == small.n_test
    assert (matrix.n_ratings - matrix.n_test).min() >= 1


def test_collisions_of_esgd_are_those_of_a_count_by_hand() -> None:
    ratings = planted(5000, 2000, 1)  # so users do not collide, and some items do
    order, (users, items, _) = order_of(len(ratings), 3), ratings.coo()
    n_chunks, n_shared, n_seen = -(-len(ratings) // CHUNK), 0, 0
    for first in range(0, len(ratings) // BLOCK * BLOCK // CHUNK, BLOCK // CHUNK):
        chunks = [(first + n) * order.stride % n_chunks for n in range(BLOCK // CHUNK)]
        places = [chunks[visit // CHUNK] * CHUNK + visit % CHUNK for visit in order.visits.tolist()]
        for step in (places[: BLOCK // 2], places[BLOCK // 2 :]):
            pairs = [(users[min(place, len(ratings) - 1)], items[min(place, len(ratings) - 1)]) for place in step]
            by_user, by_item = (Counter(pair[side] for pair in pairs) for side in (0, 1))
            n_shared += sum(by_user[user] > 1 or by_item[item] > 1 for user, item in pairs)
            n_seen += len(pairs)
    assert 0 < n_shared < n_seen
    assert _collisions(ratings, 3) == n_shared / n_seen


def test_copies_of_users_rate_what_they_do() -> None:
    ratings = planted(80, 150, 15)
    several, (users, items, values) = copied(ratings, 3), ratings.coo()
    expected = gpu.Ratings.from_coo(
        np.concatenate([users + 80 * copy for copy in range(3)]), np.tile(items, 3), np.tile(values, 3), (240, 150)
    )
    for rows, wanted in ((several.by_user, expected.by_user), (several.by_item, expected.by_item)):
        for found, one in zip(rows, wanted, strict=True):
            np.testing.assert_array_equal(found, one)
