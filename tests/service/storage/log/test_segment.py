import contextlib
import itertools
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from service.storage.documents import Document
from service.storage.errors import CorruptLog
from service.storage.events import ZERO, Entry, Merge, RatingEvent, Retraction, StreamId, TypedEvent
from service.storage.item_changes import ItemChange
from service.storage.log.introductions import without
from service.storage.log.ownership import UserRows
from service.storage.log.segment import (
    SCHEMA,
    are_above,
    are_below,
    behind,
    check_rows,
    entries_of,
    holds,
    plain,
    read_groups,
    table_of,
    write_groups,
)
from service.storage.sources import Source, Unmark
from service.storage.user_changes import UserChange

ids = st.text('ab/é日"\\\0', min_size=1, max_size=8)
events = st.builds(RatingEvent, ids, ids, st.one_of(st.none(), st.floats(-1e6, 1e6, width=32)), st.floats(0, 4e9))


def rating(ms: int, user: str) -> Entry:
    return Entry(StreamId(ms, 0), "rating", [RatingEvent(user, "i", 1.0, 2.0)])


sources = st.none() | st.builds(Source, ids, st.integers(0, 2**63 - 1), st.one_of(st.just(""), ids))


def test_a_group_has_the_rows_of_one_write(tmp_path: Path) -> None:
    path = tmp_path / "segment"
    parts = [table_of([rating(1, "u"), rating(2, "v")]), table_of([]), table_of([rating(3, "w")])]
    with path.open("wb") as file:
        write_groups(file, parts)
    groups = list(read_groups(path, None))
    assert [group.num_rows for group in groups] == [2, 1]
    assert pa.types.is_dictionary(groups[0].column("user").type)
    assert holds(read_groups(path, ["user"]), "w")
    assert not holds(read_groups(path, ["user"]), "x")
    with pytest.raises(FileNotFoundError):
        next(read_groups(tmp_path / "none", None))


def test_an_altered_page_is_noticed_without_a_manifest_too(tmp_path: Path) -> None:
    path = tmp_path / "segment"
    with path.open("wb") as file:
        write_groups(
            file,
            [table_of([Entry(StreamId(1, 0), "rating", [RatingEvent(f"{n}", "i", 1.0, 2.0)]) for n in range(1000)])],
        )
    intact = path.read_bytes()
    column = pq.read_metadata(path).row_group(0).column(SCHEMA.names.index("user"))
    first = column.dictionary_page_offset or 0
    for position in range(first + 100, column.data_page_offset, 50):
        altered = bytearray(intact)
        altered[position] ^= 1
        path.write_bytes(altered)
        with pytest.raises(CorruptLog, match="CRC"):
            list(read_groups(path, None))


def test_items_are_rows_with_data_beside_other_kinds() -> None:
    entries = [
        rating(1, "u"),
        Entry(StreamId(2, 0), "item", items=[ItemChange("a", tags={"x": ["y"]}), ItemChange("b", op="delete")]),
        Entry(StreamId(3, 0), "item", items=[ItemChange("a", op="patch", published=None)]),
        Entry(StreamId(4, 0), "hide", subject="a"),
        Entry(StreamId(5, 0), "document", document=Document("scenario", "a", "{}")),
        Entry(StreamId(5, 1), "document", document=Document("scenario", "a")),
        Entry(StreamId(6, 0), "unmark", unmark=Unmark("kafka:t/0", None)),
        Entry(StreamId(7, 0), "unmark", unmark=Unmark("kafka:t/0", "")),
        Entry(StreamId(8, 0), "retract", retract=Retraction("u", "order-1")),
        Entry(StreamId(9, 0), "merge", merge=Merge("u", "v")),
        Entry(StreamId(10, 0), "user", user_changes=[UserChange("u", tags={"x": ["y"]}), UserChange("v")]),
        Entry(StreamId(11, 0), "forget", subject="u"),
    ]
    (batch,) = table_of(entries).to_batches()
    assert batch.column("index").to_pylist() == [0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 0]
    assert batch.column("item").to_pylist() == ["i", "a", "b", "a", "a", *[None] * 9]
    assert batch.column("user").to_pylist() == ["u", *[None] * 8, "u", "v", "u", "v", "u"]
    assert entries_of(batch) == entries


def test_a_segment_of_an_older_version_has_no_data(tmp_path: Path) -> None:
    path = tmp_path / "segment"
    pq.write_table(table_of([rating(1, "u")]).drop(["data"]), path)
    (batch,) = read_groups(path, None)
    assert batch.column("data").to_pylist() == [None]
    assert entries_of(batch) == [rating(1, "u")]


def test_rows_can_be_left_out() -> None:
    (batch,) = table_of([rating(1, "u"), rating(2, "v"), rating(3, "u")]).to_batches()
    assert behind(batch, StreamId(1, 0)).column("ms").to_pylist() == [2, 3]
    assert without(_as_read(batch), [UserRows("u", ZERO, StreamId(3, 0))], set()).column("ms").to_pylist() == [2, 3]


