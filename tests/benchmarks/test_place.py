"""A model is placed, follows its ratings, and tells what that takes."""

import pytest

from benchmarks import place
from gpu.backend import HOST
from gpu.online import prepare_online
from gpu.params import params_for


@pytest.mark.parametrize("n_new", [0, 20])
def test_a_small_one_on_the_host(n_new, monkeypatch):
    monkeypatch.setattr(place, "CHUNK", 300)
    monkeypatch.setattr(place, "ROUNDS", 2)
    params = params_for("culsh", {"n_factors": 4, "n_neighbors": 3, "n_bits": 64})
    row = place.run(params, place.Sizes(400, 300, n_new, 1000, 50), HOST)
    assert (row.users, row.items, row.new_items, row.changes) == (400, 300, n_new, 50)
    assert (row.factors, row.neighbors) == (4, 3)
    assert 900 < row.ratings <= 1000
    assert row.read_ms > 0
    assert row.lesson_ms > 0
    assert 0 < row.slice_ms <= 1000 * row.settle_s
    assert row.device_arrays_gb == row.device_taken_gb == 0
    assert row.process_gb > row.model_gb > 0


def test_new_items_are_those_that_the_model_does_not_know(monkeypatch):
    found = []
    monkeypatch.setattr(place, "ROUNDS", 1)
    monkeypatch.setattr(place, "WARM_UP", 0)

    def spy(model, *given):
        found.append(model)
        return prepare_online(model, *given)

    monkeypatch.setattr(place, "prepare_online", spy)
    params = params_for("culsh", {"n_factors": 4, "n_neighbors": 3, "n_bits": 64})
    place.run(params, place.Sizes(40, 60, 7, 600, 5), HOST)
    (model,) = found
    assert (~model.item_trained).sum() == 7
    assert (model.neighbors[~model.item_trained] >= 0).any()  # listed, once it had settled
