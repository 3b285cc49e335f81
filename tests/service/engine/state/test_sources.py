"""A batch that a queue delivers twice counts once: in the stream, in the log, and however both are read."""

from pathlib import Path

import msgspec
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from service.engine.queries.source_queries import (
    CheckSource,
    FindSource,
    ListSources,
    OffsetTooFar,
    TooManySources,
    WasSkipped,
)
from service.engine.state import log_windows
from service.engine.state.history import History
from service.engine.state.sources import MAX_GAP, SourceMarks
from service.storage.events import Entry, RatingEvent, StreamId, TypedEvent
from service.storage.log.rating_log import RatingLog
from service.storage.sources import Source, Unmark
from tests.service.logs import commit

NAMES, OWNERS = ["kafka:t/0", "kafka:t/1"], ["", "write_key", "3fa94c"]
sources = st.none() | st.builds(Source, st.sampled_from(NAMES), st.integers(0, 5), st.sampled_from(OWNERS))
unmarks = st.builds(Unmark, st.sampled_from(NAMES), st.none() | st.sampled_from(OWNERS))
contents = st.lists(st.tuples(sources, st.integers(1, 3), st.booleans()) | unmarks, min_size=1, max_size=14)


def entry(n: int, source: Source | None, n_rows: int = 1, value: float | None = None) -> Entry:
    ratings = [RatingEvent("u", f"i{k}", float(n) if value is None else value, 0.0) for k in range(n_rows)]
    return Entry(StreamId(n, 0), "rating", ratings, source=source)


def events(n: int, source: Source | None, n_rows: int) -> Entry:
    found = [TypedEvent("u", f"i{k}", "view", 1.0, 0.0) for k in range(n_rows)]
    return Entry(StreamId(n, 0), "event", events=found, source=source)


def made(n: int, content: tuple[Source | None, int, bool] | Unmark) -> Entry:
    if isinstance(content, Unmark):
        return Entry(StreamId(n, 0), "unmark", unmark=content)
    source, n_rows, is_event = content
    return events(n, source, n_rows) if is_event else entry(n, source, n_rows)


def was_skipped(history: History, stream_id: StreamId) -> bool:
    return history.sources.was_skipped(WasSkipped(str(stream_id)), "").was_skipped


def marks(history: History) -> dict[tuple[str | None, str], int]:
    return {(one.key, one.source): one.offset for one in history.sources.list(ListSources(99, 0), "").sources}


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
    tmp_path_factory: pytest.TempPathFactory,
    contents: list[tuple[Source | None, int, bool] | Unmark],
    data: st.DataObject,
) -> None:
    entries = [made(n, content) for n, content in enumerate(contents, 1)]
    streamed, plain, reached, skipped = History(), History(), dict[tuple[str, str], int](), list[StreamId]()
    for one in entries:
        if one.unmark is not None:
            for owner in OWNERS if one.unmark.owner is None else [one.unmark.owner]:
                reached.pop((owner, one.unmark.name), None)
            continue
        if one.source is not None:
            of_all = reached.get(("", one.source.name), -1)
            if one.source.offset <= reached.get((one.source.owner, one.source.name), of_all):
                skipped.append(one.id)
                continue
            reached[one.source.owner, one.source.name] = one.source.offset
        plain.apply([msgspec.structs.replace(one, source=None)])
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
    assert [one.id for one in entries if was_skipped(streamed, one.id)] == skipped
    assert marks(streamed) == marks(loaded) == {(owner or None, name): n for (owner, name), n in reached.items()}
    late = [entry(99, Source(name, offset, owner)) for (owner, name), offset in reached.items()]
    if late:
        loaded.apply(late)
        assert state(loaded) == state(plain)


@given(st.lists(st.tuples(st.sampled_from("abcde"), st.integers(0, 4)), max_size=30), st.integers(1, 4))
def test_the_sources_that_advanced_last_are_remembered(delivered: list[tuple[str, int]], n_kept: int) -> None:
    sources_of_all, kept = SourceMarks(), list[tuple[str, int]]()
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


def test_no_key_moves_the_sources_of_another_one() -> None:
    history = History()
    history.apply([entry(1, Source("kafka:t/0", 9, "bridge"), value=1.0)])
    history.apply([entry(2, Source("kafka:t/0", 2**63 - 1, "other"), value=2.0)])
    history.apply([entry(3, Source("kafka:t/0", 10, "bridge"), value=3.0)])
    assert state(history)["ratings"] == [3.0]


