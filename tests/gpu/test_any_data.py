"""What each algorithm promises on data of any shape (`tests.gpu.shapes`): the table `PROMISES`, and a test for each.

`make test` draws the same few data sets each time. `make faults` draws others: `TRIALS` for each algorithm and test.
"""

from typing import NamedTuple

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

import gpu
from gpu.algorithms import ALGORITHMS, trainer_of
from gpu.base.backend import HOST, Backend
from gpu.data.changes import Changes
from gpu.data.model import Model
from gpu.data.rating_table import RatingTable
from gpu.data.ratings import Ratings, Rows
from gpu.data.signals import Calibration
from gpu.online import OnlineModel, prepare_online
from gpu.ranking import topn
from gpu.ranking.weighted import heard_in_time, rows_in_time
from gpu.ranks.threads import run_threads
from gpu.training.loop import OnEpoch, train
from tests.faults.results import IS_LONG, TRIALS
from tests.gpu.fitted import assert_equal_models
from tests.gpu.shapes import VALUES, Data, data_sets, with_blocks
from tests.gpu.test_bad_input import ADVICE, params_of


class Promise(NamedTuple):
    """What an algorithm promises, beside what all do.

    Attributes:
        power: of a factor of all values, by which scores are multiplied then.
        rounding: share of the largest score by which they may miss that; 0: not a bit.
        hears_dislikes: whether a low rating speaks against its item to all users.
        ranks: whether several ranks make the bits of one.
    """

    power: int
    rounding: float = 0.0
    hears_dislikes: bool = True
    ranks: bool = True


RATINGS, LIKES = Promise(power=1), Promise(power=0)
PROMISES = {
    "als": RATINGS,
    "als-implicit": LIKES,
    "culsh": RATINGS,
    "culsh-implicit": LIKES,
    "ease": LIKES,
    "esgd": RATINGS._replace(ranks=False),  # each rank learns all items from its own users; their changes are added up
    "neighbors": LIKES,
    "next": LIKES._replace(hears_dislikes=False),  # a rating of any value says that the user has met the item
    # A low rating is a small amount, more than the 0 of no rating. Steps that follow the error enlarge its rounding.
    "nmf": RATINGS._replace(rounding=0.05, hears_dislikes=False),
    "sgd": RATINGS,
}
WITHOUT_EVENTS = tuple(kind for kind in VALUES if kind != "stars and events")
EVERY = pytest.mark.parametrize("algorithm", ALGORITHMS)


def some(n: int) -> settings:
    """`n` examples, the same each time; in the long run others, and as many as `TRIALS`."""
    return settings(max_examples=TRIALS if IS_LONG else n, derandomize=not IS_LONG)


def test_each_algorithm_has_its_promise() -> None:
    assert PROMISES.keys() == ALGORITHMS.keys()


@EVERY
@given(draws=st.data())
@some(12)
def test_a_training_ends_in_finite_scores_or_in_advice(algorithm: str, draws: st.DataObject, backend: Backend) -> None:
    data = draws.draw(learned_by(algorithm))
    model = fitted(algorithm, data, backend)
    if model is not None:
        assert np.isfinite(scores_of(model, rows_in_time(model, data.ratings.by_user, data.times))).all()


@EVERY
@given(draws=st.data())
@some(8)
def test_the_same_data_give_the_same_bits(algorithm: str, draws: st.DataObject) -> None:
    """Also on two and on three ranks, where the algorithm promises it."""
    data = draws.draw(learned_by(algorithm))
    model = fitted(algorithm, data)
    if model is None:
        return
    again = fitted(algorithm, data)
    assert again is not None
    assert_equal_models(again, model)
    for size in (2, 3) if ALGORITHMS[algorithm].has_ranks else ():
        on_ranks = fit_on_ranks(algorithm, data, size)
        if PROMISES[algorithm].ranks:
            assert_equal_models(on_ranks, model)
        assert all(np.isfinite(array).all() for array in on_ranks.arrays.values())


@EVERY
@given(data=data_sets(WITHOUT_EVENTS), factor=st.sampled_from([0.25, 4.0]))
@some(8)
def test_a_scale_of_values_changes_no_list(algorithm: str, data: Data, factor: float) -> None:
    """Scores are those of the values, or as many times as high as the values: no λ, step or bound has a unit."""
    promise, other = PROMISES[algorithm], data._replace(values=data.values * factor)
    model, scaled = fitted(algorithm, data), fitted(algorithm, other)
    assert (model is None) == (scaled is None)
    if model is None or scaled is None:
        return
    expected = factor**promise.power * scores_of(model, rows_in_time(model, data.ratings.by_user, data.times))
    found = scores_of(scaled, rows_in_time(scaled, other.ratings.by_user, data.times))
    np.testing.assert_allclose(found, expected, rtol=0, atol=promise.rounding * np.abs(expected).max())


@EVERY
@given(draws=st.data(), share=st.sampled_from([0.3, 0.7]), n=st.integers(1, 5))
@some(8)
def test_a_model_that_follows_the_rest_answers_the_same_by_any_way(
    algorithm: str, draws: st.DataObject, share: float, n: int, backend: Backend
) -> None:
    data = draws.draw(learned_by(algorithm))
    n_first, lists = max(1, int(share * len(data.users))), []
    for batch in (n, len(data.users)):
        first = data.at(slice(n_first))
        model = fitted(algorithm, first, backend)
        if model is None:
            return
        table, online = follow(model, data, n_first, batch, backend)
        assert np.isfinite(scores_of(online.model, rows_of(online.model, table))).all()
        everyone = np.arange(data.shape[0])
        best, scores = topn.recommend(
            online.index, topn.users_of(online.model, everyone), rows_of(online.model, table), 10
        )
        assert not np.isnan(scores).any()
        assert ((scores > -np.inf) == (best >= 0)).all()
        lists.append((best.tobytes(), scores.tobytes()))
    if backend.name == HOST.name:
        assert lists[0] == lists[1]


