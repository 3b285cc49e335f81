"""A model is placed, follows its ratings, and tells what that takes."""

from gpu.backend import HOST
from gpu.params import params_for
from service.bench import place


def test_a_small_one_on_the_host(monkeypatch):
    monkeypatch.setattr(place, "CHUNK", 300)
    monkeypatch.setattr(place, "ROUNDS", 2)
    monkeypatch.setattr(place, "N_CHANGES", 50)
    params = params_for("culsh", {"n_factors": 4, "n_neighbours": 3, "n_bits": 64})
    row = place.run(params, 400, 300, 1000, HOST)
    assert (row.users, row.items, row.factors, row.neighbours) == (400, 300, 4, 3)
    assert 900 < row.ratings <= 1000
    assert row.read_ms > 0
    assert row.lesson_ms > 0
    assert row.device_arrays_gb == row.device_taken_gb == 0
    assert row.process_gb > row.model_gb > 0
