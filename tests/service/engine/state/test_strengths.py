"""Ratings and events, in any grouping, through the stream or the log, against the plainest sums."""

import math
from collections import defaultdict
from typing import Any

import msgspec
import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from gpu.data.evidence import packed, unpacked
from gpu.online.events import N_KEPT
from service.engine.state import strength_rows
from service.engine.state.history import History
from service.engine.state.strength_rows import NewestOccasions
from service.engine.state.strengths import MAX_SUM
from service.settings.event_types import parse_event_types
from service.storage.events import Entry, Merge, RatingEvent, Retraction, StreamId, TypedEvent
from service.storage.log.rating_log import RatingLog
from tests.service.logs import commit

TYPES = parse_event_types("view=1,purchase=400,dislike=-2.5,impression=seen")
Pair = tuple[str, str]
State = tuple[dict[Pair, tuple[float, float]], dict[Pair, float], dict[Pair, float], dict[Pair, set[str]]]

users, items = st.sampled_from("uvw"), st.sampled_from(["a", "b", "é"])
merges = st.permutations("uvw").map(lambda ids: Merge(*ids[:2]))
ratings = st.tuples(users, items, st.one_of(st.none(), st.integers(-5, 5)))
events = st.tuples(
    users,
    items,
    st.sampled_from([*TYPES, "unknown"]),
    st.sampled_from([-1.0, 0.0, 0.5, 1.0, 2.0]),
    st.sampled_from([None, "e1", "e2", "é3"]),
)
step = st.one_of(
    st.tuples(st.just("rating"), st.lists(ratings, min_size=1, max_size=4)),
    st.tuples(st.just("event"), st.lists(events, min_size=1, max_size=5)),
    st.tuples(st.just("forget"), users),
    st.tuples(st.just("merge"), merges),
    st.tuples(st.just("hide"), items),
)
steps = st.lists(step, max_size=12)
retractions = st.tuples(st.just("retract"), st.tuples(users, st.sampled_from(["e1", "e2", "é3"])))


def entries_of(steps: list[tuple[str, Any]]) -> list[Entry]:
    entries = []
    for n, (kind, content) in enumerate(steps, start=1):
        at = StreamId(1000 * n, n % 3)
        if kind == "rating":
            entries.append(Entry(at, "rating", [RatingEvent(u, i, r, float(n % 4)) for u, i, r in content]))
        elif kind == "event":
            made = [TypedEvent(u, i, kind, value, float(9 - n), one) for u, i, kind, value, one in content]
            entries.append(Entry(at, "event", events=made))
        elif kind == "merge":
            entries.append(Entry(at, "merge", merge=content))
        elif kind == "retract":
            entries.append(Entry(at, "retract", retract=Retraction(*content)))
        else:
            entries.append(Entry(at, kind, subject=content))  # type: ignore[arg-type]
    return entries


def merge(user: str, into: str, rated: dict[Pair, Any], sums: dict[Pair, tuple[float, float]], n: int) -> int:
    """Copy the ratings that are newer, and add the events; returns the number of the last rating."""
    theirs = [(pair[1], one) for pair, one in rated.items() if pair[0] == user]
    for item, (rating, at, number) in sorted(theirs, key=lambda one: one[1][2]):
        if number > rated.get((into, item), (0.0, 0.0, -1))[2]:
            rated[into, item] = rating, at, (n := n + 1)
    for item, (total, then) in [(pair[1], one) for pair, one in sums.items() if pair[0] == user]:
        own, latest = sums.get((into, item), (0.0, -np.inf))
        sums[into, item] = min(max(own + total, -MAX_SUM), MAX_SUM), max(latest, then) if total else latest
    return n


