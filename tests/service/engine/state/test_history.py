import math
from collections.abc import Callable
from pathlib import Path

import msgspec
import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from service.engine.queries.document_queries import GetScenario, ListDocuments
from service.engine.state import log_windows
from service.engine.state.history import History
from service.engine.state.positions import position_of
from service.engine.state.rating_runs import runs_of
from service.storage import events
from service.storage.documents import Document
from service.storage.events import (
    ZERO,
    Entry,
    Merge,
    RatingEvent,
    StreamId,
    TypedEvent,
    encode_events,
    encode_ratings,
    parse_entry,
)
from service.storage.item_changes import Attributes, ItemChange
from service.storage.log.rating_log import RatingLog
from service.storage.user_changes import UserChange
from tests.service.logs import commit

users, items = st.sampled_from("uvw"), st.sampled_from(["a", "b/c", "é", "日"])
ratings = st.lists(st.tuples(users, items, st.one_of(st.none(), st.integers(1, 5))), min_size=1, max_size=5)
attributes = st.fixed_dictionaries(
    {},
    optional={
        "tags": st.none() | st.dictionaries(st.sampled_from("xy"), st.none() | st.just(["p", "q", "p"]), max_size=2),
        "numbers": st.none() | st.dictionaries(st.sampled_from("xz"), st.none() | st.integers(1, 5).map(float)),
        "available": st.none() | st.booleans(),
        "until": st.none() | st.just(1.7e9),
        "embedding": st.none() | st.lists(st.just(0.5), min_size=1, max_size=2),
        "op": st.sampled_from(["put", "patch", "patch", "delete"]),
    },
)
changes = st.builds(lambda item, given: ItemChange(item, **given), items, attributes)
of_users = st.fixed_dictionaries(
    {},
    optional={
        "tags": st.dictionaries(st.sampled_from("xy"), st.none() | st.just(["p", "q"]), max_size=2),
        "numbers": st.dictionaries(st.sampled_from("xz"), st.none() | st.just(1.0)),
        "op": st.sampled_from(["put", "patch"]),
    },
)
user_changes = st.builds(lambda user, given: UserChange(user, **given), users, of_users)
bodies = st.none() | st.sampled_from(['{"n":1}', '{"n":2}'])
steps = st.lists(
    st.one_of(
        st.tuples(st.just("rating"), ratings),
        st.tuples(st.just("item"), st.lists(changes, min_size=1, max_size=4)),
        st.tuples(st.just("user"), st.lists(user_changes, min_size=1, max_size=2)),
        st.tuples(st.just("document"), st.builds(Document, st.just("scenario"), st.sampled_from("pq"), bodies)),
        st.tuples(st.just("forget"), users),
        st.tuples(st.just("merge"), st.permutations("uvw").map(lambda ids: Merge(*ids[:2]))),
        st.tuples(st.sampled_from(["hide", "show"]), items),
    ),
    max_size=20,
)


def entries_of(steps: list[tuple[str, object]]) -> list[Entry]:
    entries = []
    for n, (kind, content) in enumerate(steps, start=1):
        if kind == "rating":
            rated = [RatingEvent(u, i, r, float(n)) for u, i, r in content]  # type: ignore[attr-defined]
            entries.append(Entry(StreamId(n, n % 3), "rating", rated))
        elif kind == "event":
            dated = [msgspec.structs.replace(one, timestamp=float(n)) for one in content]  # type: ignore[attr-defined]
            entries.append(Entry(StreamId(n, n % 3), "event", events=dated))
        elif kind == "item":
            entries.append(Entry(StreamId(n, n % 3), "item", items=content))  # type: ignore[arg-type]
        elif kind == "user":
            entries.append(Entry(StreamId(n, n % 3), "user", user_changes=content))  # type: ignore[arg-type]
        elif kind == "merge":
            entries.append(Entry(StreamId(n, n % 3), "merge", merge=content))  # type: ignore[arg-type]
        elif kind == "document":
            entries.append(Entry(StreamId(n, n % 3), "document", document=content))  # type: ignore[arg-type]
        else:
            entries.append(Entry(StreamId(n, n % 3), kind, subject=content))  # type: ignore[arg-type]
    return entries


