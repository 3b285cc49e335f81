"""Harnesses ask each library for what its grid says and hand back what it found; the libraries are stood in for."""

import ast
import json
import sys
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

from benchmarks import peers as package
from benchmarks.peers import MODULES, implicit_als, lenskit_als, libmf_sgd, peers, sklearn_nmf, surprise_models
from benchmarks.peers.contract import ESTIMATES, FACTORS, LISTS, Facts, Problem

FACTS = Facts(mean=3.5, std=1.1, density=0.04, n_factors=3)
ROWS = np.array([0, 0, 1, 2], dtype=np.int32)
COLUMNS = np.array([0, 2, 1, 2], dtype=np.int32)
VALUES = np.array([1, 2, 4, 5], dtype=np.float32)
PROBLEM = Problem(ROWS, COLUMNS, VALUES, (4, 3), np.array([0, 1], np.int32), np.array([1, 2], np.int32))


def test_nothing_there_imports_the_project():
    for path in Path(package.__file__).parent.glob("*.py"):
        for node in ast.walk(ast.parse(path.read_text("utf-8"))):
            names = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
            names += [node.module or ""] if isinstance(node, ast.ImportFrom) else []
            for name in names:
                root = name.split(".")[0]
                assert root in {"numpy", *sys.stdlib_module_names} or name.startswith("benchmarks.peers"), (path, name)


def test_every_module_is_a_peer():
    there = {path.stem for path in Path(package.__file__).parent.glob("*.py")}
    assert there == {*MODULES, "__init__", "child", "contract"}
    assert {peer.task for peer in peers().values()} == {ESTIMATES, LISTS, FACTORS}


@pytest.mark.parametrize("name", peers())
def test_grids_are_small_distinct_and_can_be_handed_over(name):
    settings = peers()[name].grid(FACTS)
    assert 2 < len({json.dumps(one) for one in settings}) == len(settings) <= 20


@pytest.mark.parametrize("name", ["Surprise SVD", "LIBMF", "LensKit BiasedMF"])
def test_ridges_grow_with_the_scale_of_the_ratings(name):
    def ridges(facts):
        grid = peers()[name].grid(facts)
        key = next(key for key in grid[0] if key in ("reg_all", "lambda_p2", "regularization"))
        return sorted({one[key] for one in grid})

    assert np.array(ridges(FACTS._replace(std=11))) == pytest.approx(10 * np.array(ridges(FACTS)), rel=0.06)


@pytest.mark.parametrize("name", ["implicit ALS"])
def test_alpha_shrinks_as_the_values_grow(name):
    grid = peers()[name].grid
    assert grid(FACTS._replace(mean=35))[0]["alpha"] == pytest.approx(grid(FACTS)[0]["alpha"] / 10, rel=0.05)


def test_libmf_reads_triples_by_row_and_pairs_by_column(monkeypatch):
    seen = {}

    class Engine:
        def __init__(self, **settings):
            seen.update(settings)

        def fit(self, triples):
            seen["triples"] = triples.ravel(order="K").tolist()  # as it lies in memory

        def predict(self, pairs):
            seen["pairs"] = pairs.astype(np.float32).ravel(order="K").tolist()
            return np.array([3.0, 4.0])

    monkeypatch.setitem(sys.modules, "libmf", SimpleNamespace(mf=None))
    monkeypatch.setitem(sys.modules, "libmf.mf", SimpleNamespace(MF=Engine))
    monkeypatch.setenv("OMP_NUM_THREADS", "5")
    assert libmf_sgd.fit(PROBLEM, {"k": 8}).arrays["estimates"].tolist() == [3, 4]
    assert seen["triples"] == [0, 0, 1, 0, 2, 2, 1, 1, 4, 2, 2, 5]
    assert seen["pairs"] == [0, 1, 1, 2]
    assert (seen["k"], seen["nr_threads"]) == (8, 5)


def test_implicit_gets_the_matrix_and_gives_its_factors(monkeypatch):
    class Model:
        def __init__(self, **settings):
            self.settings = settings

        def fit(self, matrix, show_progress):
            assert matrix.toarray().tolist() == [[1, 0, 2], [0, 4, 0], [0, 0, 5], [0, 0, 0]]
            self.user_factors, self.item_factors = np.ones((4, 2)), np.full((3, 2), self.settings["alpha"])

    for name in ("implicit", "implicit.cpu"):
        monkeypatch.setitem(sys.modules, name, SimpleNamespace())
    monkeypatch.setitem(sys.modules, "implicit.cpu.als", SimpleNamespace(AlternatingLeastSquares=Model))
    found = implicit_als.fit(PROBLEM, {"alpha": 7.0})
    assert found.arrays["item_factors"].tolist() == [[7, 7]] * 3
    assert found.arrays["user_factors"].shape == (4, 2)
    assert found.seconds > 0


