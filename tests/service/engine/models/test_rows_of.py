"""The rows of a history that the users and items of a snapshot have."""

from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from gpu.data.host_ids import IdColumn
from service.engine.models import live_model
from service.engine.models.live_model import rows_of
from service.engine.rebuilt import _done
from service.engine.state.history import History
from service.storage.events import Entry, RatingEvent, StreamId

IDS = ["ann", "bob", "é", "日本", "ﬁ", "a" * 200, "zoë"]
WATERMARK = 50


def told(history: History, ms: int, users: Sequence[str]) -> None:
    history.apply([Entry(StreamId(ms, 0), "rating", [RatingEvent(user, f"of {user}", 1.0, 0.0) for user in users])])


def snapshot_of(users: Sequence[str], items: Sequence[str]) -> Any:
    return SimpleNamespace(user_ids=users, item_ids=items, manifest=SimpleNamespace(watermark=f"{WATERMARK}-0"))


def rows(history: History, users: Sequence[str], items: Sequence[str] = ()) -> tuple[list[int], list[int]]:
    found = _done(rows_of(snapshot_of(users, items), history))
    return found[0].tolist(), found[1].tolist()


@settings(max_examples=100, deadline=None)
@given(
    known=st.lists(st.sampled_from(IDS), unique=True, min_size=1),
    of_model=st.lists(st.sampled_from(IDS), unique=True),
    gone=st.lists(st.sampled_from(IDS), unique=True, max_size=2),
    come_back=st.booleans(),
    a_slice=st.integers(1, 4),
)
def test_every_id_gets_the_row_that_it_has(
    known: list[str], of_model: list[str], gone: list[str], come_back: bool, a_slice: int
) -> None:
    history = History()
    told(history, 10, known)
    for n, user in enumerate(gone):
        history.apply([Entry(StreamId(20 + n, 0), "forget", subject=user)])
    if come_back and gone:
        told(history, WATERMARK + 10, gone)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(live_model, "IDS_PER_SLICE", a_slice)
        users, items = rows(history, of_model, [f"of {user}" for user in of_model])
    there = {user: row for row, user in enumerate(known) if user not in gone}
    assert users == [there.get(user, -1) for user in of_model]
    of_items = {user: row for row, user in enumerate([*known, *(user for user in gone if user not in known)])}
    came = of_items if come_back else {user: row for row, user in enumerate(known)}
    assert items == [came.get(user, -1) for user in of_model]


def test_a_model_of_the_same_log_is_not_looked_up(monkeypatch: pytest.MonkeyPatch) -> None:
    """A training reads the log in the same order, and a forgetting takes a row out of its snapshots."""
    history, users = History(), [f"user-{n}" for n in range(10_000)]
    told(history, 10, users)
    history.apply([Entry(StreamId(11, 0), "forget", subject=users[7])])
    looked_up: list[str] = []
    row_of = history.users.rows_of

    def rows_of_some(ids: IdColumn) -> NDArray[np.int32]:
        looked_up.extend(ids.ids())
        return row_of(ids)

    monkeypatch.setattr(history.users, "rows_of", rows_of_some)
    monkeypatch.setattr(live_model, "IDS_PER_SLICE", 100)
    expected = np.delete(np.arange(10_000), 7).tolist()
    assert rows(history, np.delete(np.array(users), 7).tolist())[0] == expected
    assert len(looked_up) == 100
