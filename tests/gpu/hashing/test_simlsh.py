"""simLSH against the oracle: exact sums, updates that undo each other, and neighbors by agreement."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gpu.data.baselines import Baselines, baselines
from gpu.data.ratings import Ratings
from gpu.descent.params import CulshImplicitParams, CulshParams
from gpu.hashing import simlsh
from gpu.hashing.fixed_point import PSI_LIMIT, PSI_STEPS, psi
from gpu.ranks.threads import run_threads
from tests import reference

N_USERS, N_ITEMS = 7, 6
PARAMS = CulshParams(n_bits=128, seed=5, psi="residual")
USER_KEYS = np.array([3, 2**63 + 11, 0, 17, 2**64 - 1, 255, 1 << 40], dtype=np.uint64)
ITEM_KEYS = np.arange(100, 100 + N_ITEMS, dtype=np.uint64)

entry = st.tuples(st.integers(0, N_USERS - 1), st.integers(0, N_ITEMS - 1), st.integers(1, 10))
entries = st.lists(entry, max_size=40)
few = settings(max_examples=60)


def ratings_of(triples: list[tuple[int, int, int]]) -> Ratings:
    users, items, values = np.array(triples, dtype=np.int64).reshape(-1, 3).T
    return Ratings.from_coo(users, items, values / 2, (N_USERS, N_ITEMS), USER_KEYS, ITEM_KEYS)


def no_baselines(mean: float = 0.0) -> Baselines:
    return Baselines(mean, np.zeros(N_USERS, np.float32), np.zeros(N_ITEMS, np.float32))


def unpacked(packed: np.ndarray) -> np.ndarray:
    """Bits in the order of the projections: bit b of half-word s is projection b·S + s."""
    halves = packed.view(np.uint32)
    return np.concatenate([(halves >> np.uint32(b)) & np.uint32(1) for b in range(32)], axis=1).astype(bool)


@few
@given(entries)
def test_sums_are_those_of_the_definition(triples: list[tuple[int, int, int]]) -> None:
    ratings, last = ratings_of(triples), {(u, i): r / 2 for u, i, r in triples}
    known = baselines(ratings)
    low, high = (min(last.values()), max(last.values())) if last else (0.0, 1.0)
    exact = []
    for (u, i), r in last.items():
        residual = (r - known.mean - float(known.user[u]) - float(known.item[i])) / (high - low or 1.0)
        exact.append((int(USER_KEYS[u]), i, int(np.rint(residual * PSI_STEPS))))
    expected = reference.projection_sums(exact, N_ITEMS, 128, PARAMS.seed)
    sums = simlsh.projections(ratings, known, PARAMS)
    np.testing.assert_array_equal(sums, expected)
    np.testing.assert_array_equal(unpacked(simlsh.signatures(sums)), expected >= 0)


@few
@given(entries, st.randoms(use_true_random=False))
def test_updates_in_any_order_equal_recomputing(triples: list[tuple[int, int, int]], random: object) -> None:
    weights = {(u, i): r for u, i, r in triples}
    shuffled = list(weights.items())
    random.shuffle(shuffled)  # type: ignore[attr-defined]
    sums = np.zeros((N_ITEMS, 128), dtype=np.int32)
    for at in range(0, len(shuffled), 3):
        add(sums, shuffled[at : at + 3])
    exact = [(int(USER_KEYS[u]), i, w) for (u, i), w in weights.items()]
    np.testing.assert_array_equal(sums, reference.projection_sums(exact, N_ITEMS, 128, PARAMS.seed))


def add(sums: np.ndarray, weighted: list[tuple[tuple[int, int], int]], sign: int = 1) -> None:
    users = np.array([u for (u, _), _ in weighted], dtype=np.int64)
    items = np.array([i for (_, i), _ in weighted], dtype=np.int64)
    weights = np.array([sign * w for _, w in weighted], dtype=np.int32)
    simlsh.update(sums, items, USER_KEYS[users], weights, PARAMS.seed)


@few
@given(entries, entries)
def test_training_then_learning_equals_training_on_all(
    before: list[tuple[int, int, int]], after: list[tuple[int, int, int]]
) -> None:
    scale, zero = (0.5, 5.0), np.zeros(1, np.float32)
    old, new = {(u, i): r / 2 for u, i, r in before}, {(u, i): r / 2 for u, i, r in after}

    def weight(value: float | None) -> int:
        if value is None:
            return 0
        return int(psi(PARAMS, scale, 0.0, np.array([value], np.float32), 3.0, zero, zero)[0])

    sums = np.zeros((N_ITEMS, 128), dtype=np.int32)
    add(sums, [(pair, weight(r)) for pair, r in old.items()])
    add(sums, [(pair, weight(r) - weight(old.get(pair))) for pair, r in new.items()])
    add(sums, [(pair, weight(r)) for pair, r in new.items()], sign=-1)
    kept = [(int(USER_KEYS[u]), i, weight(r)) for (u, i), r in old.items() if (u, i) not in new]
    np.testing.assert_array_equal(sums, reference.projection_sums(kept, N_ITEMS, 128, PARAMS.seed))


def test_psi_is_in_units_of_the_scale_and_saturates() -> None:
    zero = np.zeros(4, np.float32)
    values = np.array([1, 3, 5, 1e6], np.float32)
    residual = psi(PARAMS, (1.0, 5.0), 0.0, values, 3.0, zero, zero)
    power = psi(CulshParams(psi="power"), (1.0, 5.0), 0.0, values, 3.0, zero, zero)
    implicit = psi(CulshImplicitParams(), (0.0, 1.0), 0.0, values, 3.0, zero, zero)
    assert residual.tolist() == [-32, 0, 32, PSI_LIMIT]
    assert power.tolist() == [3, 23, 64, PSI_LIMIT]
    linear = psi(CulshParams(psi="linear"), (1.0, 5.0), 0.0, values, 3.0, zero, zero)
    fourth = psi(CulshParams(psi="fourth"), (1.0, 5.0), 0.0, values, 3.0, zero, zero)
    assert linear.tolist() == [13, 38, 64, PSI_LIMIT]
    assert fourth.tolist() == [0, 8, 64, PSI_LIMIT]
    shifted = psi(CulshParams(psi="power"), (-10.0, 10.0), -15.0, 5 * (values - 3), 3.0, zero, zero)
    assert shifted.tolist() == power.tolist()
    assert implicit.tolist() == [1, 1, 1, 1]
    signs = psi(CulshImplicitParams(), (0.0, 1.0), 0.0, values, 3.0, zero, zero, 3.0)
    assert signs.tolist() == [-1, 1, 1, 1]


def test_one_value_only_gives_a_scale_without_width() -> None:
    ratings = ratings_of([(0, 0, 6), (1, 0, 6), (1, 2, 6)])
    assert not simlsh.projections(ratings, baselines(ratings), PARAMS).any()


def test_bits_are_rounded_up_to_whole_words() -> None:
    ratings = ratings_of([(0, 0, 6), (1, 0, 2)])
    assert simlsh.projections(ratings, no_baselines(), CulshParams(n_bits=65)).shape == (N_ITEMS, 128)


def test_hashes_of_users_are_balanced_and_uncorrelated() -> None:
    n_users, n_bits = 400, 1024
    keys = np.arange(n_users, dtype=np.uint64)
    ones = np.ones(n_users, dtype=np.int32)
    signs = np.zeros((n_users, n_bits), dtype=np.int32)
    simlsh.update(signs, np.arange(n_users), keys, ones, 0)
    assert set(np.unique(signs)) == {-1, 1}
    products = (signs @ signs.T)[np.triu_indices(n_users, 1)] / np.sqrt(n_bits)
    assert abs(products.mean()) < 0.02
    assert abs(products.std() - 1) < 0.02
    assert np.abs(signs.sum(axis=0)).max() / np.sqrt(n_users) < 5


@few
@given(st.integers(0, 2**32), st.integers(1, 8), st.lists(st.integers(0, 2), min_size=N_ITEMS, max_size=N_ITEMS))
def test_neighbors_are_the_most_agreeing_with_ties_to_the_lower_row(seed: int, k: int, counts: list[int]) -> None:
    rng = np.random.default_rng(seed)
    packed = rng.integers(0, 4, (N_ITEMS, 2), dtype=np.uint64)  # few bits vary: many ties
    counts_of = np.array(counts)
    ranking = simlsh.top_k(packed, counts_of, k, 0, ITEM_KEYS)
    for item in range(N_ITEMS):
        expected = reference.most_agreeing(unpacked(packed), counts_of, item, k)
        assert ranking.neighbors[item].tolist() == expected + [-1] * (k - len(expected))
    assert ranking.filled == 0.0
    queries = rng.integers(0, N_ITEMS, 4)
    some = simlsh.top_k(packed, counts_of, k, 0, ITEM_KEYS, queries=queries)
    np.testing.assert_array_equal(some.neighbors, ranking.neighbors[queries])


def test_no_items_and_no_neighbors_are_empty_lists() -> None:
    nothing = np.zeros((0, 2), np.uint64)
    assert simlsh.top_k(nothing, np.zeros(0, np.int64), 3, 0, np.zeros(0, np.uint64)).neighbors.shape == (0, 3)
    assert simlsh.top_k(np.ones((4, 2), np.uint64), np.ones(4, np.int64), 0, 0, ITEM_KEYS).neighbors.shape == (4, 0)


def planted(n_groups: int, per_group: int, flipped: float, seed: int = 0) -> np.ndarray:
    """Signatures of items in groups that share a pattern, each bit flipped with probability `flipped`; (I, 8)."""
    rng = np.random.default_rng(seed)
    patterns = np.repeat(rng.random((n_groups, 512)) < 0.5, per_group, axis=0)
    bits = patterns ^ (rng.random(patterns.shape) < flipped)
    return np.packbits(bits, axis=1).view(np.uint64)


def in_buckets(monkeypatch: pytest.MonkeyPatch, packed: np.ndarray, k: int) -> simlsh.Ranking:
    monkeypatch.setattr(simlsh, "ALL_PAIRS_LIMIT", 0)
    counts = np.ones(len(packed), dtype=np.int64)
    return simlsh.top_k(packed, counts, k, 0, np.arange(len(packed), dtype=np.uint64))


def test_buckets_find_what_all_pairs_find(monkeypatch: pytest.MonkeyPatch) -> None:
    packed = planted(n_groups=400, per_group=12, flipped=0.12)
    everything = np.arange(len(packed))
    exact = simlsh.top_k(packed, np.ones(len(packed), np.int64), 11, 0, everything.astype(np.uint64))
    found = in_buckets(monkeypatch, packed, 11)
    assert np.mean(exact.neighbors // 12 == (everything // 12)[:, None]) > 0.999
    recall = np.mean([np.isin(a, b).mean() for a, b in zip(exact.neighbors, found.neighbors, strict=True)])
    assert recall > 0.98
    assert not np.any(found.neighbors == everything[:, None])
    again = in_buckets(monkeypatch, packed, 11)
    np.testing.assert_array_equal(found.neighbors, again.neighbors)


@pytest.mark.parametrize("size", [2, 3])
def test_ranks_that_divide_the_tables_find_what_one_finds(size: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Some items have no ratings, and most pairs are met in several tables."""
    monkeypatch.setattr(simlsh, "ALL_PAIRS_LIMIT", 0)
    packed = planted(60, 12, flipped=0.1)
    counts = np.random.default_rng(1).integers(0, 5, len(packed))
    given = packed, counts, 9, 3, np.arange(len(packed), dtype=np.uint64)
    expected = simlsh.top_k(*given)
    assert (expected.neighbors[counts > 0] >= 0).all()
    for found in run_threads(size, lambda ring: simlsh.top_k(*given, exchange=ring)):
        np.testing.assert_array_equal(found.neighbors, expected.neighbors)
        assert found.filled == expected.filled


