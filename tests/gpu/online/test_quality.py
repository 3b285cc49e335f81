"""What folding in is worth: users and items that a model has not seen, against one that was trained on them."""

import numpy as np
import pytest

import gpu
from gpu.als.params import AlsParams
from gpu.data.param_kinds import Params
from gpu.data.rating_table import RatingTable
from gpu.data.ratings import Ratings
from gpu.descent.params import CulshParams, EsgdParams, SgdParams
from gpu.online.model import HostModel
from gpu.training import evaluate
from tests import data


def table_of(ratings: Ratings) -> RatingTable:
    table = RatingTable(ratings.n_users, ratings.n_items)
    users, items, values = ratings.coo()
    positions = np.arange(len(users))
    table.apply(users, items, values, positions.astype(np.float64), positions)
    return table


def rmse(model: gpu.Model, table: RatingTable, test: Ratings) -> float:
    return evaluate.rmse(model, table.rows, *test.coo())


def folded_in(params: Params, train: Ratings, unseen: np.ndarray) -> tuple[gpu.Model, RatingTable]:
    """A model trained without the ratings that `unseen` marks, which then come in online."""
    model, table = gpu.fit(train.where(~unseen), params), table_of(train)
    online_model = HostModel(model, table, train.user_keys, train.item_keys)
    assert online_model.settle()
    return model, table


@pytest.mark.parametrize("axis", ["users", "items"])
@pytest.mark.parametrize(
    "params",
    [
        SgdParams(n_factors=8),
        EsgdParams(n_factors=8, n_epochs=40),
        CulshParams(n_factors=8, n_neighbors=8, n_bits=512),
        AlsParams(n_factors=8),
    ],
)
def test_newcomers_are_learned_nearly_as_well_as_in_training(params: Params, axis: str) -> None:
    train, test = data.split(data.planted())
    rows, tested = (train.coo()[0], test.coo()[0]) if axis == "users" else (train.coo()[1], test.coo()[1])
    newcomers = np.arange(0, rows.max(), 10)
    model, table = folded_in(params, train, np.isin(rows, newcomers))
    of_newcomers = test.where(np.isin(tested, newcomers))
    known = rmse(gpu.fit(train, params), table, of_newcomers)
    popularity = float(np.std(of_newcomers.coo()[2]))
    online = rmse(model, table, of_newcomers)
    assert online < known + 0.1 * (popularity - known)


@pytest.mark.data
@data.needs_ml_1m
def test_refits_of_known_users_are_as_good_as_their_training() -> None:
    users, items, values = np.loadtxt(data.ML_1M, delimiter=",", skiprows=1, dtype=np.int64).T
    train, test = data.split(Ratings.from_coo(users, items, values.astype(np.float32)))
    model, table = gpu.fit(train, SgdParams(n_factors=32, n_epochs=20)), table_of(train)
    trained = rmse(model, table, test)
    online_model = HostModel(model, table, train.user_keys, train.item_keys)
    online_model.touch(np.arange(train.n_users))
    online_model.settle()
    assert rmse(model, table, test) < trained + 0.001
