from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import gpu
from gpu.base.backend import Backend
from gpu.base.errors import InvalidInput, InvalidParams, InvalidRatings, TrainingDiverged
from gpu.data.model import NO_SLOT, Model
from gpu.data.ratings import Ratings
from gpu.data.recency import curve, places_back
from gpu.next import host
from gpu.next import trainer as next_trainer
from gpu.next.histories import Histories
from gpu.next.params import NextParams
from gpu.online.explain import shares
from gpu.ranking import topn
from gpu.ranking.item_index import ItemIndex
from gpu.ranking.weighted import likenesses, rows_in_time, weights_by_time
from tests import reference
from tests.gpu.next.walks import histories_of, walks

PARAMS = NextParams(regularization=0.5, decay_items=2.0, old_weight=0.1, window=4)


def dense_weights(model: Model) -> np.ndarray:
    """W (I, I); zeros where an item has no weights."""
    items = np.flatnonzero(model.item_slots != NO_SLOT)
    weights = np.zeros((model.n_items, model.n_items))
    weights[np.ix_(items, items)] = model.item_weights[np.ix_(model.item_slots[items], model.item_slots[items])]
    return weights


@st.composite
def timed(draw: st.DrawFn) -> tuple[Ratings, gpu.Times]:
    """Ratings of some users, with times of which many are equal."""
    n_items = draw(st.integers(2, 8))
    n_of_users = draw(st.lists(st.integers(0, n_items), min_size=1, max_size=6))
    rng = np.random.default_rng(draw(st.integers(0, 999)))
    users = np.repeat(np.arange(len(n_of_users)), n_of_users)
    items = np.concatenate([rng.permutation(n_items)[:n] for n in n_of_users]).astype(np.int64)
    ratings = Ratings.from_coo(users, items, np.ones(len(users)), (len(n_of_users), n_items))
    return ratings, gpu.Times(rng.integers(0, 3, len(users)).astype(float), 9.0, rng.permutation(len(users)))


@given(data=timed(), window=st.integers(1, 9))
@settings(max_examples=60)
def test_weights_are_the_ridge_regression_of_the_next_item(
    data: tuple[Ratings, gpu.Times], window: int, backend: Backend
) -> None:
    ratings, times = data
    histories = histories_of(ratings, times)
    if not any(len(history) > 1 for history in histories):
        return
    params = replace(PARAMS, window=window)
    model = gpu.fit(ratings, params, times=times, backend=backend)
    beside_others = np.unique(np.concatenate([history for history in histories if len(history) > 1]))
    slots = {int(item): slot for slot, item in enumerate(beside_others)}
    known = [[slots[item] for item in history if item in slots] for history in histories]
    expected = reference.next_weights(known, curve(params), 0.5, len(slots))
    np.testing.assert_allclose(dense_weights(model)[np.ix_(beside_others, beside_others)], expected, atol=1e-5)
    assert np.flatnonzero(model.item_trained).tolist() == beside_others.tolist()


def test_scores_follow_the_last_items_in_their_order() -> None:
    ratings, times = walks()
    model = gpu.fit(ratings, PARAMS, times=times)
    everyone = np.arange(ratings.n_users)
    rows = topn.rows_of(rows_in_time(model, ratings.by_user, times), everyone)
    lists, scores = topn.recommend(ItemIndex(model), topn.users_of(model, everyone), rows, 30, include_seen=True)
    inputs = [reference.next_inputs(one, curve(PARAMS), 30) for one in histories_of(ratings, times)]
    exact = np.array(inputs) @ dense_weights(model)
    np.testing.assert_allclose(scores, np.take_along_axis(exact, lists, axis=1), atol=1e-5)
    following = np.array([(history[-1] + 1) % 30 for history in histories_of(ratings, times)])
    histories = histories_of(ratings, times)
    is_new = np.array([after not in history for after, history in zip(following, histories, strict=True)])
    first = topn.recommend(ItemIndex(model), topn.users_of(model, everyone), rows, 1)[0][:, 0]
    assert (first == following)[is_new].mean() > 0.9


def test_the_shares_of_a_score_add_up_to_it() -> None:
    ratings, times = walks(40)
    model = gpu.fit(ratings, PARAMS, times=times)
    own = slice(int(ratings.by_user.starts[7]), int(ratings.by_user.starts[8]))
    items, values = ratings.by_user.items[own], ratings.by_user.values[own]
    moments = times.seconds[own], times.stream[own]
    weights = weights_by_time(model, np.array([len(items)]), values, *moments)
    targets = np.arange(30)
    found = shares(model, items, values, targets, None, weights).sum(axis=1)
    x = reference.next_inputs(histories_of(ratings, times)[7], curve(PARAMS), 30)
    np.testing.assert_allclose(found, x @ dense_weights(model), atol=1e-6)
    assert weights is not None
    assert np.count_nonzero(weights) == PARAMS.window


def test_neighbors_of_an_item_are_what_comes_next() -> None:
    ratings, times = walks()
    model = gpu.fit(ratings, PARAMS, times=times)
    assert [int(np.argmax(likenesses(model, np.array([item])))) for item in range(29)] == list(range(1, 30))