def test_a_bucket_of_equal_signatures_costs_no_more_and_stays_deterministic(monkeypatch: pytest.MonkeyPatch) -> None:
    packed = np.zeros((5000, 8), dtype=np.uint64)
    found = in_buckets(monkeypatch, packed, 4).neighbors
    assert found.min() >= 0
    assert all(len(set(row)) == 4 for row in found.tolist())


def test_what_no_bucket_holds_is_filled_at_random_by_item_key(monkeypatch: pytest.MonkeyPatch) -> None:
    packed = np.random.default_rng(1).integers(0, 2**63, (40, 1), dtype=np.uint64)
    monkeypatch.setattr(simlsh, "BUCKET_SIZE", 0.001)  # keys so wide that hardly any two items share one
    found = in_buckets(monkeypatch, packed, 5)
    assert found.filled > 0.5
    assert found.neighbors.min() >= 0
    assert all(len(set(row)) == 5 and j not in row for j, row in enumerate(found.neighbors.tolist()))
    few_items = in_buckets(monkeypatch, packed[:3], 5).neighbors
    assert sorted(few_items[0].tolist()) == [-1, -1, -1, 1, 2]


@few
@given(st.integers(0, 2**32), st.integers(1, 6))
def test_lists_that_are_not_outdated_are_still_exact(seed: int, k: int) -> None:
    rng = np.random.default_rng(seed)
    packed, counts = rng.integers(0, 16, (12, 1), dtype=np.uint64), rng.integers(0, 2, 12)
    keys, owners = np.arange(12, dtype=np.uint64), np.arange(12)
    before = simlsh.top_k(packed, counts, k, 0, keys).neighbors
    changed = rng.choice(12, 3, replace=False)
    packed[changed], counts[changed] = rng.integers(0, 16, (3, 1), dtype=np.uint64), rng.integers(0, 2, 3)
    stale = simlsh.outdated(before, owners, changed, packed, counts)
    after = simlsh.top_k(packed, counts, k, 0, keys).neighbors
    np.testing.assert_array_equal(before[~stale], after[~stale])
    assert stale[changed].all()


def test_a_far_away_change_outdates_no_other_list() -> None:
    packed = planted(n_groups=3, per_group=4, flipped=0.05)
    counts, keys = np.ones(12, np.int64), np.arange(12, dtype=np.uint64)
    lists = simlsh.top_k(packed, counts, 3, 0, keys).neighbors
    packed[0] ^= np.uint64(1)
    stale = simlsh.outdated(lists, np.arange(12), np.array([0]), packed, counts)
    assert stale[:4].all()
    assert not stale[4:].any()
