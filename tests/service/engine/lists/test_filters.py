"""Filters against a plain oracle, while items come, change and go, and time passes."""

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from service.base.errors import InvalidRequest
from service.engine.lists import filters as compiled
from service.engine.lists.filters import ItemFilters
from service.engine.models.shelf import Shelf
from service.engine.queries.filter_tree import AllOf, AnyOf, HasTag, InRange, Node, Not, decode, text_of
from service.engine.state import row_set
from service.engine.state.history import History
from service.storage.events import Entry, RatingEvent, StreamId
from service.storage.item_changes import ItemChange

ITEMS = [f"i{n}" for n in range(70)]  # three words
VALUES = st.lists(st.sampled_from("pqr"), min_size=1, max_size=2)
NUMBERS = st.sampled_from([0.1, 1.0, 2.0, 9.99])
leaves = st.one_of(
    st.builds(HasTag, st.sampled_from("ab"), VALUES.map(tuple)),
    st.builds(InRange, st.just("n"), st.none() | NUMBERS, st.none() | NUMBERS),
)
trees = st.recursive(
    leaves,
    lambda parts: st.one_of(
        st.builds(Not, parts),
        *(st.builds(kind, st.lists(parts, min_size=1, max_size=3).map(tuple)) for kind in (AllOf, AnyOf)),
    ),
    max_leaves=6,
)
attributes = st.fixed_dictionaries(
    {},
    optional={
        "tags": st.dictionaries(st.sampled_from("ab"), VALUES),
        "numbers": st.dictionaries(st.just("n"), NUMBERS),
        "available": st.booleans(),
        "published": st.sampled_from([10.0, 20.0]),
        "until": st.sampled_from([15.0, 20.5]),
    },
)
some = st.lists(st.sampled_from(ITEMS), min_size=1, max_size=40, unique=True)
steps: st.SearchStrategy[list[Any]] = st.lists(
    st.one_of(
        st.tuples(st.just("put"), some, attributes),
        st.tuples(st.just("put"), st.just(ITEMS), attributes),
        st.tuples(st.sampled_from(["delete", "rate", "hide", "show"]), some, st.just({})),
        st.tuples(st.just("time"), st.sampled_from([9.9, 10.0, 15.0, 20.0, 21.0]), st.just({})),
    ),
    min_size=1,
    max_size=8,
)


def entries_of(n: int, kind: str, items: list[str], given_: dict[str, Any]) -> list[Entry]:
    at = StreamId(n, 0)
    if kind in ("put", "delete"):
        return [Entry(at, "item", items=[ItemChange(item, **given_, op=kind) for item in items])]  # type: ignore[arg-type]
    if kind == "rate":
        return [Entry(at, "rating", [RatingEvent("u", item, 1.0, 0.0) for item in items])]
    return [Entry(StreamId(n, m), kind, subject=item) for m, item in enumerate(items)]  # type: ignore[arg-type]


class Plain:
    """What the service must know of the items, by the plainest means."""

    def __init__(self) -> None:
        self.items: dict[str, dict[str, Any]] = {}
        self.hidden: set[str] = set()
        self.deleted: set[str] = set()

    def step(self, kind: str, items: list[str], given_: dict[str, Any]) -> None:
        for item in items:
            self.items.setdefault(item, {})
            if kind in ("put", "delete"):
                self.items[item] = given_
                (self.deleted.add if kind == "delete" else self.deleted.discard)(item)
            elif kind in ("hide", "show"):
                (self.hidden.add if kind == "hide" else self.hidden.discard)(item)

    def passing(self, node: Node, available: bool, now_s: float) -> set[str]:
        return {
            item
            for item, has in self.items.items()
            if item not in self.hidden | self.deleted and passes(has, node) and (not available or on_show(has, now_s))
        }


def on_show(has: dict[str, Any], now_s: float) -> bool:
    now_s = now_s // 1
    return has.get("available", True) and has.get("published", 0) <= now_s < has.get("until", np.inf)


def passes(has: dict[str, Any], node: Node) -> bool:
    match node:
        case AllOf(parts):
            return all(passes(has, part) for part in parts)
        case AnyOf(parts):
            return any(passes(has, part) for part in parts)
        case Not(part):
            return not passes(has, part)
        case HasTag(name, values):
            return bool(set(values) & set(has.get("tags", {}).get(name, ())))
        case InRange(name, least, most):
            number = np.float32(has.get("numbers", {}).get(name, np.nan))
            low, high = (np.float32(bound) for bound in (-np.inf if least is None else least, most or np.inf))
            return bool(low <= number <= high)


def known_names() -> list[Entry]:
    named = ItemChange("first", tags={"a": ["z"], "b": ["z"]}, numbers={"n": 0.0})
    return [Entry(StreamId(1, 0), "item", items=[named])]


@given(st.lists(trees, min_size=1, max_size=3), steps)
@settings(max_examples=150)
def test_the_same_items_pass_as_by_looking_at_each(nodes: list[Node], steps: list[Any]) -> None:
    history, plain, now_s = History(), Plain(), 12.0
    filters = ItemFilters(history, shelf := Shelf(history, lambda: now_s))
    history.apply(known_names())
    plain.step("put", ["first"], {"tags": {"a": ["z"], "b": ["z"]}, "numbers": {"n": 0.0}})
    for n, (kind, items, given_) in enumerate(steps, start=2):
        if kind == "time":
            now_s = items
        else:
            history.apply(entries_of(n, kind, items, given_))
            plain.step(kind, items, given_)
        shelf.look()
        for node in nodes:
            for available in (True, False):
                eligible = filters.eligible(text_of(node), available)
                wanted = plain.passing(node, available, now_s)
                assert set(history.items.ids(eligible.rows.tolist())) == wanted
                assert eligible.count == len(wanted)