def plain_state(entries: list[Entry]) -> State:
    """(strength and time of each pair, ratings, sums, types of events), by the plainest means."""
    rated: dict[Pair, tuple[float, float, int]] = {}  # with the number of the rating
    sums: dict[Pair, tuple[float, float]] = {}
    known: dict[str, list[str]] = defaultdict(list)
    typed: dict[Pair, set[str]] = defaultdict(set)
    n = 0
    for entry in entries:
        for r in entry.ratings:
            rated.pop((r.user, r.item), None)
            if r.rating is not None:
                rated[r.user, r.item] = r.rating, r.timestamp, (n := n + 1)
        for e in entry.events:
            if e.event_id is not None and e.event_id in known[e.user]:
                continue
            known[e.user].append(e.event_id or "")
            if e.type in TYPES:
                total, time = sums.get((e.user, e.item), (0.0, -np.inf))
                total = min(max(total + TYPES[e.type] * e.value, -MAX_SUM), MAX_SUM)
                at = min(e.timestamp, entry.id.ms / 1000) if TYPES[e.type] else -np.inf
                sums[e.user, e.item] = total, max(time, at)
                typed[e.user, e.item].add(e.type)
        if entry.merge is not None:
            user, into = entry.merge.user, entry.merge.into
            n = merge(user, into, rated, sums, n)
            for pair in [pair for pair in typed if pair[0] == user]:
                typed[into, pair[1]] |= typed[pair]
            known[into] += [one for one in known[user] if one and one not in known[into]]
        gone = entry.subject if entry.kind == "forget" else entry.merge and entry.merge.user
        rated = {pair: one for pair, one in rated.items() if pair[0] != gone}
        sums = {pair: one for pair, one in sums.items() if pair[0] != gone}
        typed = defaultdict(set, {pair: one for pair, one in typed.items() if pair[0] != gone})
        known.pop(gone or "", None)
    strengths = {}
    for pair in {*rated, *sums}:
        (rating, at, _), (total, then) = rated.get(pair, (0.0, -np.inf, 0)), sums.get(pair, (0.0, -np.inf))
        if pair in rated or total:
            given = np.array([rating if pair in rated else np.nan], dtype=np.float32)
            (strength,) = packed(given, np.array([total], dtype=np.float32)).tolist()
            strengths[pair] = strength, max(at, then)
    return (
        strengths,
        {pair: one[0] for pair, one in rated.items()},
        {pair: one[0] for pair, one in sums.items()},
        dict(typed),
    )


def content(history: History, table: Any) -> dict[Pair, tuple[float, float]]:
    found = {}
    for user in range(0 if table is None else table.n_users):
        for item, value, time, _ in zip(*(column.tolist() for column in table.row(user)), strict=True):
            found[history.users.id(user), history.items.id(item)] = value, time
    return found


def types(history: History) -> dict[Pair, set[str]]:
    typed: dict[Pair, set[str]] = defaultdict(set)
    for row in range(history.table.n_users):
        for name in TYPES:
            for item in history.items.ids(history.had(row, [name])):
                typed[history.users.id(row), item].add(name)
        both = history.items.ids(history.had(row, ["view", "rating"]))
        assert set(both) == {
            *history.items.ids(history.had(row, ["view"])),
            *history.items.ids(history.table.row(row)[0]),
        }
    return dict(typed)


def state(history: History) -> State:
    def values(table: Any) -> dict[Pair, float]:
        return {pair: one[0] for pair, one in content(history, table).items()}

    strengths, ratings = values(history.strengths.table), values(history.table)
    summed = values(history.strengths._sums)
    for pair, strength in strengths.items():
        if pair not in ratings:
            summed[pair] = float(unpacked(np.array([strength], dtype=np.float32))[1][0])
    return content(history, history.strengths.table), values(history.table), summed, types(history)


