"""CULSH-MF: neighbors earn their keep, implicit feedback ranks, and both are reproducible."""

import copy
import dataclasses
import math
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import gpu
from gpu.base.backend import Backend
from gpu.data.rating_table import RatingTable
from gpu.descent.host import ImplicitBlocks
from gpu.descent.params import CulshImplicitParams, CulshParams
from gpu.online.model import HostModel
from gpu.ranking import topn
from gpu.training.loop import EpochReport
from tests.data import ML_100K, needs_ml_100k, planted, split
from tests.gpu.fitted import assert_equal_models, last_metrics

SMALL = CulshParams(n_factors=4, n_neighbors=8, n_epochs=8, n_bits=512, deterministic=True)
IMPLICIT = CulshImplicitParams(n_factors=4, n_neighbors=8, n_epochs=8, n_bits=512, deterministic=True)


def in_groups(n_users: int = 400, n_groups: int = 8, per_group: int = 15, seed: int = 0) -> gpu.Ratings:
    """Each user rates half of the items of two groups: the groups are all there is to learn."""
    generator = np.random.default_rng(seed)
    pairs = [
        (user, group * per_group + item)
        for user in range(n_users)
        for group in generator.choice(n_groups, 2, replace=False)
        for item in generator.choice(per_group, per_group // 2, replace=False)
    ]
    users, items = np.array(pairs).T
    return gpu.Ratings.from_coo(users, items, np.ones(len(users)), (n_users, n_groups * per_group))


PRINT_A_MODEL = """
import hashlib, gpu
from tests.gpu.descent.test_culsh import SMALL, planted
print(hashlib.sha256(gpu.fit(planted(), SMALL).item_factors).hexdigest())
"""


@pytest.mark.slow
def test_compiled_and_cached_kernels_give_equal_models(tmp_path: Path) -> None:
    """Of several processes that train together, one may have compiled what another finds in the cache."""
    root = Path(__file__).parents[3]
    environment = {"NUMBA_CACHE_DIR": str(tmp_path), "PYTHONPATH": str(root), "PATH": ""}
    command = [sys.executable, "-c", PRINT_A_MODEL]
    one, other = (subprocess.run(command, env=environment, cwd=root, capture_output=True, check=True) for _ in "12")
    assert len(one.stdout) == 65
    assert one.stdout == other.stdout


@pytest.mark.parametrize("params", [SMALL, IMPLICIT], ids=["explicit", "implicit"])
def test_equal_seeds_give_equal_models(backend: Backend, params: CulshParams) -> None:
    ratings = planted()
    model = gpu.fit(ratings, params, backend=backend)
    assert_equal_models(model, gpu.fit(ratings, params, backend=backend))
    assert model.projections.any()
    assert model.explicit_weights.any()
    assert model.implicit_weights.any()


def test_no_neighbors_is_cusgd(backend: Backend) -> None:
    ratings = planted()
    alone = gpu.fit(ratings, gpu.SgdParams(n_factors=4, n_epochs=8, deterministic=True), backend=backend)
    culsh = gpu.fit(ratings, CulshParams(n_factors=4, n_epochs=8, n_neighbors=0, deterministic=True), backend=backend)
    for name in ("user_factors", "item_factors", "user_bias", "item_bias"):
        np.testing.assert_array_equal(getattr(alone, name), getattr(culsh, name))


def test_more_neighbors_than_items(backend: Backend) -> None:
    users, items = np.array([0, 0, 1, 2]), np.array([0, 1, 1, 0])
    ratings = gpu.Ratings.from_coo(users, items, np.array([1.0, 5.0, 4.0, 2.0]), (3, 3))
    for params in (SMALL, IMPLICIT):
        model = gpu.fit(ratings, params, backend=backend)
        assert (model.neighbors[2] == gpu.NO_NEIGHBOR).all()
        assert sorted(model.neighbors[0].tolist()) == [-1] * 7 + [1]
        assert not model.explicit_weights[:, 1:].any()


@needs_ml_100k
@pytest.mark.data
def test_hashed_neighbors_beat_random_ones_on_real_ratings(backend: Backend) -> None:
    users, items, values, _ = np.loadtxt(ML_100K, dtype=np.int64).T
    train, test = split(gpu.Ratings.from_coo(users, items, values), 0.2)
    hashed = last_metrics(train, test, CulshParams(n_factors=16), backend)["test_rmse"]
    chance = last_metrics(train, test, CulshParams(n_factors=16, similarity="random"), backend)["test_rmse"]
    assert hashed < 0.92
    assert hashed < chance - 0.002


def test_implicit_feedback_finds_the_groups(backend: Backend) -> None:
    train, test = split(in_groups())
    params = CulshImplicitParams(n_factors=8, n_neighbors=8, n_epochs=30, n_bits=512)
    reports: list[EpochReport] = []
    model = gpu.fit(train, params, backend=backend, test=test, on_epoch=reports.append)
    assert reports[-1].metrics["train_loss"] < 0.7 * reports[0].metrics["train_loss"]
    # A user's two groups have about 16 unrated items; a held-out one is as good as any of them.
    assert reports[-1].metrics["test_recall@20"] > 0.9
    assert set(reports[-1].metrics) == {"train_loss", "test_ndcg@10", "test_recall@20"}
    assert model.scale == (0.0, 1.0)


def test_implicit_models_start_from_the_rate_of_positives(backend: Backend) -> None:
    model = gpu.fit(planted(), dataclasses.replace(IMPLICIT, values="counts"), backend=backend)
    positives = 1 / (1 + IMPLICIT.n_negatives)
    assert model.mean == pytest.approx(math.log(positives / (1 - positives)))
    assert not model.user_baseline.any()
    assert not model.item_baseline.any()
    assert model.is_implicit


def test_the_values_of_counts_do_not_matter_to_implicit_models(backend: Backend) -> None:
    users, items, values = planted().coo()
    other = gpu.Ratings.from_coo(users, items, 6 - values, (300, 120))
    counts = dataclasses.replace(IMPLICIT, values="counts")
    assert_equal_models(gpu.fit(planted(), counts, backend=backend), gpu.fit(other, counts, backend=backend))


def test_implicit_models_start_from_the_rate_of_likes(backend: Backend) -> None:
    ratings = planted()
    model = gpu.fit(ratings, IMPLICIT, backend=backend)
    n_disliked = int(np.count_nonzero(ratings.by_user.values < model.middle))
    n_likes = len(ratings) - n_disliked
    assert min(n_disliked, n_likes) > 0
    assert model.mean == pytest.approx(math.log(n_likes / (IMPLICIT.n_negatives * n_likes + n_disliked)))


def of_two_tastes(n_users: int = 400, n_per_taste: int = 30, seed: int = 0) -> gpu.Ratings:
    """Everybody rates items of both halves at random, those of their own with 5 and of the other with 1."""
    generator = np.random.default_rng(seed)
    pairs = [(user, item) for user in range(n_users) for item in generator.permutation(2 * n_per_taste)[:20]]
    users, items = np.array(pairs).T
    values = np.where(users % 2 == items // n_per_taste, 5.0, 1.0)
    return gpu.Ratings.from_coo(users, items, values, (n_users, 2 * n_per_taste))


def test_what_the_likes_of_others_are_like_is_learned_from_dislikes(backend: Backend) -> None:
    train, test = split(of_two_tastes())
    params = CulshImplicitParams(n_factors=8, n_neighbors=8, n_epochs=15, n_bits=512)
    found = []
    for values in ("counts", "auto"):
        model = gpu.fit(train, dataclasses.replace(params, values=values), backend=backend)
        found.append(gpu.evaluate.ranking(model, train.by_user, test, relevant_from=3.0)["ndcg@10"])
        mates = model.neighbors // 30 == np.arange(60)[:, None] // 30
        assert mates.mean() > 0.9 if values == "auto" else mates.mean() < 0.7
    assert found[1] > 1.3 * found[0]


@pytest.mark.parametrize("items", [[3], [3, 5, 40]])
def test_a_disliked_item_takes_its_neighbors_down(items: list[int], backend: Backend) -> None:
    """In lists of a known user and of one who passes by, who are the same but for one rating."""
    ratings = of_two_tastes()
    params = CulshImplicitParams(n_factors=8, n_neighbors=8, n_epochs=15, n_bits=512, deterministic=True)
    model = gpu.fit(ratings, params, backend=backend)
    model.grow(ratings.n_users + 1, ratings.n_items)
    keys, user = np.arange(ratings.n_users + 1, dtype=np.uint64), np.array([ratings.n_users])
    ranks: list[int] = []
    anonymous: list[int] = []
    for value in (5.0, 1.0):
        table = RatingTable(ratings.n_users + 1, ratings.n_items)
        n, values = len(items), np.array([value, *[5.0] * (len(items) - 1)], np.float32)
        online = HostModel(copy.deepcopy(model), table, keys, np.arange(60, dtype=np.uint64))
        online.note(table.apply(np.repeat(user, n), np.array(items), values, np.zeros(n), np.arange(n)))
        online.settle()
        known, passing_by = topn.users_of(online.model, user), online.fold_in(np.array(items), values)
        for folded, to in ((known, ranks), (passing_by, anonymous)):
            order, _ = topn.recommend(online.index, folded, topn.rows_of(table.rows, user), 60)
            to.append(np.mean([order[0].tolist().index(x) for x in model.neighbors[items[0]] if x not in items]))
    assert ranks[1] > ranks[0] + 5
    assert anonymous[1] > anonymous[0] + 5


def test_negatives_are_drawn_anew_in_every_epoch(backend: Backend) -> None:
    blocks = ImplicitBlocks(planted(), IMPLICIT)
    first = blocks.samples(0).items.copy()
    assert (blocks.samples(1).items != first).mean() > 0.5
    np.testing.assert_array_equal(blocks.samples(0).items, first)


def test_a_user_who_has_rated_everything_has_no_negatives(backend: Backend) -> None:
    everything = gpu.Ratings.from_coo(np.zeros(3, int), np.arange(3), np.ones(3), (2, 3))
    samples = ImplicitBlocks(everything, IMPLICIT).samples(0)
    assert samples.cuts[0, -1] - samples.cuts[0, 0] == 3
    assert np.isfinite(gpu.fit(everything, IMPLICIT, backend=backend).item_factors).all()
