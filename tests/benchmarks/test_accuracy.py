"""One row a model, whatever finds its neighbors."""

import numpy as np
import pytest

import gpu
from benchmarks import accuracy
from benchmarks.memory import peak_mib
from gpu.params import params_for

MIB = 2**20


@pytest.fixture(scope="module", autouse=True)
def short_trainings():
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(accuracy, "params_for", lambda name, given: params_for(name, {"n_epochs": 1, **given}))
        yield


def test_every_way_is_trained_at_every_size(train, held_out):
    rows = list(accuracy.run(train, held_out, [4, 8], 4, [0], "host"))
    ways = ["none", "random", "gsm", "simlsh, Ψ = r²", "simlsh, Ψ = r − b", "rp_cos", "minhash"]
    assert [(row.n_factors, row.neighbors) for row in rows[:-1]] == [(f, way) for f in (4, 8) for way in ways]
    assert rows[-1].algorithm == "als"
    assert all(row.n_neighbors == (0 if row.neighbors == "none" else 4) for row in rows)
    assert all(row.test_rmse == row.rmse_by_seed[0] for row in rows)


def test_a_row_is_that_of_trainings_with_its_seeds(train, held_out):
    params = params_for("culsh", {"n_factors": 4, "n_neighbors": 4, "n_epochs": 2})
    row = accuracy.measure(train, held_out, params, [3, 1, 2], "host")
    models = [gpu.fit(train, params_for("culsh", vars(params) | {"seed": seed})) for seed in (3, 1, 2)]
    errors = [gpu.evaluate.rmse(model, train.by_user, *held_out.coo()) for model in models]
    assert list(row.rmse_by_seed) == errors
    assert row.test_rmse == sorted(errors)[1]
    arrays = models[0].neighbors.nbytes + models[0].projections.nbytes + models[0].projections.size // 8
    assert row.kept_mib == pytest.approx(arrays / MIB)
    assert row.peak_mib >= 0
    assert row.filled_at_random == 0


def test_what_has_no_neighbors_takes_nothing_to_find_them(train, held_out):
    row = accuracy.measure(train, held_out, params_for("sgd", {"n_epochs": 1}), [0], "host")
    assert np.isnan([row.neighbors_s, row.kept_mib, row.peak_mib, row.filled_at_random]).all()


def test_peak_memory_counts_what_is_gone_again():
    assert 60 < peak_mib(lambda: np.ones(2**23).sum(), gpu.HOST) < 90
    assert peak_mib(lambda: None, gpu.HOST) < 1