@given(steps, st.data())
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=60, deadline=None)
def test_stream_and_log_end_in_the_same_strengths(
    tmp_path_factory: pytest.TempPathFactory, steps: list[tuple[str, Any]], data: st.DataObject
) -> None:
    entries = entries_of(steps)
    log = RatingLog(tmp_path_factory.mktemp("log"))
    streamed, rest = History(TYPES), entries
    running: dict[tuple[int, int], float] = {}
    while rest:
        n = data.draw(st.integers(1, len(rest)))
        applied = streamed.apply(rest[:n]).strengths
        commit(log, rest[:n])
        rest = rest[n:]
        for user, item, old, new in zip(*(column.tolist() for column in applied.changes[:4]), strict=True):
            np.testing.assert_equal(running.get((user, item), np.nan), old)
            running[user, item] = new
        for gone in applied.forgotten:
            assert dict(zip(gone.items.tolist(), gone.values.tolist(), strict=True)) == {
                item: running[gone.user, item]
                for user, item in running
                if user == gone.user and not np.isnan(running[user, item])
            }
            running |= dict.fromkeys(((gone.user, item) for item in gone.items.tolist()), np.nan)
    loaded = History(TYPES)
    loaded.load(log)
    assert state(streamed) == state(loaded) == plain_state(entries)
    for is_implicit in (True, False):
        assert raters(streamed, has_strengths=is_implicit) == raters(loaded, has_strengths=is_implicit)
        tables = streamed.table_of(has_strengths=is_implicit), loaded.table_of(has_strengths=is_implicit)
        for user in range(len(streamed.users)):
            row = loaded.users.row(streamed.users.id(user))
            assert row is None or tables[1].row(row)[3].tolist() == tables[0].row(user)[3].tolist()
            since = StreamId(5000, 0)
            of_row = (user in streamed.changed_since(since, has_strengths=is_implicit)) if row is not None else None
            assert row is None or (row in loaded.changed_since(since, has_strengths=is_implicit)) == of_row


def raters(history: History, *, has_strengths: bool) -> dict[str, list[str]]:
    table = history.table_of(has_strengths=has_strengths)
    of_items = {name: table.raters(row).tolist() for row, name in enumerate(history.items.ids(range(table.n_items)))}
    return {name: sorted(history.users.ids(rows)) for name, rows in of_items.items()}


def without_retracted(entries: list[Entry]) -> list[Entry]:
    """The entries that would have come if no retracted event had."""
    kept: list[Entry] = []
    for entry in entries:
        if entry.retract is None:
            kept.append(entry)
            continue
        gone = entry.retract.user, entry.retract.event_id
        kept = [
            msgspec.structs.replace(one, events=[e for e in one.events if (e.user, e.event_id) != gone]) for one in kept
        ]
    return [entry for entry in kept if entry.events or entry.kind != "event"]


def last_events(history: History) -> dict[str, Any]:
    """The keys of events and the showings of each user."""
    strengths, last = history.strengths, {}
    for row in range(len(history.users) if strengths.has_events else 0):
        items, seconds = strengths.showings.of(row)
        shown = list(zip(history.items.ids(items), seconds.tolist(), strict=True))
        last[history.users.id(row)] = strengths._recent.of(row).tolist(), shown
    return {user: one for user, one in last.items() if any(one)}


with_ids = events.filter(lambda event: event[4] is not None)
posted = st.tuples(st.just("event"), st.lists(with_ids, min_size=1, max_size=5))
others = step.filter(lambda step: step[0] in ("rating", "hide", "forget"))


@given(st.lists(st.one_of(posted, posted, others, retractions, retractions), max_size=20))
@settings(max_examples=150, deadline=None)
def test_a_retracted_event_is_as_if_it_had_not_come(steps: list[tuple[str, Any]]) -> None:
    entries = entries_of(steps)
    history, never = History(TYPES), History(TYPES)
    for one, its_entries in ((history, entries), (never, without_retracted(entries))):
        for entry in its_entries:
            one.apply([entry])
    assert state(history) == state(never)
    assert last_events(history) == last_events(never)


@given(st.lists(st.one_of(step, step, retractions), max_size=16), st.data())
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=60, deadline=None)
def test_stream_and_log_retract_the_same(
    tmp_path_factory: pytest.TempPathFactory, steps: list[tuple[str, Any]], data: st.DataObject
) -> None:
    entries = rest = entries_of(steps)
    log, streamed, loaded = RatingLog(tmp_path_factory.mktemp("log")), History(TYPES), History(TYPES)
    while rest:
        n = data.draw(st.integers(1, len(rest)))
        streamed.apply(rest[:n])
        commit(log, rest[:n])
        rest = rest[n:]
    n_loaded = data.draw(st.integers(0, len(entries)))  # the rest comes from the stream
    if n_loaded:
        loaded.load(log, entries[n_loaded - 1].id)
    for entry in entries[n_loaded:]:
        loaded.apply([entry])
    assert state(streamed) == state(loaded)
    assert last_events(streamed) == last_events(loaded)
    assert list(streamed.retracted) == list(loaded.retracted)


