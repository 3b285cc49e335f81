"""Lists in which items come back, beside a sort of all scores."""

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gpu.als.params import AlsImplicitParams
from gpu.base.backend import Backend
from gpu.data.signals import Repeat
from gpu.descent.params import CulshImplicitParams
from gpu.ease.params import EaseParams
from gpu.ranking import topn
from gpu.ranking.eligible import Eligible
from gpu.ranking.item_index import ItemIndex
from gpu.repeat.own import Own, parts_of, recommend
from tests.gpu.models import random_matrix, random_model, random_params, table_of

N_USERS, N_ITEMS = 6, 300


@pytest.mark.parametrize("kind", [AlsImplicitParams, CulshImplicitParams, EaseParams])
@given(data=st.data())
@settings(max_examples=15, deadline=None)
def test_lists_are_those_of_a_sort_of_all_items(kind: Any, data: st.DataObject, backend: Backend) -> None:
    rng = np.random.default_rng(data.draw(st.integers(0, 1000)))
    model, table = random_model(random_params(kind), N_USERS, N_ITEMS), table_of(random_matrix(N_USERS, N_ITEMS, 0.2))
    index, hidden = ItemIndex(model, backend), rng.random(N_ITEMS) < 0.1
    index.hide(hidden)
    users = rng.integers(0, N_USERS, 4)
    rows, of_users = topn.rows_of(table.rows, users), topn.users_of(model, users)
    n, offset = data.draw(st.integers(1, 40)), data.draw(st.sampled_from([0, 3, 290]))
    exclude = [rng.integers(0, N_ITEMS, 20) for _ in users]
    candidates = [None if rng.random() < 0.5 else rng.integers(0, N_ITEMS, 150) for _ in users]
    eligible = [None if rng.random() < 0.5 else Eligible.of(rng.random(N_ITEMS) < 0.5) for _ in users]
    own, exact, allowed = list[Own](), topn.scores(model, of_users, rows, np.tile(np.arange(N_ITEMS), (4, 1))), []
    for b, user in enumerate(users.tolist()):
        had = table.row(user)[0]
        come = had[(rng.random(len(had)) < 0.8) & ~hidden[had]]
        own.append(Own(come, rng.uniform(0, 5, len(come))))
        exact[b, come] += own[b].added
        may = ~hidden
        may[had] = False
        may[come] = True
        may[exclude[b]] = False
        passing = eligible[b]
        for some in (candidates[b], None if passing is None else passing.among(np.arange(N_ITEMS))):
            if some is not None:
                may &= np.isin(np.arange(N_ITEMS), some)
        allowed.append(may)
    items, scores = recommend(
        index, of_users, rows, own, n, offset=offset, exclude=exclude, candidates=candidates, eligible=eligible
    )
    assert items.shape == scores.shape == (4, n)
    for b in range(4):
        best = np.sort(exact[b][allowed[b]])[::-1][offset : offset + n]
        found = items[b][items[b] >= 0]
        assert len(found) == len(best) == len(set(found.tolist()))
        assert allowed[b][found].all()
        np.testing.assert_allclose(scores[b, : len(best)], best, rtol=1e-4, atol=1e-4)
        np.testing.assert_allclose(exact[b][found], best, rtol=1e-4, atol=1e-4)
        assert (scores[b, len(best) :] == -np.inf).all()


def test_long_lists_are_read_in_pages() -> None:
    model, table = random_model(random_params(AlsImplicitParams), 2, 2500), table_of(random_matrix(2, 2500, 0.01))
    index, users = ItemIndex(model), np.array([0])
    rows, of_users = topn.rows_of(table.rows, users), topn.users_of(model, users)
    own = [Own(table.row(0)[0], np.ones(len(table.row(0)[0])))]
    whole = np.concatenate([recommend(index, of_users, rows, own, 1000, offset=n)[0][0] for n in (0, 1000, 2000)])
    assert sorted(whole[whole >= 0].tolist()) == list(range(2500))


def test_a_part_grows_with_the_count_and_halves_with_age() -> None:
    day, values = 86_400.0, np.array([1, 3, 3, 0, -2], dtype=np.float32)
    seconds = np.array([100, 100, 100 - 7, 100, 100]) * day
    np.testing.assert_allclose(parts_of(Repeat(2.0), values, seconds), 2 * np.log([2, 4, 4, 1, 1]))
    np.testing.assert_allclose(parts_of(Repeat(2.0, 7.0), values, seconds), 2 * np.log([2, 4, 2, 1, 1]))
    earlier = parts_of(Repeat(2.0, 7.0), values, seconds - 1000 * day)  # only ages among each other count
    np.testing.assert_array_equal(earlier, parts_of(Repeat(2.0, 7.0), values, seconds))