def test_surprise_gets_the_ratings_and_estimates_each_pair(monkeypatch):
    class Data:
        def __init__(self, reader):
            self.scale = reader

        def construct_trainset(self, raw):
            return self.scale, raw

    class Model:
        def __init__(self, **settings):
            self.settings = settings

        def fit(self, known):
            assert known == ((1, 5), [(0, 0, 1, None), (0, 2, 2, None), (1, 1, 4, None), (2, 2, 5, None)])

        def predict(self, user, item):
            return SimpleNamespace(est=10 * user + item + self.settings["reg_all"])

    library = SimpleNamespace(Dataset=Data, Reader=lambda rating_scale: rating_scale, SVD=Model)
    monkeypatch.setitem(sys.modules, "surprise", library)
    assert surprise_models.fit_svd(PROBLEM, {"reg_all": 0.5}).arrays["estimates"].tolist() == [1.5, 12.5]


def test_scikit_learn_gets_the_solver_and_a_dense_matrix_where_it_is_full(monkeypatch):
    class Model:
        def __init__(self, **settings):
            self.settings = settings

        def fit_transform(self, matrix):
            assert matrix.tolist() == [[1, 0, 2], [0, 4, 0], [0, 0, 5], [0, 0, 0]]
            assert (self.settings["solver"], self.settings["max_iter"], self.settings["tol"]) == ("mu", 100, 0)
            self.components_ = np.ones((self.settings["n_components"], 3))
            return np.ones((4, self.settings["n_components"]))

    monkeypatch.setitem(sys.modules, "sklearn", SimpleNamespace(decomposition=None))
    monkeypatch.setitem(sys.modules, "sklearn.decomposition", SimpleNamespace(NMF=Model))
    found = peers()["scikit-learn mu"].fit(PROBLEM, sklearn_nmf.default(FACTS))
    assert (found.arrays["W"].shape, found.arrays["H"].shape) == ((4, 3), (3, 3))


def test_lenskit_rows_are_found_by_their_ids_and_unknown_ones_are_average(monkeypatch):
    """It knows users 2, 0, 1 and items 1, 2, 0 in this order, and nothing of user 3."""
    halves = []

    class Trainer:
        u_ctx = "users"

        def train_epoch(self):
            halves.append("epoch")

        def finalize(self):
            halves.append("end")

        def als_half_epoch(self, epoch, context):
            halves.append(context)

    class Scorer:
        users, items = (SimpleNamespace(ids=lambda ids=ids: ids) for ids in ([2, 0, 1], [1, 2, 0]))
        user_embeddings, item_embeddings = np.array([[2.0], [0.0], [1.0]]), np.array([[10.0], [20.0], [30.0]])
        bias = SimpleNamespace(
            global_bias=3.0, user_biases=np.array([0.2, 0.0, 0.1]), item_biases=np.array([0.01, 0.02, 0.03])
        )

        def __init__(self, **settings):
            assert settings == {"epochs": 2}

        def create_trainer(self, known, options):
            assert known == {"user_id": [0, 0, 1, 2], "item_id": [0, 2, 1, 2], "rating": [1, 2, 4, 5]}
            return Trainer()

    modules = {
        "lenskit": SimpleNamespace(),
        "lenskit.als": SimpleNamespace(BiasedMFScorer=Scorer, ImplicitMFScorer=Scorer),
        "lenskit.data": SimpleNamespace(from_interactions_df=lambda frame: frame),
        "lenskit.training": SimpleNamespace(TrainingOptions=lambda rng: rng),
        "pandas": SimpleNamespace(DataFrame=lambda columns: {name: one.tolist() for name, one in columns.items()}),
    }
    for name, module in modules.items():
        monkeypatch.setitem(sys.modules, name, module)
    asked = PROBLEM._replace(test_users=np.array([2, 0, 3]), test_items=np.array([1, 0, 2]))
    found = lenskit_als.fit_biased(asked, {"epochs": 2}).arrays["estimates"]
    assert found == pytest.approx([3 + 0.2 + 0.01 + 2 * 10, 3 + 0 + 0.03 + 0 * 30, 3 + 0 + 0.02])
    assert halves == ["epoch", "epoch", "end", "users"]
    lists = lenskit_als.fit_implicit(PROBLEM, {"epochs": 2}).arrays
    assert lists["user_factors"].tolist() == [[0], [1], [2], [0]]
    assert lists["item_factors"].tolist() == [[30], [10], [20]]
