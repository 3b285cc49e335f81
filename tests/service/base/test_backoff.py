import threading

from structlog.testing import capture_logs

from service.base import backoff
from service.base.backoff import Backoff
from service.storage.errors import StreamUnavailable
from service.storage.streams import verification


class Waits(threading.Event):
    """Remembers how long it was to wait, and does not."""

    def __init__(self) -> None:
        super().__init__()
        self.asked: list[float] = []

    def wait(self, timeout: float | None = None) -> bool:
        self.asked.append(timeout or 0.0)
        return False


def test_waits_grow_and_failure_and_recovery_are_logged_once() -> None:
    waits = Waits()
    one = Backoff("the worker", waits)
    with capture_logs() as lines:
        one.worked()
        for _ in range(9):
            one.failed(StreamUnavailable("gone"))
        one.failed(StreamUnavailable("refused"))
        one.worked()
        one.worked()
        one.failed(StreamUnavailable("gone"))
    assert waits.asked[:2] == [backoff.FIRST_S, 2 * backoff.FIRST_S]
    assert waits.asked[8:] == [backoff.LONGEST_S, backoff.LONGEST_S, backoff.FIRST_S]
    assert [line["log_level"] for line in lines] == ["warning", "warning", "info", "warning"]


def test_a_thread_that_waits_for_redis_finds_it_while_the_others_wait() -> None:
    """Else what only its process has is offered too late."""
    assert backoff.LONGEST_S <= verification.OTHERS_S / 2
