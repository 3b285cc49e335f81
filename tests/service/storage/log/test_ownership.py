"""Merges in the log: forgetting and exports follow users through them, against a walk over all entries."""

from collections import Counter
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from service.engine.state.history import History
from service.jobs import export_rows
from service.storage.events import ZERO, Entry, StreamId, TypedEvent
from service.storage.log.rating_log import RatingLog
from tests.service.engine.state.test_strengths import TYPES, content, entries_of, steps
from tests.service.logs import commit, contents


def walked(entries: list[Entry], upto: StreamId) -> list[tuple[str, TypedEvent]]:
    """The events up to a position, each with its user at that position, without those whose user is ever forgotten."""
    held: list[tuple[str, str, TypedEvent]] = []  # owner in the end, owner at the position, event
    for entry in entries:
        known = entry.id <= upto
        held += [(one.user, one.user, one) for one in entry.events if known]
        if entry.merge is not None:
            user, into = entry.merge.user, entry.merge.into
            held = [(into if last == user else last, then, one) for last, then, one in held]
            held = [(last, last if known else then, one) for last, then, one in held]
        elif entry.kind == "forget":
            held = [one for one in held if one[0] != entry.subject]
    return [(then, one) for _, then, one in held]


def ratings_at(entries: list[Entry], upto: StreamId) -> set[tuple[str, str, float]]:
    """The ratings at a position, without those of users who are forgotten later, under whatever name."""
    history = History(TYPES)
    history.apply([Entry(ZERO, "noop"), *(one for one in entries if one.id <= upto)])
    later = {user: user for user, _ in content(history, history.table)}
    for entry in entries:
        if entry.id > upto and entry.merge is not None:
            later = {name: entry.merge.into if one == entry.merge.user else one for name, one in later.items()}
        elif entry.id > upto and entry.kind == "forget":
            later = {name: one for name, one in later.items() if one != entry.subject}
    return {(*pair, one[0]) for pair, one in content(history, history.table).items() if pair[0] in later}


@given(steps, st.data())
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=40, deadline=None)
def test_what_is_exported_is_under_the_users_of_that_time(
    tmp_path_factory: pytest.TempPathFactory, steps: list[tuple[str, Any]], data: st.DataObject
) -> None:
    entries = entries_of(steps)
    log, rest = RatingLog(tmp_path_factory.mktemp("log")), entries
    while rest:
        n = data.draw(st.integers(1, len(rest)))
        commit(log, rest[:n])
        rest = rest[n:]
    upto = data.draw(st.sampled_from([ZERO, *(entry.id for entry in entries)]))
    events = [row for batch in export_rows.rows_of(log, "events", upto).batches for row in batch.to_pylist()]
    assert [(row["user"], row["item"], row["type"], row["value"]) for row in events] == [
        (user, one.item, one.type, one.value) for user, one in walked(entries, upto)
    ]
    ratings = [row for batch in export_rows.rows_of(log, "ratings", upto).batches for row in batch.to_pylist()]
    assert {(row["user"], row["item"], row["rating"]) for row in ratings} == ratings_at(entries, upto)


@given(steps, st.sampled_from("uvw"), st.data())
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=40, deadline=None)
def test_a_log_without_a_user_has_nobody_who_became_part_of_it(
    tmp_path_factory: pytest.TempPathFactory, steps: list[tuple[str, Any]], user: str, data: st.DataObject
) -> None:
    entries = entries_of(steps)
    at = data.draw(st.integers(0, len(entries)))
    position = StreamId(1000 * at + 500, 0)
    entries.insert(at, Entry(position, "forget", subject=user))
    log, streamed, loaded = RatingLog(tmp_path_factory.mktemp("log")), History(TYPES), History(TYPES)
    for part in (entries[: at + 1], entries[at + 1 :]):
        if part:
            commit(log, part)
    streamed.apply(entries)
    for _ in range(2):  # it can be repeated
        log.rewrite_without(user, position)
    owned: list[tuple[str, TypedEvent]] = []
    for entry in entries[:at]:
        owned += [(one.user, one) for one in entry.events]
        if entry.merge is not None:
            owned = [(entry.merge.into if last == entry.merge.user else last, one) for last, one in owned]
    later = [one for entry in entries[at:] for one in entry.events]
    assert [one for entry in contents(log) for one in entry.events] == [
        one for last, one in owned if last != user
    ] + later
    left = max((one.id for one in entries[:at] if one.merge and one.merge.user == user), default=ZERO)
    assert not any(user == one.merge.into for one in contents(log) if one.merge and left < one.id < position)
    loaded.load(log)
    assert content(loaded, loaded.table) == content(streamed, streamed.table)
    assert content(loaded, loaded.strengths.table) == content(streamed, streamed.strengths.table)
    items = range(len(streamed.items))
    assert loaded.items.ids(items) == streamed.items.ids(items)


@given(steps, st.data())
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=40, deadline=None)
def test_who_was_forgotten_under_which_ids_is_told_as_of_each_moment(
    tmp_path_factory: pytest.TempPathFactory, steps: list[tuple[str, Any]], data: st.DataObject
) -> None:
    entries = entries_of(steps)
    log = RatingLog(tmp_path_factory.mktemp("log"))
    if entries:
        commit(log, entries)
    after = data.draw(st.sampled_from([ZERO, *(entry.id for entry in entries)]))
    later = [entry for entry in entries if entry.id > after]
    owners = {user: user for user in "uvw"}  # by the id at `after`
    gone = Counter[str]()
    for entry in later:
        if entry.merge is not None:
            owners = {user: entry.merge.into if one == entry.merge.user else one for user, one in owners.items()}
        elif entry.kind == "forget":
            gone.update(user for user, one in owners.items() if one == entry.subject)
    assert Counter(log.forgotten_since(after)) == gone
    assert set(log.owners(after).ids) == {
        one.merge.user if one.merge else one.subject for one in later if one.merge or one.kind == "forget"
    }


@given(steps, st.sampled_from("uvw"))
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=40, deadline=None)
def test_the_export_of_a_user_has_what_forgetting_the_user_takes_away(
    tmp_path_factory: pytest.TempPathFactory, steps: list[tuple[str, Any]], user: str
) -> None:
    entries = entries_of([*steps, ("hide", "a")])
    log, upto = RatingLog(tmp_path_factory.mktemp("log")), entries[-1].id
    commit(log, entries)

    def exported() -> list[dict[str, Any]]:
        return [row for batch in export_rows.rows_of_user(log, user, upto).batches for row in batch.to_pylist()]

    def rows() -> Counter[tuple[Any, ...]]:
        return Counter(tuple(row.values()) for batch in log.read() for row in batch.to_pylist())

    before_jobs = exported()
    for entry in entries:
        if entry.kind == "forget" and entry.subject is not None:
            log.rewrite_without(entry.subject, entry.id)
    assert exported() == before_jobs  # what an earlier forgetting has still to remove is in no export
    before = rows()
    log.rewrite_without(user, StreamId(upto.ms, upto.seq + 1))
    gone = sorted((before - rows()).elements())
    told = [
        (f"{ms}-{seq}", name, item, rating) for ms, seq, _, kind, name, item, rating, *_ in gone if kind != "forget"
    ]
    assert told == [tuple(row[name] for name in ("position", "user", "item", "rating")) for row in before_jobs]
