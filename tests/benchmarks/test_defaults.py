"""Settings are chosen without the test part, then measured on it once."""

import dataclasses
import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import gpu
from benchmarks import datasets, defaults, grids, harness, measure, methods, trivial
from benchmarks.harness import Answer, PeerMissing
from benchmarks.methods import Other, Ours, Trivial
from benchmarks.peers.contract import ESTIMATES, FACTORS, LISTS, Facts, Fitted, Peer
from benchmarks.rows import BEST, DEFAULT, GRID, TUNED, Row, Store
from gpu.params import NmfParams, params_for
from gpu.training import nmf
from gpu.training import tune as search
from gpu.training.nmf_matrix import matrix_of

SMALL = {"n_factors": 4, "n_epochs": 2}


@pytest.fixture(scope="module")
def ratings_set(data):
    return datasets.load(data, "ml-100k")


@pytest.fixture(scope="module")
def lists_set(data):
    return datasets.load(data, "ml-1m-lists")


class Parabola:
    """Errors are (x − 3)² on the inner part and (x − 2)² on the test part."""

    name, kind = "parabola", "ours"

    def __init__(self):
        self.calls = []

    def defaults(self, dataset):
        return {}

    def grid(self, dataset):
        return [{}, *({"x": x} for x in range(6))]

    def row(self, dataset, stage, settings):
        return methods.blank(self, dataset, stage, settings, "here")

    def fitted(self, dataset, wanted):
        self.calls.append((wanted.stage, wanted.settings))
        goal, x = (3 if wanted.stage == GRID else 2), wanted.settings.get("x", 5)
        return dataclasses.replace(wanted, metrics={"rmse": (x - goal) ** 2}, seconds=1.0)


def test_the_best_of_the_grid_is_measured_on_the_test_part_once(ratings_set):
    method, store = Parabola(), Store(None)
    rows = list(defaults.rows_of(method, ratings_set, (DEFAULT, BEST), store))
    assert [row.stage for row in rows] == [DEFAULT, *[GRID] * 7, BEST]
    assert (rows[0].metrics, rows[-1].settings, rows[-1].metrics) == ({"rmse": 9}, {"x": 3}, {"rmse": 1})
    assert len(method.calls) == 9
    assert list(defaults.rows_of(method, ratings_set, (DEFAULT, BEST), store)) == rows
    assert len(method.calls) == 9


def test_only_what_is_wanted_is_fitted(ratings_set):
    method = Parabola()
    assert [row.stage for row in defaults.rows_of(method, ratings_set, (DEFAULT,), Store(None))] == [DEFAULT]
    assert method.calls == [(DEFAULT, {})]


@pytest.mark.parametrize(("task", "best"), [(ESTIMATES, 1), (LISTS, 2)])
def test_the_best_is_the_least_error_or_the_most_hits_and_never_a_failure(task, best):
    name = measure.METRICS[task][0]
    rows = [Row("a", task, "m", "ours", GRID, {"n": n}, {name: value}, 1.0, "host")
            for n, value in enumerate([math.nan, 0.2, 0.3, math.nan, 0.25])]  # fmt: skip
    assert defaults.best_of(rows).settings == {"n": best}
    assert defaults.best_of(rows[::-1]).settings == {"n": best}


def test_parts_name_what_is_run():
    def told(task, *parts):
        found = defaults.plan(task, parts, gpu.HOST, harness.Harness(Path("python"), 1))
        return [(method.name, *stages) for method, stages in found]

    assert told(ESTIMATES, "ours")[:2] == [("shrunk biases", DEFAULT), ("als", DEFAULT)]
    assert told(LISTS, "grid", "tune")[0] == ("als-implicit", BEST, TUNED)
    assert told(FACTORS, "ours", "grid", "tune") == [("nmf", DEFAULT, BEST)]
    assert told(FACTORS, "tune") == []
    assert told(FACTORS, "peers") == [("scikit-learn cd", DEFAULT, BEST), ("scikit-learn mu", DEFAULT, BEST)]


