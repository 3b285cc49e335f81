from collections.abc import Callable

import pytest
import redis

from service.storage.errors import NewerEntry, StreamReplaced
from service.storage.events import ZERO, Entry, StreamId, encode_ratings
from service.storage.log.rating_log import RatingLog
from service.storage.streams.stream import Stream
from service.storage.streams.stream_reader import StreamReader
from tests.service.keys import RATINGS, TRIMMED
from tests.service.logs import append, commit

Make = Callable[..., Entry]


@pytest.fixture
def entries(rating_entry: Make) -> list[Entry]:
    return [rating_entry(ms, ("u", f"i{ms}", 1.0)) for ms in range(1, 41)]


@pytest.fixture
def fill(client: redis.Redis) -> Callable[[list[Entry]], None]:
    """Put entries into the stream under their own ids, as another producer may."""

    def put(entries: list[Entry]) -> None:
        for entry in entries:
            append(client, encode_ratings(entry.ratings), str(entry.id))

    return put


def read_all(reader: StreamReader, count: int = 7) -> list[Entry]:
    found: list[Entry] = []
    while batch := reader.read(0, count).entries:
        found += batch
    return found


def test_it_hands_out_every_entry_once(stream: Stream, log: RatingLog, entries: list[Entry], fill: Callable) -> None:
    reader = StreamReader(stream, log, ZERO)
    fill(entries[:20])
    assert read_all(reader) == entries[:20]
    assert read_all(reader) == []
    fill(entries[20:])
    assert read_all(reader) == entries[20:]
    assert reader.cursor == entries[-1].id


def test_a_bad_entry_is_a_noop_that_moves_the_cursor(stream: Stream, log: RatingLog, client: redis.Redis) -> None:
    client.xadd(RATINGS, {"v": "1"}, id="5-0")
    client.xadd(RATINGS, {"v": "noop"}, id="6-0")
    batch = StreamReader(stream, log, ZERO).read(0)
    assert [(entry.id, entry.kind) for entry in batch.entries] == [(StreamId(5, 0), "noop"), (StreamId(6, 0), "noop")]
    ((stream_id, fields, reason),) = batch.rejected
    assert (stream_id, fields) == (StreamId(5, 0), {b"v": b"1"})
    assert "Invalid fields" in reason


def test_it_stops_before_an_entry_of_a_newer_version(
    stream: Stream, log: RatingLog, entries: list[Entry], fill: Callable, client: redis.Redis
) -> None:
    fill(entries[:3])
    client.xadd(RATINGS, {"v": "1", "like": "x"}, id="9-0")
    client.xadd(RATINGS, {"v": "1"}, id="10-0")
    reader = StreamReader(stream, log, ZERO)
    assert reader.read(0) == (entries[:3], [])
    for _ in range(2):
        with pytest.raises(NewerEntry, match="entry 9-0 has the version b'1' and the fields like, v"):
            reader.read(0)
    assert reader.cursor == StreamId(3, 0)


@pytest.mark.parametrize("read_before", [0, 3, 10, 25])
@pytest.mark.parametrize("trimmed", [1, 9, 10, 30, 40])
def test_entries_trimmed_before_reading_come_from_the_log(
    stream: Stream, log: RatingLog, entries: list[Entry], fill: Callable, read_before: int, trimmed: int
) -> None:
    fill(entries)
    commit(log, entries[:15])
    commit(log, entries[15:])
    reader = StreamReader(stream, log, ZERO)
    found = reader.read(0, read_before).entries if read_before else []
    stream.trim(entries[trimmed - 1].id)
    assert [*found, *read_all(reader)] == entries


def test_a_gap_of_entries_without_rows_is_passed(
    stream: Stream, log: RatingLog, entries: list[Entry], fill: Callable
) -> None:
    commit(log, [*entries[:2], Entry(StreamId(3, 0), "noop"), Entry(StreamId(3, 1), "noop")])
    fill(entries[:3])
    stream.trim(StreamId(3, 1))
    fill(entries[4:])
    found = read_all(StreamReader(stream, log, ZERO))
    assert found == [*entries[:2], Entry(StreamId(3, 1), "noop"), *entries[4:]]


def test_trimming_beyond_the_log_is_not_passed_over(
    stream: Stream, log: RatingLog, entries: list[Entry], fill: Callable, client: redis.Redis
) -> None:
    fill(entries)
    commit(log, entries[:10])
    stream.trim(entries[20].id)
    reader = StreamReader(stream, log, ZERO)
    for _ in range(2):
        with pytest.raises(
            StreamReplaced, match=r"21-0.* once its store can be read again.* only to go on without them"
        ):
            reader.read(0)
    assert reader.cursor == ZERO
    client.delete(TRIMMED)
    assert read_all(reader) == entries[21:]


def test_what_the_log_of_a_replica_gets_late_is_read(
    stream: Stream, log: RatingLog, entries: list[Entry], fill: Callable
) -> None:
    fill(entries)
    commit(log, entries[:10])
    stream.trim(entries[20].id)
    reader = StreamReader(stream, log, ZERO)
    with pytest.raises(StreamReplaced):
        reader.read(0)
    commit(log, entries[10:21])  # the store is back
    assert read_all(reader) == entries
