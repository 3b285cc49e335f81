"""One absurd rating changes nothing for others: not in a training, not online."""

import numpy as np
import pytest

import gpu
from gpu.als.params import AlsImplicitParams, AlsParams
from gpu.data.calibration import calibrate, kind_of
from gpu.data.model import Model
from gpu.data.outliers import sane_range, winsorized
from gpu.data.param_kinds import Params
from gpu.data.signals import Calibration, signals
from gpu.descent.params import CulshImplicitParams, CulshParams, EsgdParams, SgdParams
from gpu.nmf.params import NmfParams
from gpu.online import explain
from gpu.ranking import topn
from tests import data
from tests.gpu.online_models import TRAINED_ITEMS, Event, OnlineModel, assert_same_state

ABSURD, LOWEST, HIGHEST = 1e6, 1.0, 5.0
OF_RATINGS = AlsParams, SgdParams, CulshParams, EsgdParams
NEW_ITEM = TRAINED_ITEMS


@pytest.mark.parametrize(
    "values",
    [
        [1, 2, 3, 4, 5],
        [5] * 999 + [1],
        [1] * 5000 + [5],
        [0.5, 5] * 10,
        [-9.95, 10, 0, 3, 5, 1],
        [80] * 50 + [78, 79, 81, 82] * 25 + [100, 60],
        [4],
    ],
)
def test_the_range_of_honest_ratings_is_all_of_them(values: list[float]) -> None:
    given = np.array(values, dtype=np.float32)
    assert sane_range(given) == (given.min(), given.max())


@pytest.mark.parametrize("absurd", [ABSURD, -ABSURD, 200.0])
def test_a_few_absurd_ratings_are_taken_for_the_nearest_honest_one(absurd: float) -> None:
    ratings = data.planted()
    values = np.rint(ratings.coo()[2])
    low, high = values.min(), values.max()
    values[:: len(values) // 20] = absurd
    found, n_far = winsorized(gpu.Ratings.from_coo(*ratings.coo()[:2], values))
    assert n_far == np.count_nonzero(values == absurd)
    assert found.scale == (low, high)
    assert found.by_item.values.max() == high


@pytest.mark.parametrize("kind", [*OF_RATINGS, NmfParams])
def test_a_training_is_the_same_with_an_absurd_rating_as_with_the_highest(kind: type[Params]) -> None:
    ratings, params = data.planted(), gpu.params_for(kind.algorithm, {"n_epochs": 3})
    users, items, values = ratings.coo()
    models = []
    for value in (ABSURD, values.max()):
        given = np.append(values[1:], value)  # the first rating, put last
        shifted = gpu.Ratings.from_coo(np.append(users[1:], users[0]), np.append(items[1:], items[0]), given)
        models.append(gpu.fit(shifted, params))
    assert models[0].scale == models[1].scale
    for name, array in models[0].arrays.items():
        np.testing.assert_array_equal(array, getattr(models[1], name), err_msg=name)


def history_with(kind: type[Params], value: float) -> OnlineModel:
    """A known and a new user rate a trained and a new item with `value`, after a snapshot."""
    given = {(user, item): float(1 + (user + item) % 5) for user in range(6) for item in range(TRAINED_ITEMS)}
    online_model = OnlineModel(kind, given, since=len(given), n_trained=6)
    if isinstance(online_model.online.model.params, NmfParams):
        online_model.online.model.scale = 0.0, HIGHEST
    online_model.learn([Event(user, item, value) for user in (0, 7) for item in (0, NEW_ITEM)])
    online_model.learn([Event(1, NEW_ITEM, 4.0), Event(7, 1, 3.0)])
    return online_model


@pytest.mark.parametrize(("absurd", "end"), [(ABSURD, HIGHEST), (-ABSURD, LOWEST)])
@pytest.mark.parametrize("kind", OF_RATINGS)
def test_online_a_rating_beyond_the_scale_counts_as_its_end(kind: type[Params], absurd: float, end: float) -> None:
    one, other = history_with(kind, absurd), history_with(kind, end)
    one.settle_in_slices()
    one.online.catch_up()
    other.online.settle()
    assert_same_state(one, other)


def test_nmf_learns_no_amount_above_the_highest_it_was_trained_on() -> None:
    one, other = history_with(NmfParams, ABSURD), history_with(NmfParams, HIGHEST)
    one.online.settle()
    other.online.settle()
    assert_same_state(one, other)


@pytest.mark.parametrize("kind", OF_RATINGS)
def test_lists_estimates_and_reasons_are_those_of_the_end_of_the_scale(kind: type[Params]) -> None:
    found = []
    for value in (ABSURD, HIGHEST):
        online_model = history_with(kind, value)
        online_model.online.settle()
        model, users = online_model.online.model, np.array([7])
        rows, own = topn.rows_of(online_model.table.rows, users), topn.users_of(online_model.online.model, users)
        items, scores = topn.recommend(online_model.online.index, own, rows, 4)
        estimates = topn.estimate(model, own, rows, np.arange(TRAINED_ITEMS)[None])
        rated = np.array([0, 1], dtype=np.int32)
        given = np.array([value, 3.0], dtype=np.float32)
        reasons = explain.reasons(model, rated, given, [2, 3], 3)
        folded = online_model.online.fold_in(rated, given)
        found.append([items, scores, estimates, *folded, np.array([pair for line in reasons for pair in line]).ravel()])
    for one, other in zip(*found, strict=True):
        np.testing.assert_array_equal(one, other)


def test_one_negative_value_turns_no_counts_into_ratings() -> None:
    plays = np.append(np.tile([1, 1, 1, 1, 2, 3, 9], 1000), -1.0).astype(np.float32)
    assert kind_of(plays) == "counts"
    assert kind_of(np.append(plays[:-1], -np.ones(100)).astype(np.float32)) == "ratings"


def test_one_value_between_turns_no_thumbs_into_counts() -> None:
    assert kind_of(np.append(np.tile([1, 1, 5], 1000), 1.5).astype(np.float32)) == "ratings"


@pytest.mark.parametrize("kind", [AlsImplicitParams, CulshImplicitParams])
@pytest.mark.parametrize("values", ["auto", "counts"])
def test_one_negative_count_is_one_dislike(kind: type[Params], values: str) -> None:
    ratings = data.planted()
    users, items, _ = ratings.coo()
    counts = np.ones(len(users), dtype=np.float32)
    counts[5] = -3
    given = gpu.Ratings.from_coo(users, items, counts)
    params = gpu.params_for(kind.algorithm, {"values": values})
    known = calibrate(given, params)
    assert known.values == "counts"
    assert signals(counts, known).tolist() == [1.0] * 5 + [-1.0] + [1.0] * (len(counts) - 6)


def test_scales_of_models_stay_those_of_the_ratings() -> None:
    of_ratings = Calibration(values="ratings")
    assert Model.zeros(SgdParams(), 3.0, (1, 5), 1, 1, calibration=of_ratings).learned_scale == (1.0, 5.0)
    assert Model.zeros(SgdParams(), 3.0, (1, 5), 1, 1).learned_scale == (-np.inf, np.inf)  # from before calibrations
    assert Model.zeros(AlsImplicitParams(), 0.0, (0, 1), 1, 1).learned_scale == (-np.inf, np.inf)