def retract(ms: int, user: str, event_id: str) -> Entry:
    return Entry(StreamId(ms, 0), "retract", retract=Retraction(user, event_id))


def test_an_event_without_an_id_keeps_what_it_added() -> None:
    history = History(TYPES)
    history.apply([event(1, ("u", "a", "view", 2.0, 1.0, "one"), ("u", "a", "view", 3.0, 1.0))])
    history.apply([retract(2, "u", "one")])
    assert state(history)[2] == {("u", "a"): 3.0}


def test_the_bound_does_not_outlive_the_event_that_reached_it() -> None:
    history = History(TYPES)
    history.apply([event(1, ("u", "a", "purchase", 3.0, 1.0, "big"), ("u", "a", "view", 3.0, 1.0, "small"))])
    assert state(history)[2] == {("u", "a"): MAX_SUM}
    history.apply([retract(2, "u", "big")])
    assert state(history)[2] == {("u", "a"): 3.0}
    history.apply([event(3, ("u", "b", "view", MAX_SUM - 1, 1.0, "nearly"), ("u", "b", "view", 3.0, 1.0, "beyond"))])
    history.apply([retract(4, "u", "nearly")])
    assert state(history)[2] == {("u", "a"): 3.0, ("u", "b"): 3.0}


def test_an_event_is_retracted_while_its_id_is_among_the_last() -> None:
    history = History(TYPES)
    history.apply([event(1, *(("u", "a", "view", 1.0, 1.0, f"e{n}") for n in range(N_KEPT + 1)))])
    history.apply([retract(2, "u", "e0"), retract(3, "u", "e1"), retract(4, "u", "e1"), retract(5, "v", "e2")])
    assert state(history)[2] == {("u", "a"): N_KEPT}
    assert list(history.retracted) == [StreamId(3, 0)]


def test_a_merged_event_is_retracted_under_the_name_that_it_got() -> None:
    history = History(TYPES)
    history.apply([event(1, ("u", "a", "view", 2.0, 1.0, "one"), ("v", "a", "view", 3.0, 1.0, "other"))])
    history.apply([Entry(StreamId(2, 0), "merge", merge=Merge("u", "v")), retract(3, "u", "one")])
    assert state(history)[2] == {("v", "a"): 5.0}
    history.apply([retract(4, "v", "one")])
    assert state(history)[2:] == ({("v", "a"): 3.0}, {("v", "a"): {"view"}})
    history.apply([retract(5, "v", "other")])
    assert state(history) == ({}, {}, {}, {})


def test_a_refund_forgets_a_purchase_beside_a_later_view() -> None:
    history = History(TYPES)
    history.apply([event(1, ("u", "a", "purchase", 1.0, 1.0, "order"), ("u", "a", "view", 1.0, 2.0))])
    history.apply([retract(2, "u", "order")])
    assert state(history)[2:] == ({("u", "a"): 1.0}, {("u", "a"): {"view"}})


def test_what_came_after_a_retracted_event_keeps_its_type() -> None:
    history = History(TYPES)
    kinds = ["view", "purchase", "dislike"]
    history.apply([event(1, *(("u", "a", kind, 1.0, 1.0, kind) for kind in kinds))])
    for n, gone in enumerate(kinds, 1):
        history.apply([retract(1 + n, "u", gone)])
        assert types(history) == ({("u", "a"): {*kinds[n:]}} if kinds[n:] else {})


def test_the_sums_of_a_user_are_those_of_events_alone() -> None:
    history = History(TYPES)
    history.apply([Entry(StreamId(1000, 0), "rating", [RatingEvent("u", item, 3.0, 1.0) for item in "ab"])])
    both = np.array([0, 1], dtype=np.int32)
    for expected in ([math.nan, math.nan], [2.0, math.nan]):
        np.testing.assert_array_equal(history.strengths.sums(0, both)[0], np.array(expected, dtype=np.float32))
        history.apply([event(2000, ("u", "a", "view", 2.0, 1.5))])
    assert history.strengths.sums(0, both)[1].tolist() == [1.5, -math.inf]


