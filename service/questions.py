"""`Questions`: queries on their way from the event loop to the engine, and their answers on the way back."""

from __future__ import annotations

import asyncio
import contextlib
import queue
from collections.abc import Sequence
from typing import Any, NamedTuple

from service.errors import Overloaded
from service.queries import Query

MAX_WAITING = 4096  # beyond which queries are refused with 503
MAX_PER_BATCH = 256
IDLE_S = 1.0


class Question(NamedTuple):
    """A query and the future, of the event loop, that takes its answer."""

    query: Query
    future: asyncio.Future[Any]


class Questions:
    """A queue into the engine's thread. `put` belongs to the event loop, `wake` to anybody, the rest to the engine."""

    def __init__(self) -> None:
        self._waiting: queue.SimpleQueue[Question | None] = queue.SimpleQueue()
        self._loop: asyncio.AbstractEventLoop | None = None

    def __len__(self) -> int:
        """Questions that wait."""
        return self._waiting.qsize()

    def connect(self, loop: asyncio.AbstractEventLoop) -> None:
        """Answers go to `loop`."""
        self._loop = loop

    def put(self, query: Query) -> asyncio.Future[Any]:
        """Queue a query; its answer, or exception, goes to the future.

        Raises:
            Overloaded: too many are waiting.
        """
        if self._waiting.qsize() >= MAX_WAITING:
            raise Overloaded(f"{MAX_WAITING:,} requests are waiting already")
        future: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        self._waiting.put(Question(query, future))
        return future

    def wake(self) -> None:
        """Make a `take` that sleeps return."""
        self._waiting.put(None)

    def take(self, *, sleep: bool) -> list[Question]:
        """Everything that waits, up to a limit; with `sleep` it waits for the first one or `wake`."""
        taken: list[Question] = []
        with contextlib.suppress(queue.Empty):
            question = self._waiting.get(timeout=IDLE_S) if sleep else self._waiting.get_nowait()
            while True:
                if question is not None:
                    taken.append(question)
                if len(taken) == MAX_PER_BATCH:
                    break
                question = self._waiting.get_nowait()
        return taken

    def answer(self, questions: Sequence[Question], answers: Sequence[Any]) -> None:
        """Hand over all answers, or exceptions, in one call of the event loop."""
        self.tell(_deliver, [question.future for question in questions], answers)

    def abandon(self, error: Exception) -> None:
        """Answer everything that waits with `error`."""
        while questions := self.take(sleep=False):
            self.answer(questions, [error] * len(questions))

    def tell(self, call: Any, *arguments: Any) -> None:
        """Call something on the event loop; a loop that is closed is told nothing."""
        with contextlib.suppress(RuntimeError):
            if self._loop is not None:
                self._loop.call_soon_threadsafe(call, *arguments)


def _deliver(futures: list[asyncio.Future[Any]], answers: Sequence[Any]) -> None:
    for future, answer in zip(futures, answers, strict=True):
        if future.done():  # the client has gone
            continue
        if isinstance(answer, Exception):
            future.set_exception(answer)
        else:
            future.set_result(answer)
