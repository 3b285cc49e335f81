import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from service.base.errors import InvalidRequest
from service.engine.lists.catalog_lookups import CatalogLookups
from service.engine.lists.listing import Page, page
from service.engine.lists.selection import Selection
from service.engine.queries.catalog_queries import ListItems, ListUsers
from service.engine.queries.filter_tree import HasTag, text_of
from service.engine.state.history import History
from service.storage.events import Entry, RatingEvent, StreamId
from service.storage.item_changes import ItemChange

keys_ = st.lists(st.one_of(st.integers(0, 2**64 - 1), st.integers(0, 3)), max_size=40)


def page_of(keys: list[int], listed: list[bool], n: int, cursor: str | None, n_listed: int = 1) -> Page:
    mask = np.array(listed, dtype=np.bool_)

    def are_listed(rows: NDArray[np.int64]) -> NDArray[np.bool_]:
        return mask[rows]

    return page(np.array(keys, dtype=np.uint64), n_listed, are_listed, n, cursor)


@given(keys_, st.data(), st.integers(1, 9), st.integers(0, 10**6))
def test_pages_have_every_listed_row_once(keys: list[int], data: st.DataObject, n: int, n_listed: int) -> None:
    listed = [data.draw(st.booleans()) for _ in keys]
    seen, cursor, n_pages = list[int](), None, 0
    while n_pages == 0 or cursor is not None:
        found = page_of(keys, listed, n, cursor, n_listed)
        assert len(found.rows) >= n or found.next is None
        seen += found.rows.tolist()
        cursor, n_pages = found.next, n_pages + 1
    assert seen == sorted((row for row, one in enumerate(listed) if one), key=lambda row: (keys[row], row))


def test_rows_with_one_key_are_on_one_page_and_others_follow() -> None:
    first = page_of([0, 2**63, 0], [True] * 3, 1, None, n_listed=10**6)
    assert first.rows.tolist() == [0, 2]
    second = page_of([0, 2**63, 0], [True] * 3, 1, first.next, n_listed=10**6)
    assert (second.rows.tolist(), second.next) == ([1], None)


@pytest.mark.parametrize("cursor", ["", "x", "0123456789ABCDEF", "0" * 17, "-1", "0x23456789abcdef"])
def test_other_cursors_are_refused(cursor: str) -> None:
    with pytest.raises(InvalidRequest, match="Invalid cursor: expected `next` of an earlier page"):
        page_of([1], [True], 1, cursor)


def rated(ms: int, *pairs: tuple[str, str]) -> Entry:
    return Entry(StreamId(ms, 0), "rating", [RatingEvent(user, item, 1.0, 0.0) for user, item in pairs])


def test_what_is_there_throughout_is_listed_once_while_others_come_and_go() -> None:
    history = History()
    history.apply([rated(1, *((f"u{n}", f"i{n}") for n in range(30)))])
    lookups = CatalogLookups(history, Selection(history))
    seen_items, seen_users = list[str](), list[str]()
    items, users = lookups.items(ListItems(n=4), "1-0"), lookups.users(ListUsers(n=4), "1-0")
    for n in range(40):
        seen_items += [one.item for one in items.items]
        seen_users += [one.user for one in users.users]
        if items.next is None and users.next is None:
            break
        gone = [Entry(StreamId(10 * n + 10, 0), "forget", subject=f"u{n}")]
        gone += [Entry(StreamId(10 * n + 11, 0), "item", items=[ItemChange(f"i{n}", op="delete")])]
        gone += [rated(10 * n + 12, (f"new{n}", f"new{n}"), ("u0", "i29"))]
        history.apply(gone)
        if n == 3:  # rows of users are others after a restart
            restarted = History()
            restarted.apply([rated(1, *((f"u{n}", f"i{n}") for n in range(4, 30))), rated(99, ("u0", "i29"))])
            history = restarted
            lookups = CatalogLookups(history, Selection(history))
        items = lookups.items(ListItems(n=4, cursor=items.next or "f" * 16), "1-0")
        users = lookups.users(ListUsers(n=4, cursor=users.next or "f" * 16), "1-0")
    assert len(seen_items) == len(set(seen_items))
    assert len(seen_users) == len(set(seen_users))
    assert {f"i{n}" for n in range(20, 30)} <= set(seen_items)
    assert {f"u{n}" for n in range(20, 30)} <= set(seen_users)


def test_a_filter_counts_attributes_alone() -> None:
    history = History()
    shown = [ItemChange(item, tags={"a": ["x"]}, available=item != "p") for item in "pqr"]
    history.apply([Entry(StreamId(1, 0), "item", items=[*shown, ItemChange("s"), ItemChange("r", op="delete")])])
    lookups = CatalogLookups(history, Selection(history))
    listed = lookups.items(ListItems(filter=text_of(HasTag("a", ("x",)))), "1-0")
    assert sorted(one.item for one in listed.items) == ["p", "q"]
    assert sorted(one.item for one in lookups.items(ListItems(), "1-0").items) == ["p", "q", "s"]