def test_what_was_shown_is_what_came_first_with_the_weight_0() -> None:
    history = History(TYPES)
    shown = [("u", "a", "impression", 1.0, n, "again") for n in (5.0, 6.0)]
    history.apply([event(9000, *shown, ("u", "b", "view", 1.0, 7.0), ("u", "c", "unknown", 1.0, 8.0))])
    assert last_events(history)["u"][1] == [("a", 5)]


def test_a_training_does_not_see_a_retracted_event() -> None:
    history = History(TYPES)
    history.occasions = NewestOccasions()
    history.apply([event(1, ("u", "a", "view", 2.0, 1.0, "one"), ("u", "a", "view", 3.0, 1.0, "other"))])
    history.apply([retract(2, "u", "one")])
    assert [amount for part in history.occasions.parts for amount in part.amounts.tolist()] == [3.0]


def test_no_other_occasion_goes_with_a_retracted_event() -> None:
    others = [("v", "a", "view", 2.0, 1.0), ("u", "b", "view", 2.0, 1.0), ("u", "a", "view", 2.0, 0.5)]
    history, alone = History(TYPES), History(TYPES)
    for each, events in ((history, [("u", "a", "view", 2.0, 1.0, "one"), *others]), (alone, others)):
        each.occasions = NewestOccasions()
        each.apply([event(1000, *(("u", "z", "view", 1.0, 1.0), *others)), event(2000, *events)])
    history.apply([retract(3000, "u", "one")])
    names = history.users.ids([0, 1]), history.items.ids([0, 1, 2])
    assert names == (alone.users.ids([0, 1]), alone.items.ids([0, 1, 2]))
    kept = [
        [np.concatenate(column).tolist() for column in zip(*each.occasions.parts, strict=True)]  # type: ignore[union-attr]
        for each in (history, alone)
    ]
    assert kept[0] == kept[1]


def test_what_follows_a_retraction_in_its_millisecond_has_a_later_position() -> None:
    history, now_ms = History(TYPES), np.array([2000])
    history.apply([event(1000, ("u", "a", "view", 2.0, 1.0, "one"))])
    (position,) = history.positions_of(now_ms)
    history.apply([retract(2000, "u", "one")])
    assert history.positions_of(now_ms) > position


