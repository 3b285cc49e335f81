import asyncio
import contextlib
import math
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from gpu.algorithms import ALGORITHMS
from gpu.base.backend import HOST, Backend
from gpu.base.errors import BackendUnavailable
from service.base.errors import NotReady, Overloaded
from service.engine import engine as engine_module
from service.engine.background import SLICE_S, Slices
from service.engine.catch_up import CatchUp
from service.engine.engine import Engine
from service.engine.errors import NotSeenYet, UnknownUser
from service.engine.models.live_model import LiveModel
from service.engine.pending_queries import Limits
from service.engine.queries import Popular, Recommend, UserRatings
from service.engine.queries.document_queries import ListDocuments
from service.engine.state.history import History
from service.engine.state.rating_runs import RatingRun
from service.storage.events import Entry, StreamId
from tests.service.planted import SMALL, events, liking
from tests.service.waiting import eventually
from tests.service.whole import LIMITS, SEEN_S, Whole

LONG = ListDocuments(kind="scenario")


def test_ratings_are_seen_before_any_model(whole: Whole) -> None:
    empty = whole.recommend("ann")
    assert (empty.items, empty.personalized, empty.model, empty.fallback) == ([], False, None, "popular")
    assert empty.warnings == ["there are no ratings yet, or only dislikes"]
    last = whole.rate(("ann", "x", 4.0), ("bob", "x", 5.0), ("bob", "y/ö", 1.0))
    assert str(whole.engine.as_of) == str(last)
    assert [item.item for item in whole.ask(Popular()).items] == ["x", "y/ö"]
    assert whole.shown("ann") == ["y/ö"]
    assert whole.shown("ann", include_seen=True) == ["x", "y/ö"]
    assert whole.shown("new") == ["x", "y/ö"]
    ratings = whole.ask(UserRatings(user="bob")).ratings
    assert [(one.item, one.rating, one.timestamp) for one in ratings] == [("y/ö", 1.0, 1.0), ("x", 5.0, 1.0)]
    whole.rate(("bob", "x", None))
    assert [one.item for one in whole.ask(UserRatings(user="bob")).ratings] == ["y/ö"]
    with pytest.raises(UnknownUser):
        whole.recommend("new", fallback="none")


def test_a_rating_changes_the_next_recommendation(whole: Whole) -> None:
    whole.send(events())
    whole.train("culsh", **SMALL)
    answer = whole.recommend("u0", n=5)
    assert (answer.personalized, answer.model) == (True, "culsh")
    assert answer.model_version == whole.hotswap.served()["culsh"]
    seen = {event.item for event in events() if event.user == "u0"}
    assert not seen & {item.item for item in answer.items}
    whole.rate(("new", "i0", 5.0))
    once = whole.recommend("new", n=10, exclude=["i2"])
    assert once.personalized
    assert "i0" not in {item.item for item in once.items}
    assert "i2" not in {item.item for item in once.items}
    taste = [("new", f"i{item}", liking(0, item)) for item in range(12)]
    whole.rate(*taste)
    even = whole.shown("new", n=10)
    assert sum(int(item[1:]) % 2 == 0 for item in even) >= 9
    whole.rate(*((user, item, 6.0 - value) for user, item, value in taste))
    assert sum(int(item[1:]) % 2 == 1 for item in whole.shown("new", n=10)) >= 9


def test_one_answer_does_not_depend_on_the_batch(whole: Whole) -> None:
    whole.send(events())
    whole.train("culsh", **SMALL)
    queries: list[Any] = [
        Recommend(
            user=f"u{user}", n=3 + user % 5, offset=user % 3, include_seen=user % 2 == 0, exclude=["i3"][: user % 2]
        )
        for user in range(40)
    ]
    queries += [Recommend(users=["u1", "nobody", "u2"]), Recommend(user="nobody", fallback="none"), Popular()]
    together = whole.ask_all(queries)
    assert isinstance(together[41], UnknownUser)
    for query, answer in zip(queries, together, strict=True):
        if not isinstance(answer, Exception):
            assert whole.ask(query) == answer
    assert [one.personalized for one in together[40]] == [True, False, True]


def test_waiting_for_a_missing_entry_times_out(whole: Whole) -> None:
    last = whole.rate(("a", "b", 1.0))

    async def wait() -> None:
        await whole.engine.wait_for(last, SEEN_S)
        await whole.engine.wait_for(StreamId(last.ms + 100_000, 0), 0.05)

    with pytest.raises(NotSeenYet):
        asyncio.run_coroutine_threadsafe(wait(), whole.loop).result(60)


def test_a_failing_slice_affects_no_request(whole: Whole) -> None:
    def failing() -> Any:
        yield
        raise MemoryError

    with pytest.raises(MemoryError):
        whole.engine.run_slices(failing()).result(60)
    assert whole.ask(Popular()).items == []


