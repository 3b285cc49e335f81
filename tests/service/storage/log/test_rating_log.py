import errno
import os
import threading
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from service.engine.state.history import History
from service.storage.errors import CorruptLog, LockTimeout
from service.storage.events import ZERO, Entry, RatingEvent, StreamId
from service.storage.log import rating_log
from service.storage.log.rating_log import RatingLog
from service.storage.log.segment import SCHEMA
from service.storage.log.segment_folder import Segment
from service.storage.sources import Source
from tests.service.logs import END, commit, contents

Make = Callable[..., Entry]


def names(log: RatingLog) -> list[str]:
    return [segment.path.name for segment in log.files.segments()]


def test_the_name_is_the_range(log: RatingLog, rating_entry: Make) -> None:
    commit(log, [rating_entry(5, ("u", "i", 1.0)), Entry(StreamId(7, 2), "noop")])
    assert names(log) == ["0000000000000005.00000000_7.2.parquet"]
    assert log.last_id() == StreamId(7, 2)
    assert {path.name for path in log.folder.glob("*.parquet")} == set(names(log))


def test_committed_entries_are_read_back(log: RatingLog, rating_entry: Make) -> None:
    entries = [
        rating_entry(1, ("u", "a/é", 1.5), ("u", "b", None)),
        Entry(StreamId(2, 0), "hide", subject="a/é"),
        Entry(StreamId(2, 1), "forget", subject="u"),
        Entry(StreamId(3, 0), "show", subject="a/é"),
        rating_entry(4, ("u", "a/é", 2.0)),
    ]
    commit(log, entries[:2])
    commit(log, entries[2:])
    assert contents(log) == entries
    assert contents(log, StreamId(2, 0)) == entries[2:]
    assert [e for part in log.entries(ZERO, StreamId(2, 1)) for e in part] == entries[:3]


def test_columns_are_as_documented(log: RatingLog, rating_entry: Make) -> None:
    segment = commit(log, [rating_entry(1, ("u", "i", 1.0))])
    assert pa.parquet.read_schema(segment.path).equals(SCHEMA)
    metadata = pa.parquet.read_metadata(segment.path)
    assert metadata.row_group(0).column(4).compression == "ZSTD"
    assert metadata.metadata is None  # nothing that only Arrow understands
    (batch,) = log.read(columns=["user"])
    assert batch.column_names == ["ms", "seq", "user"]


def test_noops_alone_move_the_end(log: RatingLog) -> None:
    commit(log, [Entry(StreamId(4, 0), "noop")])
    assert log.last_id() == StreamId(4, 0)
    assert contents(log) == []


@given(st.lists(st.tuples(st.integers(0, 29), st.integers(1, 12)), max_size=8))
@settings(max_examples=25)
def test_overlaps_are_harmless_and_merging_drops_nothing(
    tmp_path_factory: pytest.TempPathFactory, ranges: list[tuple[int, int]]
) -> None:
    """Any set of segments that covers the entries without holes reads as the entries, before and after merging."""
    log = RatingLog(tmp_path_factory.mktemp("log"))
    entries = [Entry(StreamId(n + 1, 0), "rating", [RatingEvent("u", str(n), 1.0, 1.0)]) for n in range(30)]
    for begin in range(0, 30, 3):
        commit(log, entries[begin : begin + 3])
    for begin, n in ranges:
        commit(log, entries[begin : begin + n])
    assert contents(log) == entries
    log.compact()
    assert contents(log) == entries
    assert len(log.files.segments()) == 1
    log.clean()
    assert contents(log) == entries


def test_merging_is_tiered(log: RatingLog, rating_entry: Make) -> None:
    entries = [rating_entry(ms, ("u", f"i{ms}", 1.0)) for ms in range(1, 18)]
    for entry in entries[:7]:
        commit(log, [entry])
    assert log.compact() == 0
    commit(log, [entries[7]])
    assert log.compact() == 7
    assert names(log) == ["0000000000000001.00000000_8.0.parquet"]
    assert contents(log) == entries[:8]


KB, MB = 1 << 10, 1 << 20


@pytest.mark.parametrize(
    ("sizes", "merged"),
    [
        ([16 * KB] * 8, range(8)),
        ([1] * 9, range(9)),
        ([16 * KB] * 7, range(0)),
        ([8 * MB] * 8, range(8)),
        ([8 * MB + 1] * 8, range(0)),
        ([*[8 * MB] * 4, *[KB] * 8, *[8 * MB] * 4], range(4, 12)),
        ([*[KB] * 4, 9 * MB, *[KB] * 7], range(0)),
        ([*[KB] * 4, 9 * MB, *[KB] * 8], range(5, 13)),
        ([*[100 * KB] * 4, *[KB] * 4], range(8)),
        ([*[KB] * 7, 100 * KB], range(8)),
    ],
)
def test_segments_of_about_one_size_are_merged(tmp_path: Path, sizes: list[int], merged: range) -> None:
    segments = []
    for n, size in enumerate(sizes):
        path = tmp_path / f"{n}"
        path.touch()
        os.truncate(path, size)
        segments.append(Segment(StreamId(n, 0), StreamId(n, 0), path))
    assert rating_log.run_to_merge(segments) == [segments[n] for n in merged]