def plain_state(entries: list[Entry]) -> tuple[dict[tuple[str, str], tuple[float, float]], set[str]]:
    """What must be known after `entries`, by the plainest means."""
    known: dict[tuple[str, str], tuple[float, float]] = {}  # in the order of the ratings
    hidden: set[str] = set()
    deleted: set[str] = set()
    for entry in entries:
        for change in entry.items:
            (deleted.add if change.op == "delete" else deleted.discard if change.op == "put" else bool)(change.item)
        for r in entry.ratings:
            known.pop((r.user, r.item), None)
            if r.rating is not None:
                known[r.user, r.item] = (r.rating, r.timestamp)
        if entry.merge is not None:
            user, into = entry.merge.user, entry.merge.into
            newer = list(known)
            for pair, value in list(known.items()):
                theirs = into, pair[1]
                if pair[0] == user and (theirs not in newer or newer.index(theirs) < newer.index(pair)):
                    known.pop(theirs, None)
                    known[theirs] = value
            known = {pair: value for pair, value in known.items() if pair[0] != user}
        elif entry.kind == "forget":
            known = {pair: value for pair, value in known.items() if pair[0] != entry.subject}
        elif entry.kind == "hide":
            hidden.add(entry.subject or "")
        elif entry.kind == "show":
            hidden.discard(entry.subject or "")
    return known, hidden | deleted


def state(history: History) -> tuple[dict[tuple[str, str], tuple[float, float]], set[str]]:
    known = {}
    for user in range(len(history.users)):
        for item, value, timestamp, _ in zip(*history.table.row(user), strict=True):
            known[history.users.id(user), history.items.id(int(item))] = (float(value), float(timestamp))
    out = [*np.flatnonzero(history.hidden), *np.flatnonzero(history.catalog.deleted)]
    return known, {history.items.id(int(row)) for row in out}


def plain_firsts(entries: list[Entry]) -> tuple[dict[str, int], dict[str, int]]:
    """Milliseconds of the first entry that named each user, since the last one that forgot them, and each item."""
    users, items = dict[str, int](), dict[str, int]()
    for entry in entries:
        ms = entry.id.ms
        for user in [one.user for one in entry.ratings] + [one.user for one in entry.user_changes]:
            users.setdefault(user, ms)
        for item in [one.item for one in entry.ratings] + [one.item for one in entry.items]:
            items.setdefault(item, ms)
        if entry.kind in ("hide", "show"):
            items.setdefault(entry.subject or "", ms)
        if entry.merge is not None and entry.merge.user in users:
            users.setdefault(entry.merge.into, ms)
        users.pop(entry.merge.user if entry.merge is not None else str(entry.subject), None)
    return users, items


def firsts_of(history: History) -> tuple[dict[str, int], dict[str, int]]:
    known = dict[str, int]()
    for row, name in enumerate(history.users.ids(range(len(history.users)))):
        if name:
            known[name] = next(ms for ms in range(99) if history.is_known_at(np.array([row]), StreamId(ms, 0)).all())
    n_items = len(history.items)
    seen = zip(history.items.ids(range(n_items)), history.first_seen_ms[:n_items].tolist(), strict=True)
    return known, dict(seen)


def plain_documents(entries: list[Entry]) -> dict[str, tuple[bytes, str]]:
    changes = {entry.document.name: (entry.document.body, str(entry.id)) for entry in entries if entry.document}
    return {name: (body.encode(), position) for name, (body, position) in changes.items() if body is not None}


def documents_of(history: History) -> dict[str, tuple[bytes, str]]:
    listed = history.documents.list(ListDocuments("scenario"), "1-0").documents
    details = [history.documents.get(GetScenario(one.name), "1-0") for one in listed]
    return {one.name: (bytes(one.body), one.stream_id) for one in details}


def ids_of(history: History) -> tuple[list[str], list[str]]:
    return history.users.ids(range(len(history.users))), history.items.ids(range(len(history.items)))