@given(trees)
def test_the_canonical_text_keeps_the_meaning(node: Node) -> None:
    text = text_of(node)
    again = decode(text)
    assert text_of(again) == text
    for has in ({}, {"tags": {"a": ["p"]}}, {"tags": {"a": ["q"], "b": ["p", "r"]}, "numbers": {"n": 1.0}}):
        assert passes(has, node) == passes(has, again)


def test_equal_filters_have_one_text() -> None:
    one = AllOf((HasTag("a", ("q", "p", "q")), AllOf((InRange("n", 1.0), Not(Not(HasTag("b", ("p",))))))))
    other = AllOf((HasTag("b", ("p",)), InRange("n", 1.0), AnyOf((HasTag("a", ("p", "q")),))))
    assert text_of(one) == text_of(other)


@pytest.fixture
def filled() -> tuple[History, ItemFilters]:
    history = History()
    tagged = [ItemChange(item, tags={"a": ["p" if n % 2 else "q"]}, numbers={"n": n}) for n, item in enumerate(ITEMS)]
    history.apply([Entry(StreamId(1, 0), "item", items=tagged)])
    shelf = Shelf(history)
    shelf.look()
    return history, ItemFilters(history, shelf)


def changes(history: History, ms: int, *given_: ItemChange) -> None:
    history.apply([Entry(StreamId(ms, 0), "item", items=list(given_))])


def test_a_filter_is_compiled_again_only_when_its_names_change(filled: tuple[History, ItemFilters]) -> None:
    history, filters = filled
    text, open_text = text_of(HasTag("a", ("p",))), text_of(Not(HasTag("a", ("p",))))
    first, first_open = filters.eligible(text, True), filters.eligible(open_text, True)
    changes(history, 2, ItemChange("i1", op="patch", numbers={"n": 7.0}), ItemChange("new"))
    assert filters.eligible(text, True) is first
    assert filters.eligible(open_text, True).count == first_open.count + 1
    changes(history, 3, ItemChange("i1", op="patch", tags={"a": ["q"]}))
    assert filters.eligible(text, True).count == first.count - 1
    history.apply([Entry(StreamId(4, 0), "hide", subject="i3")])
    assert filters.eligible(text, True).count == first.count - 2


def test_the_last_filters_are_kept(filled: tuple[History, ItemFilters], monkeypatch: pytest.MonkeyPatch) -> None:
    _, filters = filled
    monkeypatch.setattr(compiled, "MAX_CACHED", 2)
    texts = [text_of(InRange("n", float(n))) for n in range(3)]
    first = [filters.eligible(text, True) for text in texts[:2]]
    assert filters.eligible(texts[0], True) is first[0]
    filters.eligible(texts[2], True)
    assert filters.eligible(texts[0], True) is first[0]
    assert filters.eligible(texts[1], True) is not first[1]


@pytest.mark.parametrize(
    ("node", "reason"),
    [
        (HasTag("c", ("p",)), r"expected a tag of the catalog \(a\), got 'c'"),
        (Not(InRange("a", 1.0)), r"expected a number of the catalog \(n\), got 'a'"),
    ],
)
def test_an_unknown_name_is_refused(filled: tuple[History, ItemFilters], node: Node, reason: str) -> None:
    with pytest.raises(InvalidRequest, match=reason):
        filled[1].eligible(text_of(node), True)


def test_a_name_stays_known_when_no_item_has_it_any_more(filled: tuple[History, ItemFilters]) -> None:
    history, filters = filled
    changes(history, 2, *(ItemChange(item) for item in ITEMS))
    assert filters.eligible(text_of(HasTag("a", ("p",))), True).count == 0
    changes(history, 3, ItemChange("i1", numbers={"a": 1.0}))
    with pytest.raises(InvalidRequest, match="expected a tag of the catalog, of which there is none, got 'a'"):
        filters.eligible(text_of(HasTag("a", ("p",))), True)


@given(st.lists(st.sets(st.integers(0, 199), max_size=60), min_size=1, max_size=6), st.integers(1, 8), st.booleans())
def test_a_row_set_is_a_set(wanted: list[set[int]], max_changes: int, is_read: bool) -> None:
    rows, present, before = row_set.RowSet(), set[int](), row_set.MAX_CHANGES
    row_set.MAX_CHANGES = max_changes
    try:
        for n, one in enumerate(wanted):
            n_rows = 200 + 40 * n
            for row in sorted(one - present):
                rows.add(row, n_rows)
            for row in sorted(present - one):
                rows.remove(row, n_rows)
            present = one
            if is_read:
                assert rows_in(rows, n_rows) == present
    finally:
        row_set.MAX_CHANGES = before
    assert rows.n == len(present)
    assert rows_in(rows, 400) == present


def rows_in(rows: row_set.RowSet, n_rows: int) -> set[int]:
    bits = np.zeros(row_set.n_words(n_rows), dtype=np.uint32)
    rows.add_to(bits, n_rows)
    return set(np.flatnonzero(np.unpackbits(bits.view(np.uint8), bitorder="little")).tolist())


def test_a_dense_set_takes_a_bit_a_row() -> None:
    rows = row_set.RowSet()
    for row in range(900):
        rows.add(row, 32_000)
    assert rows_in(rows, 32_000) == set(range(900))
    assert rows.n_bytes == 4 * 900
    for row in range(900, 1001):
        rows.add(row, 32_000)
    assert rows_in(rows, 32_000) == set(range(1001))
    assert rows.n_bytes == 32_000 / 8
    for row in range(502):
        rows.remove(row, 32_000)
    assert rows_in(rows, 32_000) == set(range(502, 1001))
    assert rows.n_bytes == 4 * 499
