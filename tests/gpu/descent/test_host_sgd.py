"""The SGD primitives against the oracle, one step of the paper at a time."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gpu.data import host_terms
from gpu.data.ratings import NO_MIDDLE
from gpu.data.views import NO_WEIGHTS, Rates, Samples, arrays_of, balanced_bounds, part_of
from gpu.descent import host_sgd as sgd
from gpu.ranking import host_estimate
from tests import reference
from tests.gpu.models import ratings_of
from tests.gpu.strategies import as_reference, matrices, random_model

few = settings(max_examples=40)
ALL = np.float32(NO_MIDDLE)  # every rating is a like
RATES = Rates(*(np.float32(x) for x in (0.05, 0.04, 0.03, 0.1, 0.2, 0.3)))


@few
@given(matrices(), st.integers(0, 4), st.booleans(), st.integers(0, 99))
def test_predictions_are_eq_1(matrix: np.ndarray, k: int, implicit: bool, seed: int) -> None:
    model, known = random_model(matrix, k, implicit, seed), None
    known = as_reference(model)
    users, items = (index.ravel().astype(np.int32) for index in np.indices(matrix.shape))
    shuffled = np.random.default_rng(seed).permutation(len(users))
    users, items = users[shuffled], items[shuffled]
    scores = np.empty(len(users), np.float32)
    host_estimate.predict(ratings_of(matrix).by_user, users, items, arrays_of(model), scores)
    expected = [reference.score(matrix, known, u, j) for u, j in zip(users, items, strict=True)]
    np.testing.assert_allclose(scores, expected, rtol=1e-4, atol=1e-4)


@few
@given(matrices(), st.integers(0, 4), st.booleans(), st.booleans(), st.integers(1, 3), st.integers(0, 99))
def test_an_epoch_is_eq_5_in_the_order_of_its_blocks(
    matrix: np.ndarray, k: int, implicit: bool, weighs: bool, n_groups: int, seed: int
) -> None:
    model, ratings = random_model(matrix, k, implicit, seed), ratings_of(matrix)
    expected = as_reference(model)
    generator = np.random.default_rng(seed)
    user_bounds, item_bounds = (even_bounds(n, n_groups) for n in matrix.shape)
    order = np.concatenate([generator.permutation(np.arange(*user_bounds[d : d + 2])) for d in range(n_groups)])
    shifts = generator.permutation(n_groups)
    cuts = np.empty((ratings.n_users, n_groups + 1), np.int64)
    sgd.group_cuts(ratings.by_user, item_bounds.astype(np.int32), cuts)
    users, items, _ = ratings.coo()
    targets = reference.targets(matrix, expected, users, items)
    weights = np.where(np.isnan(matrix), 0, generator.random(matrix.shape, dtype=np.float32) if weighs else 1)
    given_weights = weights[users, items].astype(np.float32) if weighs else NO_WEIGHTS
    samples = Samples(ratings.by_user.items, targets.astype(np.float32), cuts, given_weights)
    lines = host_terms.lines(n_groups, ratings.n_items)
    visited, arrays = order.astype(np.int32), arrays_of(model)
    for shift in shifts:
        sgd.learn_sub_step(ratings.by_user, samples, visited, user_bounds, shift, lines, arrays, RATES)
    visits = [
        (user, item, reference.targets(matrix, expected, user, item), weights[user, item])
        for shift in shifts
        for d in range(n_groups)
        for user in order[user_bounds[d] : user_bounds[d + 1]]
        for item in range(*item_bounds[(d + shift) % n_groups :][:2])
        if not np.isnan(matrix[user, item])
    ]
    reference.sgd_epoch(matrix, expected, visits, RATES)
    for name, array in model.arrays.items():
        if array.dtype == np.float32:
            np.testing.assert_allclose(array, expected[name], rtol=1e-3, atol=1e-4, err_msg=name)
    np.testing.assert_array_equal(lines, host_terms.lines(n_groups, ratings.n_items))


def even_bounds(n: int, n_groups: int) -> np.ndarray:
    return np.array([n * d // n_groups for d in range(n_groups + 1)], dtype=np.int64)


@few
@given(matrices(), st.integers(1, 4), st.integers(0, 2**62), st.integers(0, 50), st.sampled_from([NO_MIDDLE, 3.0]))
def test_negatives_are_the_drawn_unrated_items_beside_each_like(
    matrix: np.ndarray, s: int, seed: int, epoch: int, middle: float
) -> None:
    ratings = ratings_of(matrix)
    drawn = np.empty((len(ratings), s), np.int32)
    sgd.draw_negatives(ratings.by_user, ratings.n_items, seed, epoch, np.float32(middle), drawn)
    users, _, values = ratings.coo()
    expected = [
        reference.negatives(matrix, u, p, s, seed, epoch) if values[p] >= middle else [-1] * s
        for p, u in enumerate(users)
    ]
    assert drawn.tolist() == expected


def test_a_part_of_the_users_draws_what_all_draw() -> None:
    is_rated = np.random.default_rng(0).random((9, 30)) < 0.3
    ratings = ratings_of(np.where(is_rated, 1.0, np.nan))
    whole = np.empty((len(ratings), 3), np.int32)
    sgd.draw_negatives(ratings.by_user, 30, 5, 1, ALL, whole)
    for own in (slice(0, 4), slice(4, 4), slice(4, 9), slice(9, 9)):
        rows, first = part_of(ratings.by_user, own)
        drawn = np.empty((len(rows.values), 3), np.int32)
        sgd.draw_negatives(rows, 30, 5, 1, ALL, drawn, first)
        np.testing.assert_array_equal(drawn, whole[first : first + len(drawn)])


def test_negatives_are_uniform_over_what_the_user_has_not_rated() -> None:
    matrix = np.full((1, 20), np.nan)
    matrix[0, [0, 3, 4, 19]] = 1.0
    counts = np.zeros(20)
    for epoch in range(400):
        drawn = np.empty((4, 5), np.int32)
        sgd.draw_negatives(ratings_of(matrix).by_user, 20, 1, epoch, ALL, drawn)
        counts += np.bincount(drawn.ravel(), minlength=20)
    assert counts[[0, 3, 4, 19]].sum() == 0
    unrated = np.delete(counts, [0, 3, 4, 19])
    assert np.abs(unrated - 500).max() < 5 * np.sqrt(500)


@few
@given(matrices(), st.integers(1, 3), st.integers(1, 4), st.integers(0, 99), st.sampled_from([NO_MIDDLE, 3.0]))
def test_mixed_samples_hold_every_rating_and_negative_in_its_group(
    matrix: np.ndarray, s: int, n_groups: int, seed: int, middle: float
) -> None:
    ratings = ratings_of(matrix)
    negatives = np.empty((len(ratings), s), np.int32)
    sgd.draw_negatives(ratings.by_user, ratings.n_items, seed, 0, np.float32(middle), negatives)
    group_of = np.random.default_rng(seed).integers(0, n_groups, ratings.n_items).astype(np.uint8)
    room = len(ratings) * (s + 1)
    cuts = np.empty((ratings.n_users, n_groups + 1), np.int64)
    samples = Samples(np.zeros(room, np.int32), np.zeros(room, np.float32), cuts, np.zeros(room, np.float32))
    weights = np.arange(1, len(ratings) + 1, dtype=np.float32)
    sgd.mix_samples(ratings.by_user, negatives, group_of, np.float32(middle), samples, weights)
    users, items, values = ratings.coo()
    given_ratings = zip(users, items, values, weights, strict=True)
    expected = [(u, j, float(value >= middle), weight) for u, j, value, weight in given_ratings]
    drawn = zip(users, negatives, weights, strict=True)
    expected += [(u, j, 0.0, weight) for u, row, weight in drawn for j in row if j >= 0]
    found = []
    for user, cuts in enumerate(samples.cuts):
        for group in range(n_groups):
            for p in range(cuts[group], cuts[group + 1]):
                assert group_of[samples.items[p]] == group
                found.append((user, samples.items[p], samples.targets[p], samples.weights[p]))
    assert sorted(found) == sorted(expected)


@pytest.mark.parametrize("lengths", [[1], [0, 0, 5], [5, 0, 0], [1] * 100, [90, 1, 1, 1, 1, 1, 1, 4]])
def test_bounds_cover_every_row_once(lengths: list[int]) -> None:
    bounds = balanced_bounds(np.array(lengths), 8)
    assert len(bounds) == 9
    assert bounds[0] == 0
    assert bounds[-1] == len(lengths)
    assert (np.diff(bounds) >= 0).all()


def test_groups_hold_about_equally_many_ratings() -> None:
    lengths = np.random.default_rng(0).integers(1, 50, 1000)
    per_group = np.add.reduceat(lengths, balanced_bounds(lengths, 8)[:-1])
    assert per_group.max() - per_group.min() <= 2 * lengths.max()


def test_a_part_of_a_matrix_has_its_rows() -> None:
    rows = ratings_of(np.array([[1, np.nan, 2], [np.nan] * 3, [3, 4, 5], [np.nan, 6, np.nan]])).by_user
    part, first = part_of(rows, slice(1, 3))
    assert first == 2
    assert part.starts.tolist() == [0, 0]
    assert part.lengths.tolist() == [0, 3]
    assert part.items.tolist() == [0, 1, 2]
    assert part.values.tolist() == [3, 4, 5]
    nothing, first = part_of(rows, slice(4, 4))
    assert (len(nothing.starts), len(nothing.values), first) == (0, 0, 6)