def test_a_search_chooses_on_the_inner_part_and_is_measured_on_the_test_part(ratings_set, monkeypatch):
    searched = []

    def tune(train, held_out, asked, backend):
        searched.append((train, held_out))
        return search.Outcome(dataclasses.replace(asked, **SMALL), "rmse", ())

    monkeypatch.setattr("benchmarks.methods.tune", tune)
    (row,) = defaults.rows_of(Ours("als", gpu.HOST), ratings_set, (TUNED,), Store(None))
    assert searched == [(ratings_set.inner.train, ratings_set.inner.test)]
    assert (row.stage, row.settings) == (TUNED, SMALL)
    method = Ours("als", gpu.HOST)
    assert row.metrics == method.fitted(ratings_set, method.row(ratings_set, DEFAULT, SMALL)).metrics


def test_ours_is_fitted_to_the_training_part(ratings_set, monkeypatch):
    method = Ours("als", gpu.HOST)
    row = method.fitted(ratings_set, method.row(ratings_set, DEFAULT, SMALL))
    train, test = ratings_set.whole.train, ratings_set.whole.test
    model = gpu.fit(train, params_for("als", SMALL))
    assert row.metrics["rmse"] == pytest.approx(gpu.evaluate.rmse(model, train.by_user, *test.coo()), rel=1e-6)
    assert row.parameters["n_factors"] == 4


def test_a_grid_is_trained_in_units_of_the_data_on_the_inner_part(ratings_set):
    method, unit = Ours("als", gpu.HOST), ratings_set.facts.std
    row = method.fitted(ratings_set, method.row(ratings_set, GRID, SMALL))
    inner = ratings_set.inner
    users, items, values = inner.train.coo()
    model = gpu.fit(gpu.Ratings.from_coo(users, items, values / unit, (80, 40),
                    inner.train.user_keys, inner.train.item_keys), params_for("als", SMALL))  # fmt: skip
    users, items, values = inner.test.coo()
    estimates = unit * gpu.evaluate.predict(model, inner.train.by_user, users, items).astype(float)
    assert row.metrics["rmse"] == pytest.approx(np.sqrt(np.mean((estimates - values) ** 2)), rel=1e-5)


def test_lists_are_measured_by_both_ranks(lists_set):
    method = Ours("als-implicit", gpu.HOST)
    row = method.fitted(lists_set, method.row(lists_set, DEFAULT, SMALL))
    model = gpu.fit(lists_set.whole.train, params_for("als-implicit", SMALL))
    assert row.metrics == gpu.evaluate.ranking(model, lists_set.whole.train.by_user, lists_set.whole.test)


def test_what_the_engine_refuses_is_noted(lists_set):
    method = Ours("nmf", gpu.HOST)
    negative = dataclasses.replace(lists_set, whole=lists_set.whole.scaled(-1))
    row = method.fitted(negative, method.row(negative, DEFAULT, SMALL))
    assert row.note.startswith("InvalidRatings: ")
    assert all(map(math.isnan, row.metrics.values()))


def test_other_defaults_are_another_row(ratings_set):
    method = Ours("als", gpu.HOST)
    keys = {method.row(ratings_set, DEFAULT, settings).key for settings in ({}, {"n_factors": 7})}
    assert len(keys) == 2
    assert method.row(ratings_set, DEFAULT, {}).parameters == dataclasses.asdict(params_for("als", {}))


def test_trivial_baselines(ratings_set, lists_set):
    fold, biases = ratings_set.whole, Trivial(ESTIMATES)
    users, items, values = fold.test.coo()
    estimates = np.clip(trivial.shrunk_biases(fold.train, users, items), *fold.train.scale)
    row = biases.fitted(ratings_set, biases.row(ratings_set, DEFAULT, {}))
    assert row.metrics["rmse"] == pytest.approx(np.sqrt(np.mean((estimates - values) ** 2)))
    popular = Trivial(LISTS)
    row = popular.fitted(lists_set, popular.row(lists_set, DEFAULT, {}))
    assert row.metrics["ndcg@10"] > 0


def test_estimates_beyond_the_scale_are_clipped(ratings_set):
    fold = ratings_set.whole
    far, most = np.full(len(fold.test), 99.0), fold.train.scale[1]
    wanted = np.sqrt(np.mean((most - fold.test.coo()[2].astype(float)) ** 2))
    assert measure.of_arrays(ESTIMATES, fold, {"estimates": far}) == {"rmse": pytest.approx(wanted)}


