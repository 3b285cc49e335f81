import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest

from service.engine.state import log_windows
from service.engine.state.log_windows import OneBehind, ahead, windows
from service.storage.events import Entry, StreamId
from service.storage.log.rating_log import RatingLog
from tests.service.logs import commit


def test_windows_hold_all_rows_up_to_the_end(
    log: RatingLog, rating_entry: Callable[..., Entry], monkeypatch: pytest.MonkeyPatch
) -> None:
    for ms in range(1, 8):
        commit(log, [rating_entry(ms, (f"u{ms % 2}", f"i{ms}", 1.0), ("new", "i1", 2.0))])
    monkeypatch.setattr(log_windows, "WINDOW_ROWS", 6)
    found = list(windows(log.read(), StreamId(6, 0)))
    assert [batch.column("ms").to_pylist() for batch in found] == [[1, 1, 2, 2, 3, 3], [4, 4, 5, 5, 6, 6]]
    assert found[0].column("user").dictionary.to_pylist() == ["u1", "new", "u0"]
    assert list(windows(log.read(StreamId(7, 0)), StreamId(7, 0))) == []


def test_calls_run_in_order_one_behind_and_errors_are_raised() -> None:
    begun, seen = threading.Event(), list[int]()

    def append(number: int) -> None:
        assert begun.wait(60)
        seen.append(number)

    with ThreadPoolExecutor(2) as pool:
        behind = OneBehind(pool)
        behind.run(append, 1)  # returns before the call has ended
        assert seen == []
        begun.set()
        behind.run(append, 2)
        behind.run(divmod, 1, 0)
        with pytest.raises(ZeroDivisionError):
            behind.wait()
        behind.wait()
    assert seen == [1, 2]


def test_batches_are_read_one_ahead_and_errors_come_after_what_was_read() -> None:
    read: list[int] = []

    def batches() -> Iterator[int]:
        for number in (1, 2):
            read.append(number)
            yield number
        raise ValueError("torn")

    with ThreadPoolExecutor(1) as pool:
        found = ahead(batches(), pool)
        assert next(found) == 1
        assert next(found) == 2
        assert read == [1, 2]
        with pytest.raises(ValueError, match="torn"):
            next(found)
