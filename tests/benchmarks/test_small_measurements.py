"""Scale, dislikes and stream measure what they say."""

import math
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import gpu
from benchmarks import datasets, dislikes, scale, stream
from benchmarks.methods import Ours
from benchmarks.rows import Store
from gpu.online import prepare_online
from gpu.online.rating_table import RatingTable
from gpu.params import params_for
from service.cli import offline
from service.cli.files import ratings_file


@pytest.fixture(scope="module")
def dataset(data):
    return datasets.load(data, "ml-100k")


class Shifty:
    """Its error is a fifth of the largest rating; it cannot learn negative ones."""

    name, kind = "shifty", "ours"

    def row(self, dataset, stage, settings):
        return Ours("als", gpu.HOST).row(dataset, stage, settings)

    def fitted(self, dataset, wanted):
        low, high = dataset.whole.train.scale
        if low < 0:
            return wanted.__class__(**{**vars(wanted), "note": "refused"})
        return wanted.__class__(**{**vars(wanted), "metrics": {"rmse": high / 5}})


def test_errors_are_in_units_of_the_scale(dataset):
    store = Store(None)
    shifty: Any = Shifty()
    scale.measure_one(dataset, shifty, store)
    found = store.rows[0].metrics
    assert list(found) == ["× 1", "× 1/4", "× 20", "− 3"]
    assert [found["× 1/4"], found["× 20"]] == pytest.approx([found["× 1"]] * 2)
    assert math.isnan(found["− 3"])
    assert store.rows[0].note == "− 3: refused"


def test_scale_runs_every_algorithm_on_every_set(data):
    store = Store(None)
    scale.run(data, ["als"], gpu.HOST, store)
    row = store.rows[0]
    wanted = Ours("als", gpu.HOST)
    plain = wanted.fitted(datasets.load(data, "ml-100k"), wanted.row(datasets.load(data, "ml-100k"), "scale", {}))
    assert len(store.rows) == 1
    assert row.metrics["× 1"] == pytest.approx(plain.metrics["rmse"])
    assert row.metrics["− 3"] == pytest.approx(row.metrics["× 1"], rel=1e-3)


def test_neighbors_in_the_next_list_are_counted(monkeypatch):
    """Item 0 has neighbors 1 to 10, of which the list shows three; item 5 has 1 to 4 and 6 to 11."""
    neighbors = np.full((20, 12), gpu.NO_NEIGHBOR, dtype=np.int32)
    neighbors[0, :11] = np.arange(1, 12)
    neighbors[5, :10] = [*range(1, 5), *range(6, 12)]
    model = SimpleNamespace(neighbors=neighbors)
    asked = []
    online_model = SimpleNamespace(
        model=model, index="index", fold_in=lambda items, values: asked.append((items.tolist(), values.tolist()))
    )
    shown = np.array([[1, 2, 10, 12, 13, 14, 15, 16, 17, 18]], dtype=np.int32)
    monkeypatch.setattr("benchmarks.dislikes.topn.recommend", lambda index, users, row, n: (shown, None))
    assert dislikes.share_of_neighbors(online_model, np.array([0]), 1.0) == pytest.approx(0.3)
    assert dislikes.share_of_neighbors(online_model, np.array([0, 5]), 1.0) == pytest.approx((0.3 + 0.3) / 2)
    assert asked[1] == ([0, 5], [1.0, 1.0])


def test_neighbors_without_lists_are_the_nearest_factors():
    model = gpu.Model.zeros(params_for("als", {"n_factors": 4}), 0.0, (1, 5), 2, 4)
    model.item_factors[:] = np.array([[1, 0, 0, 0], [0, 1, 0, 0], [1, 0.1, 0, 0], [1, 0.5, 0, 0]])
    model.item_trained[:] = [True, True, True, False]
    assert dislikes.neighbors_of(model, 0).tolist() == [2, 1]


def test_films_with_few_ratings_are_not_drawn(ratings, monkeypatch):
    fewest = int(np.median(ratings.by_item.lengths))
    monkeypatch.setattr(dislikes, "FEWEST_RATINGS", fewest)
    drawn = dislikes.draw(ratings, 3)
    assert drawn.items.shape == (dislikes.N_USERS, 3)
    assert (np.diff(drawn.items, axis=1) > 0).all()
    assert ratings.by_item.lengths[drawn.items].min() >= fewest
    assert drawn.stars == ratings.scale


def test_dislikes_of_each_model(data, monkeypatch):
    monkeypatch.setattr(dislikes, "N_USERS", 5)
    monkeypatch.setattr(dislikes, "FEWEST_RATINGS", 1)
    store = Store(None)
    dislikes.run(data, ["als", "sgd", "culsh-implicit"], gpu.HOST, store)
    names = [f"k = {k}, {stars}" for k in (1, 3, 10) for stars in ("one star", "five stars")]
    for row in store.rows:
        assert list(row.metrics) == ["NDCG@10, 4 and up", *names]
        assert all(0 <= value <= 1 for value in row.metrics.values())
    assert len({tuple(row.metrics.values()) for row in store.rows}) == 3


def test_a_stream_is_cut_into_test_half_and_batches(ratings):
    parts = stream.parts_of(ratings)
    assert len(parts.test) == 60
    assert len(parts.first) == 570
    assert [len(batch) for batch in parts.batches] == [29] * 10 + [28] * 10
    assert len(parts.everything) == 1140
    pairs = [
        {*zip(*(column.tolist() for column in part.coo()[:2]), strict=True)} for part in (parts.everything, parts.test)
    ]
    assert not pairs[0] & pairs[1]
    assert (parts.everything.user_keys == ratings.user_keys).all()


def test_a_stream_ends_where_everything_has_been_learned(data):
    ratings = offline.Data.split(ratings_file.read(data / "ml-1m" / "ratings.csv"), 0.0, 42).train
    parts, params = stream.parts_of(ratings), params_for("als", {})
    store = Store(None)
    stream.run(data, ["als"], gpu.HOST, store)
    found = store.rows[0].metrics
    model = gpu.fit(parts.first, params)
    assert found["as trained"] == pytest.approx(
        gpu.evaluate.rmse(model, parts.first.by_user, *parts.test.coo()), rel=1e-6
    )
    again = gpu.fit(parts.everything, params)
    assert found["retrained"] == pytest.approx(
        gpu.evaluate.rmse(again, parts.everything.by_user, *parts.test.coo()), rel=1e-6
    )
    table, keys = RatingTable(model.n_users, model.n_items), (parts.first.user_keys, parts.first.item_keys)
    n_seen = 0
    for part in (parts.first, *parts.batches):
        stream._apply(table, part, n_seen)
        n_seen += len(part)
    online_model = prepare_online(model, table, *keys, gpu.HOST).follow(*keys, since=len(parts.first))
    online_model.touch(np.unique(np.concatenate([batch.coo()[0] for batch in parts.batches])))
    online_model.settle()
    after = gpu.evaluate.rmse(online_model.model, parts.everything.by_user, *parts.test.coo())
    assert found["online"] == pytest.approx(after, rel=1e-5)
    assert found["online"] != found["as trained"]
    assert found["ms a batch"] > 0


def test_models_of_descent_learn_a_stream_too(data):
    store = Store(None)
    stream.run(data, ["culsh", "esgd"], gpu.HOST, store)
    assert [row.method for row in store.rows] == ["culsh", "esgd"]
    for row in store.rows:
        assert row.metrics["online"] != row.metrics["as trained"]
        assert max(row.metrics[name] for name in ("as trained", "online", "retrained")) < 2
