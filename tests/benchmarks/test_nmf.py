"""What `python -m benchmarks nmf` says of each code is what the code does."""

import json
import sys
from types import SimpleNamespace

import numpy as np
import pytest

import gpu
from benchmarks import nmf, nmf_plot
from benchmarks.__main__ import run
from gpu.params import NmfParams
from gpu.training import nmf as engine
from gpu.training.nmf_matrix import matrix_of
from tests import reference


@pytest.fixture
def sklearn(monkeypatch):
    """Stands in for the peer: makes the steps of the oracle and records its calls."""
    calls = []

    def factorize(matrix, W, H, n_components, init, solver, tol, max_iter):
        calls.append((solver, max_iter))
        dense = matrix.toarray() if hasattr(matrix, "toarray") else matrix
        assert (init, tol, n_components, dense.dtype) == ("custom", 0, W.shape[1], np.float32)
        found = reference.hals(dense.astype(float), W.astype(float), H.astype(float), max_iter)
        return *(factor.astype(np.float32) for factor in found), max_iter

    module = SimpleNamespace(non_negative_factorization=factorize)
    monkeypatch.setitem(sys.modules, "sklearn", SimpleNamespace(decomposition=module))
    monkeypatch.setitem(sys.modules, "sklearn.decomposition", module)
    return calls


def test_forms_agree_and_both_are_timed(train):
    plain, tiled, extrapolated = nmf.forms(train, 6, 5, gpu.HOST)
    assert (plain.code, plain.tile, tiled.code, tiled.tile) == ("plain", 0, "tiled", 2)
    assert extrapolated.code == "extrapolated"
    assert extrapolated.relative_error < tiled.relative_error
    assert plain.relative_error == pytest.approx(tiled.relative_error, rel=1e-5)
    assert plain.times_plain == 1
    assert tiled.times_plain == pytest.approx(plain.seconds_per_iteration / tiled.seconds_per_iteration)
    found = engine.factorize(matrix_of(train), NmfParams(n_factors=6, n_epochs=5, tolerance=0, solver="tiled"))
    assert tiled.relative_error == pytest.approx(found.relative_error, rel=1e-5)


def test_tiles_from_one_to_all_columns_and_the_default_among_them(train):
    rows = nmf.tiles(train, 16, 2, gpu.HOST)
    assert [row.tile for row in rows] == [1, 2, 4, 8, 16]
    assert [row.tile for row in rows if row.is_default] == [4]
    assert min(rows, key=lambda row: row.megawords).is_default


def test_words_of_the_papers_example():
    """20 Newsgroups, K = 160, a cache of 35 MB in words of 8 bytes."""
    assert nmf.words(11_314, 160, 15, 35 * 2**20 / 8) == pytest.approx(44_897_687, rel=1e-4)


def test_peers_start_where_ours_does_and_go_on_from_stop_to_stop(train, sklearn):
    rows, points = nmf.peers(train, 4, 6, gpu.HOST)
    assert sklearn == [(solver, n) for solver in ("cd", "mu") for n in (1, 1, 1, 2, 1)]
    ours, cd, _ = rows
    assert [row.code for row in rows] == ["extrapolated HALS", "scikit-learn cd", "scikit-learn mu"]
    assert ours.relative_error == pytest.approx(cd.relative_error, rel=0.02)
    assert cd.share == 1
    assert cd.seconds_to_error_of_cd == cd.seconds
    assert ours.share == pytest.approx(ours.seconds_to_error_of_cd / cd.seconds)
    curve = [point.relative_error for point in points if point.code == "extrapolated HALS"]
    assert curve[5] == pytest.approx(ours.relative_error)
    assert all(error > cd.relative_error for error in curve[6:-1])
    assert min(curve) <= cd.relative_error


def test_without_the_peer_ours_stands_alone(train, monkeypatch):
    monkeypatch.setitem(sys.modules, "sklearn.decomposition", None)
    (ours,), _ = nmf.peers(train, 4, 3, gpu.HOST)
    assert np.isnan(ours.share)


@pytest.mark.parametrize("form", [np.asarray, nmf._plain_form])
def test_the_error_of_a_peer_is_the_error(train, form):
    users, items, values = train.coo()
    dense = np.zeros((train.n_users, train.n_items), dtype=np.float32)
    dense[users, items] = values
    rng = np.random.default_rng(0)
    W, H = rng.random((len(dense), 3)), rng.random((3, dense.shape[1]))
    matrix = dense if form is np.asarray else form(train)
    assert nmf.relative_error(matrix, W, H) == pytest.approx(reference.relative_error(dense, W, H), rel=1e-6)


def test_the_whole_command_and_its_picture(tmp_path, capsys, sklearn):
    rng = np.random.default_rng(0)
    np.savez(tmp_path / "m.npz", m=rng.integers(0, 3, (30, 20)))
    command = ["nmf", "--matrix", str(tmp_path / "m.npz"), "--factors", "3,4", "--epochs", "2", "--to", "3"]
    assert run([*command, "--transpose", "--json"]) == 0
    text = capsys.readouterr().out
    records = [json.loads(line) for line in text.splitlines()]
    assert {record["rows"] for record in records if "rows" in record} == {20}
    assert set(nmf_plot.curves(records)) == {3, 4}
    assert set(nmf_plot.curves(records)[3]) == {"extrapolated HALS", "scikit-learn cd", "scikit-learn mu"}
    nmf_plot.draw({"planted": records}, tmp_path / "picture.png")
    assert (tmp_path / "picture.png").stat().st_size > 10_000


def test_a_folder_of_raw_arrays_is_a_matrix_too(folder, train, capsys, monkeypatch):
    monkeypatch.setitem(sys.modules, "sklearn.decomposition", None)
    command = ["nmf", "--matrix", str(folder), "--factors", "3", "--epochs", "2", "--to", "2", "--json"]
    assert run([*command, "--backend", "host"]) == 0
    records = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert {record["entries"] for record in records if "entries" in record} == {len(train)}