positions = st.builds(StreamId, st.integers(0, 3), st.integers(0, 3))


@given(st.lists(st.tuples(positions, st.sampled_from("uv"))), positions, positions)
def test_rows_are_compared_as_their_positions_are(
    rows: list[tuple[StreamId, str]], one: StreamId, other: StreamId
) -> None:
    table = table_of([Entry(position, "rating", [RatingEvent(user, "i", 1.0, 2.0)]) for position, user in rows])
    (batch,) = table.to_batches() or [pa.RecordBatch.from_pylist([], SCHEMA)]
    assert are_below(batch, one).tolist() == [position < one for position, _ in rows]
    assert are_above(batch, one).tolist() == [position > one for position, _ in rows]
    assert UserRows("u", one, other).of(batch).tolist() == [
        user == "u" and one < position < other for position, user in rows
    ]


def test_what_is_left_out_leaves_no_trace_when_written(tmp_path: Path) -> None:
    path = tmp_path / "segment"
    with path.open("wb") as file:
        write_groups(file, [table_of([rating(1, "somebody"), rating(2, "else")])])
    kept = [
        plain(without(batch, [UserRows("somebody", ZERO, StreamId(9, 0))], set())) for batch in read_groups(path, None)
    ]
    with path.open("wb") as file:
        write_groups(file, kept)
    assert b"somebody" not in path.read_bytes()
    assert not holds(read_groups(path, ["user"]), ["somebody"])


typed = st.builds(
    TypedEvent,
    ids,
    ids,
    st.sampled_from(["view", "purchase"]),
    st.floats(-1e6, 1e6),
    st.floats(0, 4e9),
    st.one_of(st.none(), ids),
)


contents = st.one_of(st.lists(events, min_size=1, max_size=3), st.lists(typed, min_size=1, max_size=3))


@given(st.lists(st.tuples(contents, sources), max_size=6))
@settings(max_examples=50)
def test_ratings_and_events_to_rows_and_back(
    contents: list[tuple[list[RatingEvent] | list[TypedEvent], Source | None]],
) -> None:
    entries = [
        Entry(StreamId(5, n), "rating", content, source=source)
        if isinstance(content[0], RatingEvent)
        else Entry(StreamId(5, n), "event", events=content, source=source)
        for n, (content, source) in enumerate(contents)
    ]
    assert [e for batch in table_of(entries).to_batches() for e in entries_of(batch)] == entries


PLACES = [*itertools.product((1, 2), (0, 1), (0, 1))]  # ms, seq and index of a row


def test_rows_are_checked_to_ascend_within_their_segment() -> None:
    cases = [(rows, ZERO, StreamId(9, 0)) for n in range(3) for rows in itertools.product(PLACES, repeat=n)]
    ends = [StreamId(ms, seq) for ms in (1, 2) for seq in (0, 1)]
    cases += [((place,), first, last) for place in PLACES for first in ends for last in ends]
    for rows, first, last in cases:
        table = pa.table([pa.array([row[n] for row in rows], pa.int64()) for n in range(3)], ["ms", "seq", "index"])
        (batch,) = table.to_batches() or [pa.RecordBatch.from_pylist([], table.schema)]
        is_right = [*rows] == sorted(set(rows)) and all(first <= StreamId(ms, seq) <= last for ms, seq, _ in rows)
        with contextlib.nullcontext() if is_right else pytest.raises(CorruptLog, match="in order"):
            check_rows(batch, first, last, Path("segment"))


def test_segments_of_older_versions_are_filled_with_nulls(tmp_path: Path) -> None:
    path = tmp_path / "segment"
    pq.write_table(
        table_of([rating(1, "u")]).drop_columns(["data", "type", "value", "event_id"]), path, write_page_checksum=True
    )
    (batch,) = read_groups(path, None)
    assert entries_of(batch) == [rating(1, "u")]
    assert set(batch.schema.names) == set(SCHEMA.names)
    assert next(read_groups(path, ["ms", "user"])).schema.names == ["ms", "user"]


def test_an_event_that_introduced_an_item_stays_as_a_deletion_by_nobody() -> None:
    event = TypedEvent("somebody", "i", "view", 2.0, 9.0, "order-7")
    (batch,) = table_of([Entry(StreamId(1000, 0), "event", events=[event])]).to_batches()
    (kept,) = entries_of(without(_as_read(batch), [UserRows("somebody", ZERO, StreamId(2000, 0))], {(1000, 0, 0)}))
    assert kept == Entry(StreamId(1000, 0), "rating", [RatingEvent("", "i", None, 1.0)])


def _as_read(batch: pa.RecordBatch) -> pa.RecordBatch:
    """`batch` with the dictionaries of one that was read."""
    encoded = {
        name: batch.column(name).dictionary_encode() if name in ("kind", "user", "item") else batch.column(name)
        for name in batch.schema.names
    }
    return pa.RecordBatch.from_pydict(encoded)
