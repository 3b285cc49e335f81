from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpu.data.rating_table import RatingTable
from service.engine.lists.common_lists import Popularity
from service.engine.lists.top_items import TopItems

N_ITEMS = 5
changes = st.lists(
    st.tuples(st.integers(0, 3), st.integers(0, N_ITEMS - 1), st.sampled_from([np.nan, -2.0, 1.0, 4.5])), max_size=40
)


def best(top: TopItems, *arguments: Any, **options: Any) -> tuple[list[int], list[float]]:
    rows, scores = top.best(*arguments, **options)
    return rows.tolist(), scores.tolist()


def applied(popularity: Popularity, table: RatingTable, batch: list[tuple[int, int, float]], first: int) -> None:
    users, items, values = (np.array([change[n] for change in batch]) for n in range(3))
    new = values.astype(np.float32)
    positions = np.arange(first, first + len(batch))
    changes = table.apply(users.astype(np.int32), items.astype(np.int32), new, positions.astype(np.float64), positions)
    popularity.note(changes.items, changes.old, changes.new, N_ITEMS)


@given(changes, st.integers(0, 40))
def test_changes_and_a_recount_agree(batch: list[tuple[int, int, float]], cut: int) -> None:
    noted, counted, table = Popularity(), Popularity(), RatingTable(4, N_ITEMS)
    applied(noted, table, batch[:cut], 0)
    applied(noted, table, batch[cut:], cut)
    for items, new, _ in table.portions():
        counted.note(items, np.full_like(new, np.nan), new, N_ITEMS)
    everything = np.ones(N_ITEMS, dtype=np.bool_)
    assert best(noted, 9, 0, everything) == best(counted, 9, 0, everything)


def test_counts_decide_and_the_shrunk_mean_breaks_ties() -> None:
    popularity, table = Popularity(), RatingTable(4, N_ITEMS)
    applied(popularity, table, [(0, 0, 1.0), (1, 0, 1.0), (0, 1, 5.0), (0, 2, 1.0), (0, 3, 5.0)], 0)
    rows, scores = best(popularity, 10, 0, np.ones(N_ITEMS, dtype=np.bool_))
    assert rows == [0, 1, 3, 2]
    assert [int(score) for score in scores] == [2, 1, 1, 1]
    assert best(popularity, 2, 1, np.array([True, True, False, True, True]))[0] == [1, 3]


def test_dislikes_do_not_count_and_their_end_is_no_loss() -> None:
    popularity, table = Popularity(), RatingTable(4, N_ITEMS)
    everything = np.ones(N_ITEMS, dtype=np.bool_)
    applied(popularity, table, [(0, 0, -2.0), (1, 0, -2.0), (2, 0, -2.0), (0, 1, 1.0), (1, 2, -2.0)], 0)
    assert best(popularity, 9, 0, everything)[0] == [1]
    applied(popularity, table, [(0, 0, np.nan), (1, 0, 4.5), (0, 1, -2.0), (1, 2, 0.0)], 5)
    rows, scores = best(popularity, 9, 0, everything)
    assert (rows, [int(score) for score in scores]) == ([0, 2], [1, 1])


@pytest.mark.parametrize("least", [0, 1, 3, 8, 9, 10**30])
def test_items_with_fewer_ratings_are_left_out(monkeypatch: pytest.MonkeyPatch, least: int) -> None:
    monkeypatch.setattr("service.engine.lists.top_items.MIN_TOP", 2)
    monkeypatch.setattr("service.engine.lists.top_items.MAX_TOP", 3)
    popularity = Popularity()
    counts = [3, 8, 1, 0, 8, 2, 3, 5]
    items = np.repeat(np.arange(8), counts)
    popularity.note(items, np.full(len(items), np.nan, np.float32), np.ones(len(items), np.float32), 8)
    everything = np.ones(8, dtype=np.bool_)
    order = [row for row in (1, 4, 7, 0, 6, 5, 2) if counts[row] >= least]
    for n in (1, 3, 9):
        assert best(popularity, n, 0, everything, least=least)[0] == order[:n]
        assert best(popularity, n, 2, everything, least=least)[0] == order[2 : 2 + n]
    assert best(popularity, 9, 0, everything, np.array([6, 2, 7]), least)[0] == [
        row for row in order if row in (2, 6, 7)
    ]


@pytest.mark.parametrize("most_changes", [2, 3, 1 << 16])
def test_the_top_is_that_of_a_full_sort_while_counts_rise_and_fall(
    monkeypatch: pytest.MonkeyPatch, most_changes: int
) -> None:
    monkeypatch.setattr("service.engine.lists.top_items.MIN_TOP", 8)
    monkeypatch.setattr("service.engine.lists.top_items.MAX_TOP", 10)
    monkeypatch.setattr("service.engine.lists.top_items.MAX_CHANGES", most_changes)
    rng, n_items = np.random.default_rng(0), 60
    kept, values = Popularity(), np.full((50, n_items), np.nan, dtype=np.float32)
    shown = np.arange(n_items) % 7 > 0
    for step in range(200):
        users, items = rng.integers(0, 50, 3), rng.choice(n_items, 3, replace=False)
        new = np.where(rng.random(3) < 0.4, np.nan, rng.integers(1, 4, 3)).astype(np.float32)
        kept.note(items, values[users, items], new, n_items)
        values[users, items] = new
        counts, sums = np.count_nonzero(~np.isnan(values), axis=0), np.nansum(values, axis=0)
        order = np.lexsort((np.arange(n_items), -sums, -counts))
        expected = order[shown[order] & (counts[order] > 0)]
        n, offset = 1 + step % 9, step % 5
        rows, scores = best(kept, n, offset, shown)
        assert rows == expected[offset : offset + n].tolist()
        assert scores == sorted(scores, reverse=True)
        assert np.floor(scores).tolist() == counts[rows].tolist()
        candidates = rng.integers(0, n_items, 12)  # some of them twice
        among = expected[np.isin(expected, candidates)]
        assert best(kept, n, offset, shown, candidates)[0] == among[offset : offset + n].tolist()


def test_a_deep_page_does_not_make_later_ones_dear() -> None:
    popularity, n_items = Popularity(), 20_000
    items = np.repeat(np.arange(n_items), 2)
    popularity.note(items, np.full(len(items), np.nan, np.float32), np.ones(len(items), np.float32), n_items)
    shown = np.ones(n_items, dtype=np.bool_)
    assert best(popularity, 5, 15_000, shown)[0] == list(range(15_000, 15_005))
    assert popularity._top is not None and len(popularity._top) == 4096
    assert best(popularity, 3, 4095, shown)[0] == [4095, 4096, 4097]


def test_lists_without_any_rating() -> None:
    assert best(Popularity(), 10, 0, np.zeros(0, dtype=np.bool_)) == ([], [])
    assert best(Popularity(), 10, 0, np.ones(3, dtype=np.bool_), np.array([2])) == ([], [])  # come without a rating
