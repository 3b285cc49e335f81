"""`World`: virtual time for asyncio tasks and for threads, all on one real thread, in an order that a seed decides.

A thread of the service becomes a greenlet that runs until it waits: for time, an event, a lock, Redis or the disk.
Tasks of asyncio run on the event loop of the world, whose clock moves only when nothing else is due.
"""

from __future__ import annotations

import asyncio
import contextlib
import contextvars
import heapq
import itertools
import random
from collections.abc import Callable
from typing import Any

import greenlet

START_S = 1.8e9  # Unix seconds at which a world begins
PROCESS: contextvars.ContextVar[Process] = contextvars.ContextVar("process")  # of the present task


class Ended(BaseException):
    """Ends what still runs in a process that was killed, or in a world that is over."""


class Process:
    """A process of the service: what is killed at once.

    Attributes:
        is_alive: whether it was not killed.
        on_kill: called when it is killed, in place of what the kernel frees.
    """

    def __init__(self, name: str) -> None:
        self.name, self.is_alive = name, True
        self.on_kill: list[Callable[[], object]] = []

    def run(self, call: Callable[[], Any]) -> Any:
        """Call as this process."""
        token = PROCESS.set(self)
        try:
            return call()
        finally:
            PROCESS.reset(token)

    def kill(self, error: BaseException | None = None) -> None:
        """End it as SIGKILL does: nothing of it runs again, no `finally` either; also for an error of a part."""
        self.is_alive = False
        for free in self.on_kill:
            free()


NOBODY = Process("nobody")
_EventLoop: Any = asyncio.BaseEventLoop  # whose methods are replaced by simpler ones