def test_the_newest_occasions_stay(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(strength_rows, "MOST_OCCASIONS", 3)
    history = History(TYPES)
    history.occasions = NewestOccasions()
    for ms in range(1, 4):
        history.apply([event(ms, ("u", "a", "view", float(ms), 1.0))])
    assert [part.amounts.tolist() for part in history.occasions.parts] == [[1.0], [2.0], [3.0]]
    history.apply([event(4, ("u", "a", "view", 4.0, 1.0))])
    assert [part.amounts.tolist() for part in history.occasions.parts] == [[2.0], [3.0], [4.0]]


def test_an_occasion_is_a_first_event_that_adds_something() -> None:
    history = History(TYPES)
    history.occasions = NewestOccasions()
    kinds = ["dislike", "impression", "unknown", "view", "view"]
    history.apply([event(1, *(("u", "a", kind, n + 1.0, 1.0, f"e{min(n, 3)}") for n, kind in enumerate(kinds)))])
    assert [part.amounts.tolist() for part in history.occasions.parts] == [[4.0]]


def test_a_retracted_occasion_makes_room_for_another(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(strength_rows, "MOST_OCCASIONS", 2)
    history = History(TYPES)
    history.occasions = NewestOccasions()
    history.apply([event(1, ("u", "a", "view", 1.0, 1.0))])
    history.apply([event(2, ("u", "a", "view", 2.0, 1.0, "one")), retract(3, "u", "one")])
    history.apply([event(4, ("u", "a", "view", 3.0, 1.0))])
    assert [amount for part in history.occasions.parts for amount in part.amounts.tolist()] == [1.0, 3.0]


def test_what_a_log_has_given_takes_no_spare_memory(log: RatingLog) -> None:
    for ms in range(1, 40):  # every row grows in step
        one = event(ms, *((f"u{user}", f"i{ms}", "view", 1.0, 1.0) for user in range(30)))
        rated = [RatingEvent(f"u{user}", f"i{ms}", 1.0, 1.0) for user in range(30)]
        commit(log, [one, Entry(StreamId(ms, 1), "rating", rated)])
    history = History(TYPES)
    history.load(log)
    tables = history.strengths.types._arena, history.strengths._sums, history.strengths.table, history.table
    sizes = [each.n_bytes for each in tables]
    for each in tables:
        each.pack()
    assert [each.n_bytes for each in tables] == sizes


def event(ms: int, *events: tuple[Any, ...]) -> Entry:
    return Entry(StreamId(ms, 0), "event", events=[TypedEvent(*one) for one in events])


def test_without_events_both_tables_are_one() -> None:
    history = History(TYPES)
    applied = history.apply([Entry(StreamId(1, 0), "rating", [RatingEvent("u", "a", 3.0, 1.0)])])
    assert applied.of_strengths is None
    assert history.strengths.table.rows.values is history.table.rows.values


def test_an_id_is_known_for_as_long_as_it_is_among_the_last() -> None:
    history = History(TYPES)
    history.apply([event(1, ("u", "a", "view", 1.0, 1.0, "first"))])
    history.apply([event(2, *(("u", "b", "view", 1.0, 1.0, f"e{n}") for n in range(N_KEPT - 1)))])
    history.apply([event(3, ("u", "a", "view", 7.0, 1.0, "first"), ("v", "a", "view", 1.0, 1.0, "first"))])
    assert state(history)[2] == {("u", "a"): 1.0, ("u", "b"): N_KEPT - 1, ("v", "a"): 1.0}
    history.apply([event(4, ("u", "b", "view", 1.0, 1.0, "another"), ("u", "a", "view", 7.0, 1.0, "first"))])
    assert state(history)[2]["u", "a"] == 8.0


def test_a_merged_user_keeps_the_bound_and_the_ids_of_both() -> None:
    history = History(TYPES)
    history.apply([event(1, ("u", "a", "purchase", 2.0, 1.0, "one"), ("v", "a", "purchase", 2.0, 1.0, "other"))])
    history.apply([Entry(StreamId(2, 0), "merge", merge=Merge("u", "v"))])
    again = [("v", "b", "view", 1.0, 1.0, "one"), ("v", "b", "view", 1.0, 1.0, "other")]
    history.apply([event(3, *again, ("u", "b", "view", 1.0, 1.0, "one"))])  # a new user of that name
    assert state(history)[2] == {("v", "a"): MAX_SUM, ("u", "b"): 1.0}


def test_a_merged_user_was_shown_what_both_were_shown_once_and_in_order() -> None:
    history = History(TYPES)
    history.apply([event(9000, *(("uv"[n % 2], f"i{n}", "impression", 1.0, float(n)) for n in range(6)))])
    history.apply([Entry(StreamId(9001, 0), "merge", merge=Merge("u", "v"))])
    assert last_events(history) == {"v": ([], [(f"i{n}", n) for n in range(6)])}


def test_what_was_only_seen_and_what_is_disliked_is_known() -> None:
    history = History(TYPES)
    history.apply(
        [
            event(
                1,
                ("u", "seen", "impression", 1.0, 1.0),
                ("u", "undone", "view", 5.0, 1.0),
                ("u", "undone", "dislike", 2.0, 1.0),
                ("u", "bad", "dislike", 1.0, 1.0),
                ("u", "good", "view", 1.0, 1.0),
            )
        ]
    )
    row, names = history.users.row("u"), history.items.ids
    assert row is not None
    strengths = history.strengths
    assert names(strengths.only_seen(row)) == ["seen", "undone"]
    assert names(strengths.disliked(row)) == ["bad"]
    assert sorted(names(strengths.unrated(row))) == ["bad", "good", "seen", "undone"]
    assert names(strengths.table.row(row)[0]) == ["bad", "good"]