@EVERY
@given(seed=st.integers(0, 2**16))
@some(6)
def test_a_dislike_lifts_no_item(algorithm: str, seed: int) -> None:
    """Who has not rated an item sees it further down if all its raters dislike it than if all like it.

    Nor does it come before the place that it has without any rating; three places of 40 are allowed, for chance in
    factors.
    """
    data = with_blocks(seed)
    item = int(np.random.default_rng(seed).integers(data.shape[1]))
    are_of_item = data.items == item
    others = np.setdiff1d(np.arange(data.shape[0]), data.users[are_of_item])
    liked, disliked, unrated = (
        mean_place(algorithm, each, item, others)
        for each in (
            data._replace(values=np.where(are_of_item, 5.0, data.values)),
            data._replace(values=np.where(are_of_item, 1.0, data.values)),
            data.at(~are_of_item),
        )
    )
    if PROMISES[algorithm].hears_dislikes:
        assert disliked > liked
        assert disliked > unrated - 3


@EVERY
@given(seed=st.integers(0, 2**16))
@some(4)
def test_planted_taste_is_found(algorithm: str, seed: int) -> None:
    """Of what users have not rated, items of their own block come first, more of them than by popularity."""
    data, given_ = with_blocks(seed), {"n_factors": 8}
    known = {name: value for name, value in given_.items() if name in ALGORITHMS[algorithm].params.__dataclass_fields__}
    model = gpu.fit(data.ratings, gpu.params_for(algorithm, known), times=data.times)
    popularity = gpu.evaluate.baseline(data.ratings, is_implicit=model.is_implicit)
    blocks = np.arange(data.shape[0])[:, None] % 2
    found, usual = (np.mean(unrated_lists(each, data) % 2 == blocks) for each in (model, popularity))
    assert found > usual + 0.1


def learned_by(algorithm: str) -> st.SearchStrategy[Data]:
    """Data of any shape; with events for algorithms that learn them, as in a service."""
    return data_sets(tuple(VALUES) if ALGORITHMS[algorithm].params.is_implicit else WITHOUT_EVENTS)


def fitted(algorithm: str, data: Data, backend: Backend = HOST) -> Model | None:
    """The model of a short training; None where the data is refused with advice."""
    try:
        return gpu.fit(data.ratings, params_of(algorithm), backend=backend, times=data.times)
    except gpu.EngineError as error:
        assert ADVICE.search(str(error)), error
        return None


def fit_on_ranks(algorithm: str, data: Data, size: int) -> Model:
    def run(
        ratings: Ratings,
        params: gpu.Params,
        backend: Backend,
        test: Ratings | None,
        on_epoch: OnEpoch | None,
        calibration: Calibration,
    ) -> Model:
        arguments = ratings, params, backend, test, calibration
        models: list[Model] = run_threads(size, lambda ring: train(trainer_of(*arguments, ring), on_epoch))
        return models[0]

    return gpu.fit(data.ratings, params_of(algorithm), times=data.times, run=run)


def scores_of(model: Model, rows: Rows) -> NDArray[np.float64]:
    """Of all users for all items."""
    users, items = np.arange(model.n_users), np.arange(model.n_items)
    return topn.scores(model, topn.users_of(model, users), rows, np.tile(items, (len(users), 1)))


def unrated_lists(model: Model, data: Data) -> NDArray[np.intp]:
    """The best five items of each user among those without a rating."""
    scores = scores_of(model, rows_in_time(model, data.ratings.by_user, data.times))
    scores[data.users, data.items] = -np.inf
    return np.argsort(-scores, axis=1, kind="stable")[:, :5]


def mean_place(algorithm: str, data: Data, item: int, users: NDArray[np.int64]) -> float:
    model = fitted(algorithm, data)
    assert model is not None
    scores = scores_of(model, rows_in_time(model, data.ratings.by_user, data.times))[users]
    return float((scores > scores[:, [item]]).sum(axis=1).mean())


def follow(model: Model, data: Data, since: int, batch: int, backend: Backend) -> tuple[RatingTable, OnlineModel]:
    """The table of all ratings, and the model that has followed it from rating `since` on, `batch` at a time."""
    table, n = RatingTable(*data.shape), len(data.users)

    def apply(part: slice) -> Changes:
        values, positions = data.values[part].astype(np.float32), np.arange(n)[part]
        return table.apply(data.users[part], data.items[part], values, data.seconds[part], positions)

    apply(slice(since))
    online = prepare_online(model, table, *data.keys, backend).follow(*data.keys, since=since)
    for first in range(since, n, batch):
        online.note(apply(slice(first, first + batch)))
        online.settle(0.0)
    online.settle()
    return table, online


def rows_of(model: Model, table: RatingTable) -> Rows:
    rows = topn.rows_of(table.rows, np.arange(table.n_users))
    return heard_in_time(model, rows, lambda entries: (table.timestamps[entries], table.positions[entries]))
