"""Parts of a catalog: each row belongs to one, for ever, and the lists of all parts make those of the whole."""

import numpy as np
import pytest

from gpu.als.params import AlsParams
from gpu.data.ratings import Rows
from gpu.ranking import topn
from gpu.ranking.item_index import ItemIndex
from gpu.ranking.partition import TILE, Part, merged
from tests.gpu.models import random_model, random_params

SIZES = [0, 1, 31, 32, 33, 64, 95, 97, 1000, 4096 + 5]


@pytest.mark.parametrize("n_rows", SIZES)
@pytest.mark.parametrize("count", [1, 2, 3, 8])
def test_each_row_belongs_to_one_part_in_the_order_of_rows(count, n_rows):
    rows, owners = np.arange(n_rows), np.zeros(n_rows, dtype=int)
    parts = [Part(number, count) for number in range(count)]
    for part in parts:
        own = rows[part.holds(rows)]
        owners[own] += 1
        assert part.length(n_rows) == len(own)
        np.testing.assert_array_equal(part.positions(own), np.arange(len(own)))
        np.testing.assert_array_equal(part.rows(np.arange(len(own))), own)
        np.testing.assert_array_equal(own // TILE % count, part.number)  # whole tiles: words of filters
    assert (owners == 1).all()
    lengths = [part.length(n_rows) for part in parts]
    assert max(lengths) - min(lengths) <= TILE


def in_order(rows: np.ndarray, scores: np.ndarray, n: int) -> tuple[np.ndarray, np.ndarray]:
    """The `n` best of one user by a sort of all, padded."""
    order = np.lexsort((rows, -scores))[:n]
    missing = n - len(order)
    return np.pad(rows[order], (0, missing), constant_values=-1), np.pad(
        scores[order], (0, missing), constant_values=-np.inf
    )


@pytest.mark.parametrize("count", [1, 2, 5])
@pytest.mark.parametrize("n", [1, 4, 200])
@pytest.mark.parametrize("kind", ["distinct", "few values", "extreme", "none"])
def test_lists_of_parts_make_the_list_of_all(kind, n, count):
    rng = np.random.default_rng(n + count)
    size = {"none": 0}.get(kind, 300)
    rows = rng.permutation(10**6)[:size].astype(np.int32)
    scores = rng.standard_normal((7, size)).astype(np.float32)
    if kind == "few values":
        scores = np.abs(np.round(scores))  # many ties, and no −0
    if kind == "extreme":
        rows[:3] = 0, 2**31 - 1, 2**31 - 2
        scores[:, :6] = np.finfo(np.float32).max, -np.finfo(np.float32).max, 1e-45, -1e-45, np.inf, 0
    owners = rng.integers(0, count, size)
    lists = [[in_order(rows[owners == part], own[owners == part], n) for own in scores] for part in range(count)]
    found = merged([(np.array([r for r, _ in one]), np.array([s for _, s in one])) for one in lists])
    expected = [in_order(rows, own, n) for own in scores]
    assert found[0].dtype == np.int32
    assert found[1].dtype == np.float32
    np.testing.assert_array_equal(found[0], [r for r, _ in expected])
    np.testing.assert_array_equal(found[1], [s for _, s in expected])


@pytest.mark.parametrize("count", [2, 3])
def test_lists_of_a_model_by_parts_have_the_bits_of_one_list(count):
    model = random_model(random_params(AlsParams, 8), 6, 700)
    index, every, users = ItemIndex(model), np.arange(700), np.arange(6)
    nothing = Rows(np.zeros(6, np.int64), np.zeros(6, np.int64), np.zeros(0, np.int32), np.zeros(0, np.float32))
    asked = index, topn.users_of(model, users), nothing, 20
    parts = [every[Part(number, count).holds(every)] for number in range(count)]
    found = merged([topn.recommend(*asked, candidates=[own] * 6) for own in parts])
    for one, other in zip(found, topn.recommend(*asked), strict=True):
        np.testing.assert_array_equal(one, other)