@pytest.mark.parametrize("n_items", [host.BLOCK - 1, host.BLOCK + 7])
def test_sums_are_exact_in_fixed_point(n_items: int, backend: Backend) -> None:
    """Equal to the bits on host and device, whatever the order of additions."""
    ratings, times = walks(200, n_items, 25, seed=1)
    histories = Histories.of(ratings.ordered(np.argsort(np.argsort(times.seconds))), np.arange(n_items, dtype=np.int32))
    weights = curve(replace(PARAMS, window=300))
    found = backend.twin(host.sums)(histories, weights, n_items)
    gram, cross = (matrix if isinstance(matrix, np.ndarray) else matrix.get() for matrix in found)
    x = [reference.next_inputs(one[:n], weights, n_items) for one in histories_of(ratings, times) for n in range(1, 25)]
    y = np.eye(n_items)[[one[n] for one in histories_of(ratings, times) for n in range(1, 25)]]
    np.testing.assert_allclose(gram, np.array(x).T @ x, atol=1e-4)
    np.testing.assert_allclose(cross.T, np.array(x).T @ y, atol=1e-4)
    on_host = host.sums(histories, weights, n_items)
    assert np.array_equal(gram, on_host[0])
    assert np.array_equal(cross, on_host[1])


def test_trial_scores_are_those_of_the_weights(backend: Backend) -> None:
    ratings, times = walks(60)
    histories = Histories.of(ratings.ordered(np.argsort(np.argsort(times.seconds))), np.arange(30, dtype=np.int32))
    gram, cross = backend.twin(host.sums)(histories, curve(PARAMS), 30)
    x = histories.inputs(np.arange(60), curve(PARAMS), 30)
    tried = backend.twin(host.scores)(gram, cross, 40.0, x.copy())
    weights = backend.twin(host.item_weights)(gram, cross, 40.0)
    np.testing.assert_allclose(tried, x @ weights, atol=1e-4)


def test_places_count_back_from_the_newest_of_each_row() -> None:
    lengths, counts = np.array([3, 0, 4]), np.array([True, True, True, True, False, True, True])
    seconds, stream = np.array([5.0, 9, 5, 1, 9, 1, 1]), np.array([2, 1, 3, 9, 8, 7, 6])
    assert places_back(lengths, counts, seconds, stream).tolist() == [3, 1, 2, 1, 0, 2, 3]


def test_low_ratings_are_met_too_and_events_below_0_are_not() -> None:
    stars, times = walks(80)
    model = gpu.fit(stars, PARAMS, times=times)
    same = stars.with_values(np.full(len(stars), 3.0, np.float32), np.full(len(stars), 3.0, np.float32))
    assert np.array_equal(gpu.fit(same, PARAMS, times=times).item_weights, model.item_weights)
    assert model.middle == 1.0  # every rating is relevant
    is_disliked = np.arange(len(stars)) % 5 == 0
    counts = np.where(is_disliked, -1.0, 2.0).astype(np.float32)
    users, items, _ = stars.coo()
    signed = Ratings.from_coo(users, items, counts, (80, 30))
    kept = stars.where(~is_disliked)
    without = gpu.fit(kept, PARAMS, times=gpu.Times(times.seconds[~is_disliked], times.as_of_s))
    found = gpu.fit(signed, replace(PARAMS, values="counts"), times=times)
    np.testing.assert_array_equal(dense_weights(found), dense_weights(without))


def test_open_parameters_are_chosen_by_the_last_items() -> None:
    ratings, times = walks(400, 40, 15)
    model = gpu.fit(ratings, NextParams(), times=times)
    (told,) = model.calibration.chosen
    assert "NDCG@10" in told
    assert "last items of 400 users" in told
    assert model.params.decay_items == 1.5  # the last item says it all
    ratings_of_few, times_of_few = walks(20)
    few = gpu.fit(ratings_of_few, NextParams(), times=times_of_few)
    assert few.calibration.chosen == ("nothing was tested: expected 100 users with three items or more, got 20",)
    assert few.params.decay_items == 5.0
    given = gpu.fit(ratings, PARAMS, times=times)
    assert (given.calibration.chosen, given.params) == ((), PARAMS)


def test_it_needs_times_and_says_so() -> None:
    ratings, times = walks(20)
    with pytest.raises(InvalidParams, match=r"Invalid ratings for next: expected ratings with times.*got none"):
        gpu.fit(ratings, PARAMS)
    with pytest.raises(InvalidInput, match="Invalid length of times: expected 240, got 3"):
        gpu.fit(ratings, PARAMS, times=gpu.Times(np.zeros(3), 0.0))
    model = gpu.fit(ratings, PARAMS, times=times)
    rows = topn.rows_of(ratings.by_user, np.array([0]))
    with pytest.raises(InvalidInput, match="got rows without order"):
        topn.recommend(ItemIndex(model), topn.users_of(model, np.array([0])), rows, 3)


def test_too_many_items_are_refused_with_what_they_would_take(
    monkeypatch: pytest.MonkeyPatch, backend: Backend
) -> None:
    monkeypatch.setattr(next_trainer, "MAX_WEIGHTED", 29)
    ratings, times = walks(60)
    needed = backend.twin(host.bytes_needed)(30, len(ratings))
    said = f"at most 29 that are met beside others, got 30, .* need about {needed:,} bytes; use als-implicit"
    with pytest.raises(InvalidRatings, match=said):
        gpu.fit(ratings, PARAMS, backend=backend, times=times)


def test_a_matrix_without_an_inverse_says_what_to_change(backend: Backend) -> None:
    ratings, times = walks(60)
    histories = Histories.of(ratings.ordered(np.argsort(np.argsort(times.seconds))), np.arange(30, dtype=np.int32))
    gram, cross = backend.twin(host.sums)(histories, curve(PARAMS), 30)
    with pytest.raises(TrainingDiverged, match="raise regularization"):
        backend.twin(host.item_weights)(gram, cross, -1e3)


def test_equal_ratings_give_equal_models() -> None:
    ratings, times = walks(120)
    one, other = (gpu.fit(ratings, NextParams(), times=times) for _ in range(2))
    for name, array in one.arrays.items():
        assert array.tobytes() == getattr(other, name).tobytes(), name
