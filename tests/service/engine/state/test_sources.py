"""A batch that a queue delivers twice counts once: in the stream, in the log, and however both are read."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from service.engine.state import log_windows
from service.engine.state.history import History
from service.engine.state.sources import Sources
from service.storage.events import Entry, RatingEvent, Source, StreamId, TypedEvent
from service.storage.log.rating_log import RatingLog
from tests.service.logs import commit

sources = st.none() | st.builds(Source, st.sampled_from(["kafka:t/0", "kafka:t/1"]), st.integers(0, 5))
contents = st.lists(st.tuples(sources, st.integers(1, 3), st.booleans()), min_size=1, max_size=12)


def entry(n: int, source: Source | None, n_rows: int = 1, value: float | None = None) -> Entry:
    ratings = [RatingEvent("u", f"i{k}", float(n) if value is None else value, 0.0) for k in range(n_rows)]
    return Entry(StreamId(n, 0), "rating", ratings, source=source)


def events(n: int, source: Source | None, n_rows: int) -> Entry:
    found = [TypedEvent("u", f"i{k}", "view", 1.0, 0.0) for k in range(n_rows)]
    return Entry(StreamId(n, 0), "event", events=found, source=source)


def state(history: History) -> dict[str, list[float]]:
    tables = {"ratings": history.table, "strengths": history.strengths.table}
    return {
        name: [value for user in range(len(history.users)) for value in table.row(user)[1].tolist()]
        for name, table in tables.items()
    }


def test_a_repeated_batch_does_not_undo_what_came_between() -> None:
    history = History()
    first = Source("kafka:t/0", 9)
    history.apply([entry(1, first, value=1.0), entry(2, None, value=5.0)])
    history.apply([entry(3, first, value=1.0), entry(4, Source("kafka:t/0", 8), value=2.0)])
    assert state(history)["ratings"] == [5.0]
    assert history.position == StreamId(4, 0)
    history.apply([entry(5, Source("kafka:t/1", 0), value=3.0)])
    assert state(history)["ratings"] == [3.0]
    history.apply([entry(6, Source("kafka:t/0", 10), value=4.0)])
    assert state(history)["ratings"] == [4.0]


@given(contents, st.data())
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=50)
def test_stream_and_log_skip_the_same(
    tmp_path_factory: pytest.TempPathFactory, contents: list[tuple[Source | None, int, bool]], data: st.DataObject
) -> None:
    entries = [
        events(n, source, n_rows) if is_event else entry(n, source, n_rows)
        for n, (source, n_rows, is_event) in enumerate(contents, 1)
    ]
    streamed, plain, reached = History(), History(), dict[str, int]()
    for one in entries:
        if one.source is None or one.source.offset > reached.get(one.source.name, -1):
            plain.apply([one])
            if one.source is not None:
                reached[one.source.name] = one.source.offset
    log, rest = RatingLog(tmp_path_factory.mktemp("log")), entries
    while rest:
        n = data.draw(st.integers(1, len(rest)))
        streamed.apply(rest[:n])
        commit(log, rest[:n])
        rest = rest[n:]
    loaded = History()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(log_windows, "WINDOW_ROWS", data.draw(st.sampled_from([1, 2, 1 << 20])))
        loaded.load(log)
    assert state(streamed) == state(loaded) == state(plain)
    assert streamed.position == loaded.position == entries[-1].id
    late = [entry(99, Source(name, offset)) for name, offset in reached.items()]
    if late:
        loaded.apply(late)
        assert state(loaded) == state(plain)


@given(st.lists(st.tuples(st.sampled_from("abcde"), st.integers(0, 4)), max_size=30), st.integers(1, 4))
def test_the_sources_that_advanced_last_are_remembered(delivered: list[tuple[str, int]], n_kept: int) -> None:
    sources_of_all, kept = Sources(), list[tuple[str, int]]()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("service.engine.state.sources.MAX_SOURCES", n_kept)
        for n, (name, offset) in enumerate(delivered, 1):
            counts = offset > dict(kept).get(name, -1)
            assert len(sources_of_all.new_of([entry(n, Source(name, offset))])) == counts
            if counts:
                kept = [*(one for one in kept if one[0] != name), (name, offset)][-n_kept:]


def test_stream_and_log_forget_the_same_sources(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("service.engine.state.sources.MAX_SOURCES", 2)
    given = [(0, 3), (1, 3), (0, 4), (2, 3), (1, 2), (0, 4), (2, 3)]  # the third name drops name 1, not name 0
    entries = [entry(n, Source(f"kafka:t/{name}", offset), n_rows=2) for n, (name, offset) in enumerate(given, 1)]
    streamed, log = History(), RatingLog(tmp_path)
    streamed.apply(entries)
    commit(log, entries)
    loaded = History()
    monkeypatch.setattr(log_windows, "WINDOW_ROWS", 1)
    loaded.load(log)
    assert state(streamed)["ratings"] == state(loaded)["ratings"] == [7.0, 7.0]


def test_an_entry_without_rows_leaves_no_trace_as_the_log_has_none() -> None:
    history, source = History(), Source("kafka:t/0", 9)
    history.apply([Entry(StreamId(1, 0), "rating", source=source), entry(2, source)])
    assert state(history)["ratings"] == [2.0]


def test_a_forgotten_user_leaves_how_far_a_source_has_come(tmp_path: Path) -> None:
    log, source = RatingLog(tmp_path), Source("kafka:t/0", 9)
    commit(log, [entry(1, source, n_rows=3), Entry(StreamId(2, 0), "forget", subject="u")])
    assert log.rewrite_without("u", StreamId(2, 0)) == 1
    history = History()
    history.load(RatingLog(tmp_path))
    history.apply([entry(3, source)])
    assert history.users.row("u") is None


def test_an_entry_with_events_whose_first_user_was_forgotten_is_applied() -> None:
    mixed = Entry(StreamId(1, 0), "rating", [RatingEvent("", "a", None, 0.0)], events=[TypedEvent("u", "b", "view")])
    history = History()
    history.apply([mixed, entry(2, None), events(3, None, 1)])
    assert history.users.ids(range(2)) == ["", "u"]
    assert history.items.ids(range(3)) == ["a", "b", "i0"]