def test_exact_factors_have_no_error(ratings_set):
    train = ratings_set.whole.train
    W, H = measure.plain_matrix(train).toarray(), np.eye(train.n_items, dtype=np.float32)
    fold = datasets.Fold(train, train)
    assert measure.of_arrays(FACTORS, fold, {"W": W, "H": H})["relative_error"] == pytest.approx(0, abs=1e-3)
    assert measure.of_arrays(FACTORS, fold, {"W": 0 * W, "H": H})["relative_error"] == pytest.approx(1)


class Runs:
    """Stands in for the harness."""

    where = "host, 1 thread"

    def __init__(self, answer):
        self.answer, self.asked = answer, []

    def run(self, peer, fold, settings):
        self.asked.append((len(fold.train), settings))
        if self.answer is None:
            raise PeerMissing("a-package is not installed")
        return self.answer(fold)


def test_a_peer_is_measured_as_ours_is(ratings_set):
    peer = Peer("a peer", "a-package", ESTIMATES, lambda facts: [{"k": 1}], lambda *_: Fitted(0.0, {}))
    runs: Any = Runs(lambda fold: Answer(2.0, {"estimates": fold.test.coo()[2] + 0.5}, "1.2"))
    rows = list(defaults.rows_of(Other(peer, runs), ratings_set, (DEFAULT, BEST), Store(None)))
    assert runs.asked == [(1080, {}), (972, {}), (972, {"k": 1}), (1080, {})]
    assert rows[0].metrics["rmse"] <= 0.5
    assert (rows[0].seconds, rows[0].where) == (2.0, "host, 1 thread; a-package 1.2")


def test_a_missing_peer_leaves_the_others_alone(ratings_set, capsys):
    peer = Peer("a peer", "a-package", ESTIMATES, lambda facts: [], lambda *_: Fitted(0.0, {}))
    store, method = Store(None), Parabola()
    runs: Any = Runs(None)
    defaults._run(ratings_set, [(Other(peer, runs), (DEFAULT, BEST)), (method, (DEFAULT,))], store)
    assert [row.method for row in store.rows] == ["parabola"]
    assert "a peer: left out" in capsys.readouterr().err


def test_a_factorization_makes_all_iterations(ratings_set, monkeypatch):
    monkeypatch.setattr(methods, "NMF_ITERATIONS", {"n_epochs": 3, "tolerance": 0.0})
    train = ratings_set.whole.train
    fold = datasets.Fold(train, train)
    dataset = datasets.Dataset("faces", FACTORS, fold, fold, Facts(1.0, 1.0, 0.4, 32))
    method = Ours("nmf", gpu.HOST)
    row = method.fitted(dataset, method.row(dataset, DEFAULT, {**method.defaults(dataset), "n_factors": 4}))
    found = nmf.factorize(matrix_of(train), NmfParams(n_factors=4, n_epochs=3, tolerance=0))
    assert row.metrics["relative_error"] == pytest.approx(found.relative_error, rel=1e-4)
    assert {one.get("start") for one in method.grid(dataset)} == {None, "random", "nndsvd"}


def test_a_set_is_run_from_its_file_to_its_rows(data, monkeypatch):
    monkeypatch.setattr(grids, "ALGORITHMS", {ESTIMATES: ["als"], LISTS: []})
    monkeypatch.setattr(Ours, "grid", lambda self, dataset: [SMALL, {**SMALL, "regularization": 0.5}])
    store = Store(None)
    defaults.run(data, ["ml-100k", "faces"], ["ours", "grid"], gpu.HOST, harness.Harness(Path("python"), 1), store)
    assert [(row.dataset, row.method, row.stage) for row in store.rows] == [
        ("ml-100k", "shrunk biases", DEFAULT), ("ml-100k", "als", DEFAULT),
        ("ml-100k", "als", GRID), ("ml-100k", "als", GRID), ("ml-100k", "als", BEST),
    ]  # fmt: skip
