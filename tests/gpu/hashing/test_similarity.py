"""Neighbors by simLSH and its comparators: planted groups are found, definitions are met."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gpu.data.baselines import baselines
from gpu.data.ratings import Ratings
from gpu.descent.params import CulshParams
from gpu.hashing import host_similarity as host
from gpu.hashing import similarity, simlsh
from gpu.hashing.params import Psi, Similarity
from gpu.ranks.threads import run_threads
from tests import reference
from tests.gpu.als.test_ranks import ratings_of

GROUPS, PER_GROUP, N_USERS = 6, 8, 300
ALL: tuple[Similarity, ...] = ("simlsh", "keys", "gsm", "minhash", "rp_cos", "random")

matrices = st.lists(st.lists(st.sampled_from([None, None, 1, 2, 3, 4, 5]), min_size=5, max_size=5), max_size=12)


def of_matrix(rows: list[list[int | None]]) -> tuple[Ratings, np.ndarray]:
    matrix = np.array([[np.nan if v is None else v for v in row] for row in rows], dtype=np.float64).reshape(-1, 5)
    users, items = np.nonzero(~np.isnan(matrix))
    return Ratings.from_coo(users, items, matrix[users, items], (len(rows), 5)), matrix


@pytest.fixture(scope="module")
def grouped() -> Ratings:
    """Each user likes some groups of items and dislikes the others, and rates half of each group that they know."""
    rng = np.random.default_rng(0)
    item_group = np.repeat(np.arange(GROUPS), PER_GROUP)
    likes = np.where(rng.random((N_USERS, GROUPS)) < 0.5, 4.5, 1.5)
    rated = np.repeat(rng.random((N_USERS, GROUPS)) < 0.6, PER_GROUP, axis=1)
    rated &= rng.random((N_USERS, GROUPS * PER_GROUP)) < 0.7
    users, items = np.nonzero(rated)
    values = likes[users, item_group[items]] + rng.normal(0, 0.4, len(users))
    return Ratings.from_coo(users, items, values, (N_USERS, GROUPS * PER_GROUP))


@pytest.mark.parametrize("name", ["simlsh", "keys", "gsm", "minhash", "rp_cos"])
def test_planted_groups_are_found(grouped: Ratings, name: Similarity) -> None:
    params = CulshParams(similarity=name, n_neighbors=PER_GROUP - 1, key_bits=8)
    found = similarity.neighbors(grouped, params).neighbors
    own = np.arange(GROUPS * PER_GROUP) // PER_GROUP
    assert np.mean(found // PER_GROUP == own[:, None]) > 0.95


@pytest.mark.parametrize(("key_bits", "n_bits", "k"), [(3, 200, 6), (8, 256, 4), (64, 640, 5)])
def test_neighbors_by_keys_share_most_of_them(grouped: Ratings, key_bits: int, n_bits: int, k: int) -> None:
    """Beside a count of equal keys, bit by bit; what no key finds is filled at random, and its share is told."""
    params = CulshParams(similarity="keys", n_neighbors=k, key_bits=key_bits, n_bits=n_bits)
    found = similarity.neighbors(grouped, params)
    packed = simlsh.signatures(simlsh.projections(grouped, None, params))
    bits = np.array(
        [[packed[j, h // 64] >> np.uint64(h % 64) & np.uint64(1) for h in range(n_bits)] for j in range(48)]
    )
    keys = bits[:, : n_bits // key_bits * key_bits].reshape(48, -1, key_bits)
    shared = (keys[:, None] == keys[None, :]).all(axis=3).sum(axis=2)
    np.fill_diagonal(shared, 0)
    n_filled = 0
    for j, own in enumerate(found.neighbors.tolist()):
        expected = [other for other in np.argsort(-shared[j], kind="stable").tolist() if shared[j, other]][:k]
        assert own[: len(expected)] == expected
        assert len(set(own)) == k
        n_filled += k - len(expected)
    assert found.filled == pytest.approx(n_filled / (48 * k))
    assert found.projections.shape == (48, 0)


def test_items_without_ratings_have_no_keys() -> None:
    ratings = Ratings.from_coo(np.arange(6), np.arange(6) % 2, np.ones(6), (6, 4))
    found = similarity.neighbors(ratings, CulshParams(similarity="keys", n_neighbors=3, key_bits=2, n_bits=64))
    assert found.neighbors[:2, 0].tolist() == [1, 0]
    assert (found.neighbors[2:] == -1).all()
    assert (found.neighbors[:2, 1:] == -1).all()


@pytest.mark.parametrize("psi", ["residual", "linear", "power", "fourth"])
def test_signatures_agree_with_the_exact_matrix(grouped: Ratings, psi: Psi) -> None:
    exact = similarity.neighbors(grouped, CulshParams(similarity="gsm", n_neighbors=7)).neighbors
    hashed = similarity.neighbors(grouped, CulshParams(psi=psi, n_neighbors=7)).neighbors
    chance = similarity.neighbors(grouped, CulshParams(similarity="random", n_neighbors=7)).neighbors
    assert overlap(exact, hashed) > 0.9 > 0.3 > overlap(exact, chance)


def overlap(one: np.ndarray, other: np.ndarray) -> float:
    return float(np.mean([np.isin(a, b).mean() for a, b in zip(one, other, strict=True)]))


@pytest.mark.parametrize("name", ALL)
def test_every_list_is_distinct_items_with_ratings(name: Similarity) -> None:
    users, items = np.array([0, 0, 1, 1, 2, 2, 2]), np.array([0, 1, 0, 3, 1, 3, 5])
    values = np.array([1, 5, 2, 4, 3, 3, 5])
    ratings = Ratings.from_coo(users, items, values, (4, 7))
    found = similarity.neighbors(ratings, CulshParams(similarity=name, n_neighbors=6, n_bits=64))
    rated = {0, 1, 3, 5}
    for item, row in enumerate(found.neighbors.tolist()):
        wanted = rated - {item} if item in rated else set()
        assert set(row[: len(wanted)]) == wanted
        assert row[len(wanted) :] == [-1] * (6 - len(wanted))
    again = similarity.neighbors(ratings, CulshParams(similarity=name, n_neighbors=6, n_bits=64))
    np.testing.assert_array_equal(found.neighbors, again.neighbors)
    assert 0.0 <= found.filled <= 1.0


def test_only_simlsh_saves_projections(grouped: Ratings) -> None:
    hashed = similarity.neighbors(grouped, CulshParams(n_bits=256))
    expected = simlsh.projections(grouped, baselines(grouped), CulshParams(n_bits=256))
    np.testing.assert_array_equal(hashed.projections, expected)
    assert similarity.neighbors(grouped, CulshParams(similarity="rp_cos")).projections.shape == (48, 0)
    assert similarity.neighbors(grouped, CulshParams(n_neighbors=0)).neighbors.shape == (48, 0)


def test_random_neighbors_follow_the_item_key_not_the_row(grouped: Ratings) -> None:
    params = CulshParams(similarity="random", n_neighbors=4)
    found = similarity.neighbors(grouped, params)
    other = similarity.neighbors(grouped, CulshParams(similarity="random", n_neighbors=4, seed=1))
    assert found.filled == 1.0
    assert overlap(found.neighbors, other.neighbors) < 0.3
    users, items, values = grouped.coo()
    keys = grouped.item_keys.copy()
    keys[[3, 40]] = 1000, 3
    moved = similarity.neighbors(Ratings.from_coo(users, items, values, item_keys=keys), params)
    np.testing.assert_array_equal(moved.neighbors[40], found.neighbors[3])


@settings(max_examples=60)
@given(matrices, st.integers(1, 6))
def test_gsm_is_shrunk_pearson_on_common_raters(rows: list[list[int | None]], k: int) -> None:
    ratings, matrix = of_matrix(rows)
    found = similarity.neighbors(ratings, CulshParams(similarity="gsm", n_neighbors=k)).neighbors
    for item in range(5):
        exact = [reference.shrunk_pearson(matrix, item, j, similarity.GSM_SHRINKAGE) for j in range(5)]
        exact[item] = 0.0
        wanted = sorted((s for s in exact if s > 1e-9), reverse=True)[:k]
        chosen = [exact[j] for j in found[item][: len(wanted)]]
        np.testing.assert_allclose(chosen, wanted, atol=1e-9)  # equal similarities may come in any order


@settings(max_examples=30)
@given(matrices)
def test_minhash_keeps_the_lowest_bit_of_the_smallest_hash(rows: list[list[int | None]]) -> None:
    ratings, matrix = of_matrix(rows)
    packed = host.minhash(ratings, 1, 9)
    for item in np.flatnonzero(ratings.by_item.lengths):
        raters = np.flatnonzero(~np.isnan(matrix[:, item])).tolist()
        bits = np.unpackbits(packed[item].view(np.uint8), bitorder="little").astype(bool)
        np.testing.assert_array_equal(bits, reference.one_bit_minhash(raters, 64, 9))


@pytest.mark.parametrize("size", [2, 3, 50])
@pytest.mark.parametrize("method", ALL)
def test_ranks_find_the_neighbors_of_one(size: int, method: Similarity) -> None:
    ratings = ratings_of()
    params = CulshParams(n_neighbors=50, n_bits=64, similarity=method)
    expected = similarity.find(ratings, params)
    for found in run_threads(size, lambda ring: similarity.find(ratings, params, exchange=ring)):
        np.testing.assert_array_equal(found.neighbors, expected.neighbors)
        assert found.filled == pytest.approx(expected.filled)
        assert (found.projections is None) == (expected.projections is None)
        if expected.projections is not None:
            np.testing.assert_array_equal(found.projections, expected.projections)


def test_ranks_take_residuals_from_the_baselines_of_their_items() -> None:
    ratings, params = ratings_of(), CulshParams(n_neighbors=4, n_bits=64, psi="residual")
    expected = similarity.find(ratings, params)
    for found in run_threads(3, lambda ring: similarity.find(ratings, params, exchange=ring)):
        np.testing.assert_array_equal(found.projections, expected.projections)


@pytest.mark.parametrize("size", [2, 3, 50])
@pytest.mark.parametrize("k", [0, 1, 4])
def test_neighbors_from_buckets_are_those_of_one_rank(size: int, k: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(simlsh, "ALL_PAIRS_LIMIT", 5)
    ratings, params = ratings_of(), CulshParams(n_neighbors=k, n_bits=64)
    expected = similarity.find(ratings, params)
    for found in run_threads(size, lambda ring: similarity.find(ratings, params, exchange=ring)):
        np.testing.assert_array_equal(found.neighbors, expected.neighbors)
        assert found.filled == expected.filled