class World(_EventLoop):  # type: ignore[misc]
    """The event loop, and the clock of everything.

    Attributes:
        random: decides everything that is left to chance.
        skew_s: by which the wall clock of the host is off.
        failures: exceptions that nobody has caught.
    """

    def __init__(self, seed: int) -> None:
        super().__init__()
        self.seed, self.random = seed, random.Random(seed)
        self._now, self.skew_s = 0.0, 0.0
        self._timers: list[tuple[float, int, asyncio.TimerHandle]] = []  # a heap, with the number of each
        self._numbers = itertools.count()
        self._threads: list[greenlet.greenlet] = []
        self._hub = greenlet.getcurrent()
        self._is_over = False
        self.failures: list[BaseException] = []

    def chance(self, of: str) -> random.Random:
        """Decides about one thing, alike however often the service asks `random`."""
        return random.Random(f"{self.seed} {of}")

    # --- as an event loop

    def time(self) -> float:
        """Monotonic seconds."""
        return self._now

    def wall_s(self) -> float:
        """Seconds of the wall clock of the host."""
        return START_S + self._now + self.skew_s

    def call_at(self, when: float, callback: Any, *args: Any, context: Any = None) -> asyncio.TimerHandle:
        """Call at this moment; of equal moments, in the order of asking."""
        timer = asyncio.TimerHandle(when, callback, args, self, context)
        heapq.heappush(self._timers, (when, next(self._numbers), timer))
        return timer

    def _run_once(self) -> None:
        """Run what is due; let the time pass until the next event if nothing is."""
        ready, timers = self._ready, self._timers
        while timers and timers[0][2].cancelled():
            heapq.heappop(timers)
        if not ready:
            if not timers:
                raise RuntimeError("the world stands still: nothing is left to happen")
            self._now = max(self._now, timers[0][0])
        while timers and timers[0][0] <= self._now:
            ready.append(heapq.heappop(timers)[2])
        for _ in range(len(ready)):
            handle = ready.popleft()
            if not handle.cancelled():
                handle._run()

    def _write_to_self(self) -> None:
        """Nobody waits outside."""

    def run_in_executor(self, executor: Any, func: Callable[..., Any], *args: Any) -> asyncio.Future[Any]:
        """Run a blocking call of the current process on a thread of its own."""
        future = self.create_future()

        def run() -> None:
            settle: Callable[[Any], None] = future.set_result
            try:
                outcome = func(*args)
            except Exception as error:
                settle, outcome = future.set_exception, error
            if not future.done():
                settle(outcome)

        self.thread(PROCESS.get(), run)
        return future

    # --- processes

    def task(self, process: Process, coroutine: Any) -> asyncio.Task[Any]:
        """Start a task of a process; it ends with the process."""
        task = process.run(lambda: self.create_task(coroutine))
        process.on_kill.append(task.cancel)
        return task

    def thread(self, process: Process, run: Callable[[], object]) -> None:
        """Start a thread of a process."""
        thread = greenlet.greenlet(run, self._hub)
        thread.process = process
        self._threads.append(thread)
        self.call_later(self.instant(), self._resume, thread)

    @property
    def process(self) -> Process:
        """The process whose thread or task runs now."""
        process: Process = getattr(greenlet.getcurrent(), "process", None) or PROCESS.get(NOBODY)
        return process

    def instant(self) -> float:
        """A moment of up to a millisecond; who takes longer is left to chance."""
        return self.random.random() * 0.001

    # --- what threads wait for

    def sleep(self, seconds: float) -> None:
        """Let the present thread wait."""
        thread = greenlet.getcurrent()
        if thread is self._hub:
            raise RuntimeError("an event loop may not wait")
        self.call_later(max(seconds, 0.0) + self.instant() / 1000, self._resume, thread)
        self._pause()

    def wait_until(self, is_true: Callable[[], bool], waiting: list[Callable[[], None]], timeout: float | None) -> bool:
        """Let the present thread wait until `is_true`. A thread that changes this calls all of `waiting`."""
        end = None if timeout is None else self._now + timeout
        while not is_true():
            if end is not None and self._now >= end:
                return False
            thread, woken = greenlet.getcurrent(), [False]

            def wake(thread: greenlet.greenlet = thread, woken: list[bool] = woken) -> None:
                if not woken[0]:
                    woken[0] = True
                    self._resume(thread)

            def soon(wake: Callable[[], None] = wake) -> None:
                self.call_later(self.instant(), wake)

            timer = None if end is None else self.call_later(end - self._now, wake)
            waiting.append(soon)
            try:
                self._pause()
            finally:
                waiting.remove(soon)
                if timer is not None:
                    timer.cancel()
        return True

    def _pause(self) -> None:
        if self._is_over:
            raise Ended
        self._hub.switch()
        if self._is_over or not self.process.is_alive:
            raise Ended

    def _resume(self, thread: greenlet.greenlet) -> None:
        if thread.process.is_alive and not thread.dead:
            thread.switch()

    def end(self) -> None:
        """End all threads and tasks."""
        self._is_over = True
        for thread in self._threads:
            if thread:
                with contextlib.suppress(BaseException):  # of a thread that has ended long ago
                    thread.throw(Ended)
        for _ in range(5):  # a task that ends may end another one
            for task in asyncio.all_tasks(self):
                task.cancel()
            self.call_soon(self.stop)
            self.run_forever()
        self.close()

    def call_exception_handler(self, context: dict[str, Any]) -> None:
        """No callback may fail."""
        if not self._is_over:
            self.failures.append(context.get("exception") or RuntimeError(context["message"]))


# --- stand for those of `threading`


class Event:
    """`threading.Event`."""

    def __init__(self, world: World) -> None:
        self._world, self._is_set = world, False
        self._waiting: list[Callable[[], None]] = []

    def is_set(self) -> bool:
        return self._is_set

    def set(self) -> None:
        self._is_set = True
        for wake in tuple(self._waiting):
            wake()

    def clear(self) -> None:
        self._is_set = False

    def wait(self, timeout: float | None = None) -> bool:
        return self._world.wait_until(self.is_set, self._waiting, timeout)


class Lock:
    """`threading.Lock`."""

    def __init__(self, world: World) -> None:
        self._is_free = Event(world)
        self._is_free.set()

    def __enter__(self) -> None:
        self._is_free.wait()
        self._is_free.clear()

    def __exit__(self, *_: object) -> None:
        self._is_free.set()