@given(steps, st.data())
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=60)
def test_stream_and_log_end_in_the_same_state(
    tmp_path_factory: pytest.TempPathFactory, steps: list[tuple[str, object]], data: st.DataObject
) -> None:
    entries = entries_of(steps)
    log = RatingLog(tmp_path_factory.mktemp("log"))
    streamed, rest = History(), entries
    while rest:
        n = data.draw(st.integers(1, len(rest)))
        streamed.apply(rest[:n])
        commit(log, rest[:n])
        rest = rest[n:]
    loaded = History()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(log_windows, "WINDOW_ROWS", data.draw(st.sampled_from([1, 3, 1 << 20])))
        loaded.load(log)
    assert ids_of(streamed) == ids_of(loaded)
    assert state(streamed) == state(loaded) == plain_state(entries)
    assert firsts_of(streamed) == firsts_of(loaded) == plain_firsts(entries)
    assert streamed.n_hidings == loaded.n_hidings == sum(one.kind in ("hide", "show") for one in entries)
    assert streamed.position == loaded.position == (entries[-1].id if entries else ZERO)
    for user in range(len(streamed.users)):
        row = loaded.users.row(streamed.users.id(user))
        if row is not None:
            assert loaded.table.row(row)[3].tolist() == streamed.table.row(user)[3].tolist()
            assert loaded.user_attributes.of(row) == streamed.user_attributes.of(user)
    assert loaded.items.ids(range(len(loaded.items))) == streamed.items.ids(range(len(streamed.items)))
    assert documents_of(streamed) == documents_of(loaded) == plain_documents(entries)
    assert loaded.catalog.names == streamed.catalog.names
    for row in range(len(loaded.items)):
        assert loaded.catalog.attributes(row) == streamed.catalog.attributes(row)
    for catalog in (loaded.catalog, streamed.catalog):
        catalog.pass_time(1.75e9)
    assert loaded.catalog.out.tolist() == streamed.catalog.out.tolist()
    for find in (lambda index: index.with_tag("x", ["q"], 4), lambda index: index.within("z", 2, 4, 4)):
        assert find(loaded.catalog.index).tolist() == find(streamed.catalog.index).tolist()


def arrays_of(history: History) -> list[bytes]:
    """The bits of all that a model learns from, and of the ids."""
    tables = [history.table, history.strengths.table]
    rows = [part for table in tables for user in range(table.n_users) for part in table.row(user)]
    rows += [table.raters(item) for table in tables for item in range(table.n_items)]
    times = history.last_rated_ms, history.first_seen_ms, history.users.keys, history.items.keys, history.hidden
    n_users, n_items = len(history.users), len(history.items)
    return [one.tobytes() for one in (*rows, times[0][:n_users], times[1][:n_items], *times[2:4], times[4][:n_items])]


values = st.none() | st.integers(1, 5).map(float) | st.floats(-1e6, 1e6)
typed = st.lists(st.builds(TypedEvent, users, items, st.sampled_from(["view", "purchase", "unknown"])), max_size=4)
many = st.lists(st.tuples(st.text("uvwé日/", min_size=1, max_size=2), items, values), min_size=1, max_size=9)
mixed = st.lists(
    st.one_of(
        st.tuples(st.just("rating"), many),
        st.tuples(st.just("rating"), ratings),
        st.tuples(st.just("event"), typed),
        st.tuples(st.just("forget"), users),
        st.tuples(st.just("merge"), st.permutations("uvw").map(lambda ids: Merge(*ids[:2]))),
        st.tuples(st.just("hide"), items),
    ),
    min_size=1,
    max_size=12,
)


@given(mixed, st.data())
@settings(max_examples=100, deadline=None)
def test_columns_objects_and_any_batches_end_in_the_same_bits(
    mixed: list[tuple[str, object]], data: st.DataObject
) -> None:
    """Ratings of one entry name a pair again, and delete it; users and items are new in the middle of a batch."""
    entries = entries_of(mixed)
    whole, parts = History(), History()
    whole.apply(entries)
    while entries:
        n, long = data.draw(st.integers(1, len(entries))), data.draw(st.sampled_from([0, 10**9]))
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(events, "LONG", long)
            runs = runs_of([read_again(entry) for entry in entries[:n]])
        parts.apply_runs(runs)
        entries = entries[n:]
    assert ids_of(parts) == ids_of(whole)
    assert arrays_of(parts) == arrays_of(whole)
    assert (parts.position, parts.n_events) == (whole.position, whole.n_events)