def test_background_work_takes_a_small_share_while_queries_keep_coming(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(engine_module, "LONG_WAIT_S", 60.0)
    steps: list[int] = []

    def endless() -> Slices:
        while True:
            steps.append(1)
            yield

    async def rounds() -> None:
        engine = Engine(History(), HOST, [], LIMITS)
        engine._pending_queries.connect(asyncio.get_running_loop())
        engine.run_slices(endless())
        for _ in range(20):
            answer = engine.ask(Popular())
            await asyncio.sleep(0)  # the queries of one turn of the loop are handed over together
            engine._step()
            assert (await answer).items == []
        assert len(steps) == 1  # the first was due
        engine._step()
        assert len(steps) == 2
        engine.stop()

    asyncio.run(rounds())


def engine_of_slices(n: float, limits: Limits = LIMITS) -> Engine:
    """An engine that goes on step by step, and answers `LONG` in `n` slices."""

    def slices() -> Slices:
        done = 0
        while done < n:
            done += 1
            yield
        return done

    engine = Engine(History(), HOST, [], limits)
    engine._pending_queries.connect(asyncio.get_running_loop())
    engine.answer_to[ListDocuments] = lambda query, as_of: slices()
    return engine


async def steps_until_done(engine: Engine, *asked: asyncio.Future[Any]) -> None:
    while not all(future.done() for future in asked):
        await asyncio.sleep(0)
        engine._step()


def test_an_answer_in_slices_gives_way_to_others(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(engine_module, "LONG_WAIT_S", 60.0)

    async def rounds() -> None:
        engine = engine_of_slices(3)
        engine._long.last_s = time.monotonic()  # the next slice is not due while others keep coming
        long = engine.ask(LONG)
        for _ in range(20):
            answer = engine.ask(Popular())
            await asyncio.sleep(0)
            engine._step()
            assert (await answer).items == []
        assert not long.done()
        await steps_until_done(engine, long)
        assert long.result() == 3
        engine.stop()

    asyncio.run(rounds())


def test_background_work_and_answers_in_slices_take_turns() -> None:
    steps: list[int] = []

    def endless() -> Slices:
        while True:
            steps.append(1)
            yield

    async def rounds() -> None:
        engine = engine_of_slices(20)
        engine.run_slices(endless())
        await steps_until_done(engine, engine.ask(LONG))
        assert 18 <= len(steps) <= 22
        engine.stop()

    asyncio.run(rounds())


def test_few_answers_are_in_slices_at_once() -> None:
    async def rounds() -> None:
        engine = engine_of_slices(3)
        asked = [engine.ask(LONG) for _ in range(engine_module.MOST_LONG + 2)]
        await steps_until_done(engine, *asked)
        refused = [isinstance(future.exception(), Overloaded) for future in asked]
        assert refused == [False] * engine_module.MOST_LONG + [True] * 2
        again = engine.ask(LONG)  # there is room again
        await steps_until_done(engine, again)
        assert again.result() == 3
        engine.stop()

    asyncio.run(rounds())


def test_slices_end_when_nobody_waits_for_them_any_more() -> None:
    async def rounds() -> None:
        engine = engine_of_slices(math.inf, LIMITS._replace(max_wait_s=0.2))
        late, gone = engine.ask(LONG), engine.ask(LONG)
        await asyncio.sleep(0)
        engine._step()
        gone.cancel()
        await steps_until_done(engine, late)
        assert isinstance(late.exception(), Overloaded)
        while engine._long:
            engine._step()
        last = engine.ask(LONG)
        await asyncio.sleep(0)
        engine._step()
        engine._long.abandon(NotReady("the engine has stopped"))
        await steps_until_done(engine, last)
        assert isinstance(last.exception(), NotReady)
        assert not engine._long
        engine.stop()

    asyncio.run(rounds())


def test_queries_are_answered_while_much_is_learned_and_mapped(whole: Whole) -> None:
    whole.send(events())
    whole.train("culsh", **SMALL)
    done = threading.Event()

    def endless() -> Any:
        while not done.is_set():
            time.sleep(0.001)
            yield

    future = whole.engine.run_slices(endless())
    flood = [Entry(StreamId(2**60 + n, 0), "rating", events()[n * 5 : n * 5 + 5]) for n in range(200)]
    whole.engine.learn(flood)
    waits = []
    clock = time.pthread_getcpuclockid(whole.engine._thread.ident or 0)  # what the engine does before it answers
    while whole.engine.as_of < flood[-1].id:
        started = time.clock_gettime(clock)
        whole.recommend("u1")
        waits.append(time.clock_gettime(clock) - started)
    done.set()
    future.result(60)
    assert sorted(waits)[len(waits) // 2] < 0.05
    assert sample(whole, "nearfield_queue_seconds_count", queue="events") > 0
    assert whole.metrics.registry.get_sample_value("nearfield_queue_length", {"queue": "events"}) == 0


@contextlib.contextmanager
def held(whole: Whole) -> Iterator[None]:
    """Keep the engine busy within the block."""
    release, holds = threading.Event(), threading.Event()

    def holding() -> Any:
        holds.set()
        release.wait(60)
        yield

    whole.engine.run_slices(holding())
    assert holds.wait(60)
    yield
    release.set()


def begun(whole: Whole, queries: Sequence[Any]) -> Future[list[Any]]:
    """`queries`, which wait when this returns or have been refused."""
    answers: Future[list[Any]] = Future()
    threading.Thread(target=lambda: answers.set_result(whole.ask_all(queries))).start()
    eventually(
        lambda: sample(whole, "nearfield_queue_length", queue="queries") == min(len(queries), LIMITS.max_waiting)
    )
    return answers


def sample(whole: Whole, name: str, **labels: str) -> float:
    return whole.metrics.registry.get_sample_value(name, labels) or 0.0


def test_queries_do_not_wait_for_the_refits_of_many_ratings(whole: Whole, monkeypatch: pytest.MonkeyPatch) -> None:
    whole.send(events())
    whole.train("culsh", **SMALL)
    asked_then: list[Future[Any]] = []
    waiting_at_settle: list[float] = []
    apply, settle = whole.engine.history.apply_runs, LiveModel.settle

    def asked_meanwhile(runs: Sequence[RatingRun]) -> Any:
        if not asked_then:
            time.sleep(SLICE_S)
            asked_then.append(asyncio.run_coroutine_threadsafe(asked(whole, Popular()), whole.loop))
            eventually(lambda: sample(whole, "nearfield_queue_length", queue="queries") == 1)
        return apply(runs)

    def settled(live_model: LiveModel, budget_s: float) -> bool:
        waiting_at_settle.append(sample(whole, "nearfield_queue_length", queue="queries"))
        return settle(live_model, budget_s)

    monkeypatch.setattr(whole.engine.history, "apply_runs", asked_meanwhile)
    monkeypatch.setattr(LiveModel, "settle", settled)
    whole.rate(("u1", "i2", 3.0))
    assert asked_then[0].result(60).items
    assert waiting_at_settle[0] == 0


def test_too_many_queries_are_refused(whole: Whole) -> None:
    with held(whole):
        answers = begun(whole, [Popular()] * (LIMITS.max_waiting + 5))
    found = answers.result(60)
    assert [isinstance(answer, Overloaded) for answer in found].count(True) == 5
    assert whole.ask(Popular()).items == []


def test_a_question_that_has_waited_too_long_is_refused(
    redis_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    now = time.monotonic
    with Whole(redis_url, tmp_path) as whole:
        with held(whole):
            late = begun(whole, [Popular()] * 3)
            monkeypatch.setattr(time, "monotonic", lambda: now() + 2 * LIMITS.max_wait_s)
            in_time = asyncio.run_coroutine_threadsafe(asked(whole, Popular()), whole.loop)
            eventually(lambda: sample(whole, "nearfield_queue_length", queue="queries") == 4)
        assert all(isinstance(answer, Overloaded) for answer in late.result(60))
        assert in_time.result(60).items == []


async def asked(whole: Whole, query: Any) -> Any:
    return await whole.engine.ask(query)


def test_waiting_queries_are_answered_in_batches(redis_url: str, tmp_path: Path) -> None:
    with Whole(redis_url, tmp_path, LIMITS._replace(max_batch=8)) as whole:
        with held(whole):
            answers = begun(whole, [Popular()] * 20)
        assert len(answers.result(60)) == 20
        assert sample(whole, "nearfield_batch_size_count") == 3
        assert sample(whole, "nearfield_batch_size_bucket", le="8.0") == 3
        assert sample(whole, "nearfield_batch_size_sum") == 20
        assert sample(whole, "nearfield_queue_seconds_count", queue="queries") == 20
        assert sample(whole, "nearfield_queue_length", queue="queries") == 0


def test_queries_at_the_stop_of_the_engine_are_answered(redis_url: str, tmp_path: Path) -> None:
    with Whole(redis_url, tmp_path) as whole:
        with held(whole):
            answers = begun(whole, [Popular()] * 3)
            threading.Thread(target=whole.engine.stop).start()
            eventually(whole.engine._stopping.is_set)
        assert all(isinstance(answer, NotReady) for answer in answers.result(60))
        with pytest.raises(NotReady):
            whole.ask(Popular())


def test_an_exception_in_the_thread_stops_the_service(redis_url: str, tmp_path: Path) -> None:
    with Whole(redis_url, tmp_path) as whole:
        whole.engine.learn([Entry(StreamId(2**60, 0), "item", items=[None])])  # type: ignore[list-item]
        deadline = time.monotonic() + 60
        while not whole.failures and time.monotonic() < deadline:
            time.sleep(0.01)
        assert not whole.engine.readiness.ready
        assert isinstance(whole.engine.failure, AttributeError)
        with pytest.raises(NotReady):
            whole.ask(Popular())
        with pytest.raises(NotReady):
            whole.engine.learn([])
    assert len(whole.failures) == 1


@pytest.mark.parametrize("algorithm", ["culsh", "als-implicit"])
def test_items_learn_in_the_background_and_a_restart_gives_the_same_bits(
    redis_url: str, tmp_path: Path, algorithm: str
) -> None:
    with Whole(redis_url, tmp_path) as whole:
        whole.send(events())
        kind = ALGORITHMS[algorithm].params
        whole.train(algorithm, **{name: value for name, value in SMALL.items() if name in kind.__dataclass_fields__})
        before = arrays_of(whole)
        for value in (1.0, 2.0, 1.0):
            whole.rate(*((f"u{user}", "i0", value) for user in range(20)))
            whole.rate(*((f"u{user}", f"new{user % 3}", value) for user in range(10)))
        row = whole.engine.history.items.row("i0")
        eventually(lambda: bool((arrays_of(whole)["item_factors"][row] != before["item_factors"][row]).any()))
        eventually(lambda: waits(whole, algorithm) == 0)
        after = arrays_of(whole)
    with Whole(redis_url, tmp_path) as whole:
        eventually(lambda: whole.hotswap.served() != {})
        eventually(lambda: waits(whole, algorithm) == 0)
        again = arrays_of(whole)
    for name, array in after.items():
        assert array.tobytes() == again[name].tobytes(), name


def arrays_of(whole: Whole) -> dict[str, np.ndarray]:
    (live_model,) = whole.engine.models()
    return {name: array.copy() for name, array in live_model.model.arrays.items() if name != "projections"}


def waits(whole: Whole, algorithm: str) -> float | None:
    return whole.metrics.registry.get_sample_value("nearfield_refits_waiting", {"algorithm": algorithm})


def test_a_model_that_cannot_catch_up_stops_the_service(
    redis_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with Whole(redis_url, tmp_path) as whole:
        whole.send(events())
        whole.train("culsh", **SMALL)
        monkeypatch.setattr(LiveModel, "catch_up", raising(RuntimeError("cannot")))
        with pytest.raises((NotReady, NotSeenYet)):
            whole.rate(("u0", "i0", 1.0))
        eventually(lambda: bool(whole.failures))
        assert not whole.engine.readiness.ready


def test_refits_that_rest_do_not_hold_a_rating_back(whole: Whole, monkeypatch: pytest.MonkeyPatch) -> None:
    whole.send(events())
    whole.train("culsh", **SMALL)
    eventually(lambda: not whole.engine._catch_up.is_behind)
    monkeypatch.setattr(CatchUp, "is_resting", True)
    monkeypatch.setattr(CatchUp, "step", raising(RuntimeError("no rest")))
    whole.rate(("u0", "i0", 1.0))
    assert whole.engine.readiness.ready


def test_a_device_that_is_gone_stops_the_service(
    redis_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with Whole(redis_url, tmp_path) as whole:
        whole.send(events())
        whole.train("culsh", **SMALL)
        monkeypatch.setattr(LiveModel, "recommend", raising(RuntimeError("out of memory")))
        with pytest.raises(RuntimeError, match="out of memory"):
            whole.recommend("u0")
        assert whole.ask(Popular()).items  # by now it has looked, and the next batch may be smaller
        monkeypatch.setattr(Backend, "check", raising(BackendUnavailable("The device has failed")))
        with pytest.raises(UnknownUser):
            whole.recommend("nobody", fallback="none")
        assert whole.engine.readiness.ready
        with pytest.raises(RuntimeError, match="out of memory"):
            whole.recommend("u0")
        eventually(lambda: bool(whole.failures))
        assert isinstance(whole.engine.failure, BackendUnavailable)
        assert not whole.engine.readiness.ready


def raising(error: Exception) -> Callable[..., None]:
    def function(*_: object, **__: object) -> None:
        raise error

    return function


def test_hidden_items_are_not_recommended_but_learned(whole: Whole) -> None:
    whole.send(events())
    whole.train("culsh", **SMALL)
    best = whole.shown("u0", n=3)
    whole.subject("hide", best[0])
    assert best[0] not in whole.shown("u0", n=40)
    assert best[0] not in whole.shown("nobody", n=40)
    whole.subject("show", best[0])
    assert whole.shown("u0", n=3) == best
