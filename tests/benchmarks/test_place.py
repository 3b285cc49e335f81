"""`place` loads a model, lets it follow ratings, and reports time and memory."""

import pytest

from benchmarks import place
from gpu.backend import HOST
from gpu.online import prepare_online
from gpu.params import params_for


@pytest.mark.parametrize("n_new", [0, 20])
def test_a_small_model_on_the_host(n_new, monkeypatch):
    monkeypatch.setattr(place, "CHUNK", 300)
    monkeypatch.setattr(place, "ROUNDS", 2)
    params = params_for("culsh", {"n_factors": 4, "n_neighbors": 3, "n_bits": 64})
    row = place.run(params, place.Sizes(400, 300, n_new, 1000, 50), HOST)
    assert (row.users, row.items, row.new_items, row.changes) == (400, 300, n_new, 50)
    assert (row.factors, row.neighbors) == (4, 3)
    assert 900 < row.ratings <= 1000
    assert row.read_ms > 0
    assert row.learn_ms > 0
    assert 0 < row.slice_ms <= 1000 * row.settle_s
    assert row.device_arrays_gb == row.device_taken_gb == 0
    assert row.process_gb > row.model_gb > 0


def test_new_items_are_not_trained(monkeypatch):
    models = []
    monkeypatch.setattr(place, "ROUNDS", 1)
    monkeypatch.setattr(place, "WARM_UP", 0)

    def spy(model, *arguments):
        models.append(model)
        return prepare_online(model, *arguments)

    monkeypatch.setattr(place, "prepare_online", spy)
    params = params_for("culsh", {"n_factors": 4, "n_neighbors": 3, "n_bits": 64})
    place.run(params, place.Sizes(40, 60, 7, 600, 5), HOST)
    (model,) = models
    assert (~model.item_trained).sum() == 7
    assert (model.neighbors[~model.item_trained] >= 0).any()  # settling has found their neighbors
