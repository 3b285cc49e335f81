"""`Learner`: the thread that reads the stream from the end of the log and hands every entry to the engine."""

from __future__ import annotations

import threading
from collections.abc import Callable

import structlog

from service.base.backoff import Backoff
from service.base.errors import NotReady, Unavailable
from service.base.threads import PartThread
from service.engine import compilation
from service.engine.engine import Engine
from service.storage.errors import CorruptLog
from service.storage.events import StreamId, portions
from service.storage.log.rating_log import RatingLog
from service.storage.streams.stream import Stream
from service.storage.streams.stream_reader import StreamReader

READ_BLOCK_MS = 1000  # milliseconds; how long a read waits for new entries; a stop waits for its end
STAGE = "stream"

_log = structlog.get_logger(__name__)


class Learner:
    """Lets the engine read the log, then feeds it the stream. Reconnects when Redis comes back.

    Attributes:
        failure: the error that ended the thread, if not `stop`.
    """

    def __init__(
        self, engine: Engine, stream: Stream, log: RatingLog, wait: Callable[[threading.Event], None] = lambda _: None
    ) -> None:
        """Prepare; `start` starts the thread. The engine must be running by then.

        Args:
            engine, stream, log: of the service.
            wait: returns when the log can be read, or when the event is set.
        """
        self._engine, self._stream, self._rating_log, self._wait = engine, stream, log, wait
        self._replay_end: StreamId | None = None
        self._stopping = threading.Event()
        self._thread = PartThread("learner", self._run, engine.fail)

    def start(self) -> None:
        """Start to read."""
        self._thread.start()

    def stop(self) -> None:
        """End after the present read. The next process reads again the entries that the engine has not taken."""
        self._stopping.set()
        self._thread.join()

    def _run(self) -> None:
        try:
            compilation.compile_reading()  # here and not on the engine thread
            self._engine.stages.report("kernels")
            self._wait(self._stopping)
            self._engine.load(self._rating_log).result()
            self._follow(StreamReader(self._stream, self._rating_log, self._engine.history.position))
        except NotReady:
            _log.info("learner ends before all is learned")

    def _follow(self, reader: StreamReader) -> None:
        backoff = Backoff("the learner", self._stopping)
        while not self._stopping.is_set():
            try:
                self.step(reader)
            except NotReady:
                raise
            except (Unavailable, CorruptLog, OSError) as error:  # the log cannot be read for a while, or Redis is gone
                self._engine.stages.obstruct(STAGE, str(error))
                backoff.failed(error)
            else:
                self._engine.stages.clear(STAGE)
                backoff.worked()

    def step(self, reader: StreamReader, block_ms: int = READ_BLOCK_MS) -> None:
        """Read once and hand the new entries to the engine. Raises what `StreamReader.read` raises."""
        if self._replay_end is None:
            self._replay_end = self._stream.last_id()
        is_replaying = not self._engine.stages.is_done(STAGE)
        entries = reader.read(1 if is_replaying else block_ms).entries
        for event_batch in portions(entries):
            self._engine.learn(event_batch, self._stopping.is_set)
        if is_replaying:
            self._report(self._replay_end if entries else min(self._replay_end, reader.cursor))

    def _report(self, end: StreamId) -> None:
        """Report progress. Replay ends when the engine has learned, and not only queued, all entries up to `end`."""
        as_of = self._engine.as_of
        if as_of >= end:
            self._engine.stages.report(STAGE)
        else:
            self._engine.stages.report(STAGE, 0.99 * min(as_of.ms / max(end.ms, 1), 1.0))