def test_what_was_sent_without_a_key_counts_once_for_those_who_got_keys_later() -> None:
    history = History()
    history.apply([entry(1, Source("kafka:t/0", 9), value=1.0), entry(2, None, value=5.0)])
    history.apply([entry(3, Source("kafka:t/0", 9, "write_key"), value=1.0)])
    assert state(history)["ratings"] == [5.0]
    history.apply([entry(4, Source("kafka:t/0", 10, "write_key"), value=2.0)])
    assert state(history)["ratings"] == [2.0]


def test_an_offset_far_ahead_of_the_last_one_is_refused_and_a_first_one_is_not() -> None:
    found = SourceMarks()
    assert not found.check(CheckSource(Source("q", 2**63 - 1)), "").was_skipped
    found.new_of([entry(1, Source("q", 5))])
    found.check(CheckSource(Source("q", 5 + MAX_GAP)), "")
    found.check(CheckSource(Source("q", 0)), "")
    for owner in ("", "write_key"):  # what was sent without a key holds for every key
        with pytest.raises(OffsetTooFar, match=r"expected at most 100,000,005, .*; got 100,000,006"):
            found.check(CheckSource(Source("q", 6 + MAX_GAP, owner)), "")
    found.unmark(Unmark("q", None))
    found.check(CheckSource(Source("q", 6 + MAX_GAP)), "")


def test_the_newest_skipped_entries_are_remembered(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("service.engine.state.sources.N_SKIPPED", 2)
    history = History()
    history.apply([entry(n, Source("q", 0)) for n in range(1, 5)])
    assert [was_skipped(history, StreamId(n, 0)) for n in range(1, 5)] == [False, False, True, True]


def test_a_key_names_a_bounded_number_of_sources_and_takes_none_from_others(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("service.engine.state.sources.MAX_OF_KEY", 3)
    monkeypatch.setattr("service.engine.state.sources.MAX_SOURCES", 3)
    monkeypatch.setattr("service.engine.state.sources.MAX_SOURCES_OF_ALL", 5)
    found = SourceMarks()
    for n in range(9):
        found.new_of([entry(n + 1, Source(f"q{n}", n, "greedy")), entry(n + 1, Source("q", n, "bridge"))])
    assert [one.key for one in found.list(ListSources(99, 0), "").sources].count("greedy") == 3
    with pytest.raises(TooManySources, match="expected one of the 3 that this key has named before"):
        found.check(CheckSource(Source("another", 0, "greedy")), "")
    found.check(CheckSource(Source("q8", 9, "greedy")), "")
    found.check(CheckSource(Source("another", 0, "bridge")), "")
    for n in range(9):  # the key that has most of all sources gives some up, however few it has itself
        found.new_of([entry(n + 20, Source("q", 0, f"key{n}"))])
    listed = found.list(ListSources(99, 0), "")
    assert listed.n_sources == 5
    assert [one.key for one in listed.sources].count("greedy") <= 1


def test_sources_are_listed_by_who_advanced_last_and_found_by_name() -> None:
    found = SourceMarks()
    found.new_of([entry(1, Source("a", 3)), entry(2, Source("b", 4, "w")), entry(3, Source("a", 1, "w"))])
    found.new_of([entry(4, Source("a", 9, "w"))])
    listed = found.list(ListSources(2, 0), "4-0").sources
    assert [(one.source, one.key, one.offset, one.stream_id) for one in listed] == [
        ("a", "w", 9, "4-0"),
        ("b", "w", 4, "2-0"),
    ]
    assert [one.key for one in found.find(FindSource("a", None), "").sources] == [None, "w"]
    assert [one.key for one in found.find(FindSource("a", ""), "").sources] == [None]
    assert found.find(FindSource("b", ""), "").sources == []


def test_an_entry_without_rows_leaves_no_trace_as_the_log_has_none() -> None:
    history, source = History(), Source("kafka:t/0", 9)
    history.apply([Entry(StreamId(1, 0), "rating", source=source), entry(2, source)])
    assert state(history)["ratings"] == [2.0]


def test_a_forgotten_user_leaves_how_far_a_source_has_come(tmp_path: Path) -> None:
    log, source = RatingLog(tmp_path), Source("kafka:t/0", 9, "write_key")
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
