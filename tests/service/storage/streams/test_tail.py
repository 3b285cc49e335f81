"""`Tail`: bounded, in order, without what the log has."""

from service.storage.events import ZERO, StreamId
from service.storage.streams.tail import Tail

FIELDS = {b"v": b"1", b"ratings": b"x" * 90}
N_BYTES = sum(len(name) + len(value) for name, value in FIELDS.items())


def test_entries_come_in_order_each_once() -> None:
    tail = Tail()
    for ms in (3, 1, 2, 1):
        tail.note([(StreamId(ms, 0), FIELDS)])
    assert [stream_id.ms for stream_id, _ in tail.after(ZERO)] == [1, 2, 3]
    assert [stream_id.ms for stream_id, _ in tail.after(StreamId(1, 0))] == [2, 3]
    assert tail.highest == StreamId(3, 0)


def test_what_the_log_has_is_dropped_and_still_counts() -> None:
    tail = Tail()
    tail.note((StreamId(ms, 0), FIELDS) for ms in range(5))
    tail.drop(StreamId(4, 0))
    assert (len(tail), tail.ids(), tail.highest) == (0, set(), StreamId(4, 0))


def test_beyond_its_bytes_the_oldest_go() -> None:
    tail = Tail(max_bytes=3 * N_BYTES)
    for ms in range(10):
        for _ in range(2):  # what is there already takes no room
            tail.note([(StreamId(ms, 0), FIELDS)])
    assert [stream_id.ms for stream_id, _ in tail.after(ZERO)] == [7, 8, 9]
    tail.drop(StreamId(8, 0))
    tail.note((StreamId(ms, 0), FIELDS) for ms in (10, 11))
    assert [stream_id.ms for stream_id, _ in tail.after(ZERO)] == [9, 10, 11]