def read_again(entry: Entry) -> Entry:
    """An entry of ratings or events as a reader of the stream gets it."""
    if entry.kind == "rating":
        return parse_entry(entry.id, encode_ratings(entry.ratings))
    return parse_entry(entry.id, encode_events(entry.events)) if entry.kind == "event" else entry


def test_positions_separate_ratings_newer_than_a_watermark(rating_entry: Callable[..., Entry]) -> None:
    history, far = History(), 2**63 - 1  # a clock that is wrong
    for ms, *ratings in (
        (5, ("u", "a", 3.0), ("u", "b", 3.0)), (6, ("u", "c", 3.0), ("v", "a", 1.0)), (900, ("u", "a", 4.0)),
    ):  # fmt: skip
        history.apply([rating_entry(ms, *ratings)])
    of_u, of_v = (history.table.row(row)[3].tolist() for row in (0, 1))
    assert [place >= position_of(StreamId(6, 0)) for place in of_u + of_v] == [True, False, True, True]
    assert of_u[2] < of_v[0] < of_u[0] == position_of(StreamId(900, 0))
    history.apply([rating_entry(far, ("u", "a", 4.0), ("u", "b", 4.0))])
    history.apply([Entry(StreamId(far, 1), "rating", [RatingEvent("v", "a", 4.0, 0.0)])])
    of_u, of_v = (history.table.row(row)[3].tolist() for row in (0, 1))
    assert 0 < of_u[0] < of_u[1] < of_v[0]


def test_changes_tell_old_and_new(rating_entry: Callable[..., Entry]) -> None:
    history = History()
    history.apply([rating_entry(1, ("u", "a", 3.0))])
    changes = history.apply([rating_entry(2, ("u", "a", 4.0), ("u", "b", 1.0), ("u", "a", None))]).changes
    assert changes.users.tolist() == [0, 0, 0]
    assert changes.items.tolist() == [0, 1, 0]
    np.testing.assert_array_equal(changes.old, np.array([3, math.nan, 4], dtype=np.float32))
    np.testing.assert_array_equal(changes.new, np.array([4, 1, math.nan], dtype=np.float32))


def test_what_follows_a_merge_in_its_millisecond_has_a_later_position(rating_entry: Callable[..., Entry]) -> None:
    for of_view in ([], [TypedEvent("u", "a", "view")]):
        history = History()
        history.apply(
            [Entry(StreamId(1, 0), "event", events=of_view), rating_entry(2, *(("u", i, 3.0) for i in "abc"))]
        )
        history.apply([Entry(StreamId(5, 0), "merge", merge=Merge("u", "v"))])
        (position,) = history.positions_of(np.array([5]))
        for table in (history.table, history.strengths.table):
            assert (np.diff([*table.row(1)[3], position]) > 0).all()
        assert len(history.table.row(1)[0]) == 3


def test_a_forgotten_user_gets_a_new_row(rating_entry: Callable[..., Entry]) -> None:
    history = History()
    entries = [
        rating_entry(1, ("u", "a", 3.0), ("v", "a", 1.0)),
        Entry(StreamId(2, 0), "forget", subject="u"),
        Entry(StreamId(3, 0), "forget", subject="u"),
        rating_entry(4, ("u", "b", 5.0)),
    ]
    applied = history.apply(entries)
    assert [(f.user, f.items.tolist(), f.values.tolist()) for f in applied.forgotten] == [(0, [0], [3.0])]
    assert applied.changes.users.tolist() == [0, 1, 2]
    assert history.users.row("u") == 2
    assert history.table.raters(0).tolist() == [1]


