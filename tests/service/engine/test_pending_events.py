import threading
from types import SimpleNamespace

import pytest

from gpu.base.backend import HOST
from service.base.errors import NotReady
from service.engine import pending_events as module
from service.engine.engine import Engine
from service.engine.pending_events import MAX_WAITING, EventBatch, PendingEvents
from service.engine.pending_queries import Limits
from service.engine.state.history import History
from service.storage.events import BATCH_RATINGS, Entry, RatingEvent, StreamId, portions


def entry(ms: int, n_ratings: int) -> Entry:
    return Entry(StreamId(ms, 0), "rating", [RatingEvent("u", "i", 1.0, 0.0)] * n_ratings)


def test_portions_keep_order_and_whole_entries() -> None:
    entries = [entry(ms, int(BATCH_RATINGS * 0.45)) for ms in range(1, 8)]
    parts = list(portions(entries))
    assert [one for part in parts for one in part] == entries
    assert [len(part) for part in parts] == [3, 3, 1]
    assert list(portions([])) == []
    assert list(portions([entry(1, 0)])) == [[entry(1, 0)]]


def test_waiting_batches_are_taken_together_up_to_a_limit() -> None:
    pending_events = PendingEvents()
    for ms in range(1, 6):
        pending_events.put([entry(ms, BATCH_RATINGS // 2)], lambda: False)
    assert [one.last.ms for one in pending_events.take()] == [1, 2]
    assert [one.last.ms for one in pending_events.take()] == [3, 4]
    assert len(pending_events) == 1


def test_a_full_queue_makes_the_learner_wait_and_stopping_frees_it() -> None:
    pending_events, stopping = PendingEvents(), threading.Event()
    for ms in range(MAX_WAITING):
        pending_events.put([entry(ms, 1)], stopping.is_set)
    threading.Timer(0.05, pending_events.take).start()
    pending_events.put([entry(99, 1)], stopping.is_set)
    assert len(pending_events) == 1
    stopping.set()
    with pytest.raises(NotReady):
        pending_events.put([entry(101, 1)], stopping.is_set)


@pytest.mark.parametrize(("late_s", "n_together"), [(0.0, 3), (60.0, 1)])
def test_a_late_engine_learns_batches_together(late_s: float, n_together: int, monkeypatch: pytest.MonkeyPatch) -> None:
    engine = Engine(History(), HOST, [], Limits(1, 1, 1.0))
    applied, slices = list[int](), list[int]()
    model = SimpleNamespace(settle=lambda _: len(slices) >= 3)
    monkeypatch.setattr(module, "LATE_S", late_s)
    monkeypatch.setattr(engine, "_apply", lambda runs: applied.append(len(runs)))
    monkeypatch.setattr(engine._ranking, "models", lambda: [model])
    for ms in range(1, 4):
        engine.learn([entry(ms, BATCH_RATINGS)])
    while not slices or engine._learning:
        slices.append(1)
        engine._learn_slice(is_idle=False)
    assert applied == [1] * n_together
    engine.stop()


def test_no_more_batches_than_can_wait_are_learned_together(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "LATE_S", 0.0)
    pending_events, batches = PendingEvents(), list[EventBatch]()
    assert not pending_events.may_join(batches)
    while len(batches) < MAX_WAITING:
        pending_events.put([entry(1, 1)], lambda: False)
        assert pending_events.may_join(batches)
        batches += pending_events.take()
    pending_events.put([entry(1, 1)], lambda: False)
    assert not pending_events.may_join(batches)