def test_merged_rows_are_in_groups_that_a_reader_can_hold(
    log: RatingLog, rating_entry: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(rating_log, "ROWS_PER_GROUP", 6)
    sizes = (5, 1, 5, 1, 3, 4, 1, 2)
    entries = [
        rating_entry(ms, *(("u", f"i{n}", 1.0) for n in range(n_rows))) for ms, n_rows in enumerate(sizes, start=1)
    ]
    for entry in entries:
        commit(log, [entry])
    assert log.compact() == 7
    assert [batch.num_rows for batch in log.read()] == [6, 6, 7, 3]
    assert contents(log) == entries


def test_a_folder_without_a_log_is_refused(log: RatingLog) -> None:
    data = log.folder / "data"
    made = RatingLog(data / "ratings")
    assert RatingLog.of(data).folder == made.folder
    made.folder.rmdir()
    with pytest.raises(FileNotFoundError, match=f"{data}: expected a folder ratings"):
        RatingLog.of(data)


def test_a_reader_survives_merging(log: RatingLog, rating_entry: Make) -> None:
    entries = [rating_entry(ms, ("u", f"i{ms}", 1.0)) for ms in range(1, 13)]
    for entry in entries[:10]:
        commit(log, [entry])
    reader = log.entries(ZERO, END)
    found = [*next(reader), *next(reader)]
    log.compact()
    commit(log, entries[10:])
    assert [*found, *(entry for part in reader for entry in part)] == entries


def test_readers_and_a_merging_writer_at_once(log: RatingLog, rating_entry: Make) -> None:
    failures: list[str] = []
    done = threading.Event()

    def read_all() -> None:
        while not done.is_set():
            found = [entry.id.ms for entry in contents(log)]
            if found != list(range(1, len(found) + 1)):
                failures.append(f"got {found}")

    readers = [threading.Thread(target=read_all) for _ in range(2)]
    for reader in readers:
        reader.start()
    for ms in range(1, 80):
        commit(log, [rating_entry(ms, ("u", "i", 1.0))])
        log.compact()
    done.set()
    for reader in readers:
        reader.join()
    assert failures == []


def test_rewriting_drops_one_users_earlier_rows_and_nothing_else(log: RatingLog, rating_entry: Make) -> None:
    kept = [
        rating_entry(1, ("v", "a", 1.0)),
        Entry(StreamId(2, 0), "hide", subject="u"),  # an item of the same name
        Entry(StreamId(5, 0), "forget", subject="u"),
        rating_entry(6, ("u", "a", 5.0)),
    ]
    mixed = rating_entry(1, ("v", "a", 1.0), ("u", "a", 3.0), ("u", "a", None))
    commit(log, [mixed, kept[1], rating_entry(3, ("u", "a", 4.0))])
    commit(log, [rating_entry(4, ("w", "a", 4.0))])
    commit(log, kept[2:])
    before = names(log)
    assert log.rewrite_without("u", StreamId(5, 0)) == 1
    assert contents(log) == [*kept[:2], rating_entry(4, ("w", "a", 4.0)), *kept[2:]]
    assert names(log) == before
    assert log.rewrite_without("u", StreamId(5, 0)) == 0
    assert b"u" not in _distinct_users(log.files.segments()[0].path)


def test_who_was_the_first_to_name_an_item_leaves_the_item(log: RatingLog, rating_entry: Make) -> None:
    """Rows are given out in order of first sight: they must not change."""
    commit(log, [Entry(StreamId(1, 0), "hide", subject="h"), rating_entry(2, ("v", "a", 1.0), ("u", "b", 2.0))])
    commit(log, [rating_entry(3, ("u", "a", 1.0), ("u", "h", 2.0), ("u", "c", 3.0), ("w", "d", 4.0))])
    commit(log, [rating_entry(4, ("w", "c", 1.0), ("u", "c", None), ("u", "e", 2.0))])
    commit(log, [Entry(StreamId(5, 0), "forget", subject="u"), rating_entry(6, ("u", "f", 5.0))])
    before = History()
    before.load(RatingLog(log.folder))
    for _ in range(2):  # again, as after a kill
        log.rewrite_without("u", StreamId(5, 0))
    named = [(r.user, r.item, r.rating) for entry in contents(log) for r in entry.ratings]
    assert named == [
        ("v", "a", 1.0),
        ("", "b", None),
        ("", "c", None),
        ("w", "d", 4.0),
        ("w", "c", 1.0),
        ("", "e", None),
        ("u", "f", 5.0),
    ]
    after, followed = History(), History()
    after.load(RatingLog(log.folder))
    followed.apply(contents(log))  # as where the stream was trimmed
    for history in (after, followed):
        assert history.items.ids(range(len(history.items))) == before.items.ids(range(len(before.items)))
        assert history.table.n_ratings == before.table.n_ratings == 4
        assert history.hidden.tolist() == before.hidden.tolist()


def test_how_far_a_source_has_come_stays_when_its_user_is_forgotten(log: RatingLog) -> None:
    def sent(ms: int, *users: str) -> Entry:
        rows = [RatingEvent(user, "a", 1.0, 1.0) for user in users]
        return Entry(StreamId(ms, 0), "rating", rows, source=Source("kafka:t/0", ms, "key"))

    commit(log, [Entry(StreamId(1, 0), "rating", [RatingEvent("v", "a", 1.0, 1.0)])])
    commit(log, [sent(2, "v", "u", "u"), sent(3, "u", "u", "v"), sent(4, "u")])
    log.rewrite_without("u", StreamId(9, 0))
    _, *left = contents(log)
    assert [(entry.source and entry.source.offset, [one.user for one in entry.ratings]) for entry in left] == [
        (2, ["v"]),
        (3, ["", "v"]),
        (4, [""]),
    ]
    assert {entry.source and entry.source.owner for entry in left} == {"key"}


def _distinct_users(path: Path) -> set[bytes]:
    return {name.encode() for name in pa.parquet.read_table(path).column("user").to_pylist() if name}


def test_merging_gives_way_and_rewriting_waits(
    log: RatingLog, rating_entry: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(rating_log, "_MAINTENANCE_TIMEOUT_S", 0.01)
    for ms in range(1, 10):
        commit(log, [rating_entry(ms, ("u", "i", 1.0))])
    with log._maintenance(wait=True):
        other = RatingLog(log.folder)
        assert other.compact() == 0
        other.clean()
        with pytest.raises(LockTimeout):
            other.rewrite_without("u", END)
    assert len(contents(log)) == 9
    assert log.compact() == 8


# --- damage


def test_a_torn_segment_is_refused_by_name(log: RatingLog, rating_entry: Make) -> None:
    segment = commit(log, [rating_entry(1, ("u", "i", 1.0))])
    data = segment.path.read_bytes()
    for torn in (b"", data[: len(data) // 2], data[:-1]):
        segment.path.write_bytes(torn)
        with pytest.raises(CorruptLog, match=segment.path.name):
            contents(log)


def test_an_altered_page_is_noticed(log: RatingLog, rating_entry: Make) -> None:
    segment = commit(log, [rating_entry(1, *(("u", f"item-{n}", float(n % 5)) for n in range(500)))])
    data = segment.path.read_bytes()
    end = pa.parquet.ParquetFile(segment.path).metadata.row_group(0).column(7)
    end_of_pages = end.data_page_offset + end.total_compressed_size
    unnoticed = []
    for position in range(4, end_of_pages, 97):
        altered = bytearray(data)
        altered[position] ^= 0x10
        segment.path.write_bytes(altered)
        try:
            found = contents(log)
        except CorruptLog:
            continue
        if found != [rating_entry(1, *(("u", f"item-{n}", float(n % 5)) for n in range(500)))]:
            unnoticed.append(position)
    assert unnoticed == []


@pytest.mark.parametrize("failing", ["fsync", "write"])
def test_a_full_disk_commits_nothing_and_the_same_commit_works_later(
    log: RatingLog, rating_entry: Make, monkeypatch: pytest.MonkeyPatch, failing: str
) -> None:
    def full(*_: object) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    entries = [rating_entry(1, ("u", "i", 1.0))]
    with monkeypatch.context() as patch:
        patch.setattr(
            f"service.storage.log.segment_folder.{'os.fsync' if failing == 'fsync' else 'write_groups'}", full
        )
        with pytest.raises(OSError, match="No space"):
            commit(log, entries)
        assert [*log.folder.glob("*.parquet"), *log.folder.glob(".tmp-*")] == []
        assert log.files._manifest.read() == {}
    commit(log, entries)
    assert contents(log) == entries


def test_leftovers_of_a_killed_writer_go(log: RatingLog, rating_entry: Make) -> None:
    commit(log, [rating_entry(ms, ("u", "i", 1.0)) for ms in (1, 2)])
    for ms in (1, 2):
        commit(log, [rating_entry(ms, ("u", "i", 1.0))])  # covered, as after a kill between merging and removing
    (log.folder / ".tmp-1-something.parquet").write_bytes(b"half")
    (log.folder / "notes.txt").write_text("not ours")
    log.clean()
    assert names(log) == [*log.files.listed()] == ["0000000000000001.00000000_2.0.parquet"]
    assert sorted(path.name for path in log.folder.iterdir() if path.suffix != ".lock") == [
        *names(log),
        "manifest.json",
        "notes.txt",
    ]