def test_forgetting_who_rated_it_first_leaves_an_item_and_its_attributes(
    tmp_path: Path, rating_entry: Callable[..., Entry]
) -> None:
    entries = [
        rating_entry(1, ("u", "a", 3.0), ("u", "b", 3.0)),
        Entry(StreamId(2, 0), "hide", subject="a"),
        Entry(StreamId(3, 0), "item", items=[ItemChange("c", tags={"x": ["y"]}), ItemChange("b", op="delete")]),
        rating_entry(4, ("u", "c", 1.0)),
        Entry(StreamId(5, 0), "forget", subject="u"),
    ]
    streamed, loaded, log = History(), History(), RatingLog(tmp_path)
    streamed.apply(entries)
    commit(log, entries)
    log.rewrite_without("u", StreamId(5, 0))
    loaded.load(log)
    for history in (streamed, loaded):
        assert [history.items.row(item) for item in "abc"] == [0, 1, 2]
        assert history.hidden.tolist() == [True, False, False]
        assert history.catalog.deleted.tolist() == [False, True, False]
        assert history.catalog.attributes(2) == Attributes(tags={"x": ["y"]})
        assert history.table.n_ratings == 0


def test_a_forgotten_user_who_returns_is_known_from_then_on(rating_entry: Callable[..., Entry]) -> None:
    history = History()
    entries = [
        rating_entry(1, ("u", "a", 3.0), ("v", "a", 1.0)),
        Entry(StreamId(2, 0), "forget", subject="u"),
        rating_entry(4, ("u", "b", 5.0), ("v", "b", 1.0)),
        rating_entry(5, ("u", "c", 5.0)),
    ]
    history.apply(entries)
    rows = np.array([history.users.row("u"), history.users.row("v")])
    assert history.is_known_at(rows, StreamId(3, 0)).tolist() == [False, True]
    assert history.is_known_at(rows, StreamId(4, 0)).tolist() == [True, True]


def test_replaying_changes_nothing(rating_entry: Callable[..., Entry]) -> None:
    history = History()
    entries = [rating_entry(1, ("u", "a", 3.0)), rating_entry(2, ("u", "a", 4.0))]
    history.apply(entries)
    for again in (entries[:1], entries[1:], entries):
        assert len(history.apply(again).changes.users) == 0
    assert state(history)[0] == {("u", "a"): (4.0, 2.0)}


def test_of_a_run_only_newer_entries_count(rating_entry: Callable[..., Entry]) -> None:
    history = History()
    entries = [rating_entry(ms, (f"u{ms}", "a", float(ms))) for ms in (1, 2, 3)]
    history.apply(entries[:2])
    assert history.apply(entries).changes.users.tolist() == [2]
    assert history.position == StreamId(3, 0)


def test_noops_move_the_position() -> None:
    history = History()
    assert len(history.apply([Entry(StreamId(9, 9), "noop")]).changes.users) == 0
    assert history.position == StreamId(9, 9)


def test_loading_stops_at_a_position_and_continues(log: RatingLog, rating_entry: Callable[..., Entry]) -> None:
    commit(log, [rating_entry(ms, ("u", f"i{ms}", 1.0)) for ms in range(1, 6)])
    commit(log, [rating_entry(ms, ("u", f"i{ms}", 1.0)) for ms in range(6, 9)])
    history = History()
    seen: list[int] = []
    history.load(log, StreamId(3, 0), seen.append)
    assert (history.position, history.table.n_ratings, len(history.items)) == (StreamId(3, 0), 3, 3)
    history.load(log)
    assert (history.position, history.table.n_ratings) == (StreamId(8, 0), 8)
    assert seen == [3]


def test_hidden_items_stay_hidden_while_the_table_grows(rating_entry: Callable[..., Entry]) -> None:
    history = History()
    history.apply([Entry(StreamId(1, 0), "hide", subject="a")])
    history.apply([rating_entry(2, *(("u", f"i{n}", 1.0) for n in range(100)))])
    assert np.flatnonzero(history.hidden).tolist() == [0]
    assert len(history.hidden) == 101


def test_long_and_unicode_ids_survive_the_log(tmp_path: Path, rating_entry: Callable[..., Entry]) -> None:
    names = ["é" * 128, "x" * 256, "a/b%2F", " ", "\x00", "日本"]
    log = RatingLog(tmp_path)
    commit(log, [rating_entry(1, *((name, name, 1.0) for name in names))])
    history = History()
    history.load(log)
    assert [history.users.id(row) for row in range(len(names))] == names
