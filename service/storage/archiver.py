"""`Archiver`: the thread that carries the stream into the rating log. Of all processes that share DATA one archives."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable

import pyarrow as pa
import structlog

from service.backoff import Backoff
from service.errors import CorruptLog, NewerEntry, ServiceError, StreamUnavailable, VolatileServer
from service.storage.events import BATCH_RATINGS, ZERO, Entry, StreamId, portions
from service.storage.files import FileLock
from service.storage.rating_log import RatingLog
from service.storage.segment import table_of
from service.storage.stream import MAX_REJECTED, Stream
from service.storage.stream_reader import MAX_ENTRIES_PER_READ, RejectedEntry, StreamReader
from service.threads import PartThread, unheard

COMMIT_EVERY_S = 10.0
COMMIT_RATINGS = 50_000
KEEP_STREAM_MS = 3_600_000  # the newest hour stays in the stream, for replicas that reconnect
TIDY_EVERY_S = 60.0
LOOK_AT_MEMORY_EVERY_S = 1.0
HIGH_MEMORY_SHARE = 0.8  # of the `maxmemory` of Redis, from which on nothing stays in the stream that the log has
LOOK_AGAIN_S = 5.0  # at a damaged log, until it is mended
STALLED_S = 5.0  # no step takes so long, but for a large merge
READ_BLOCK_MS = 200  # with the pause: how long it takes at most until a request to commit is noticed
PAUSE_S = 0.1  # between reads, each of which takes Python's lock several times
LOCK = ".lock"

_log = structlog.get_logger(__name__)


class Archiver:
    """Reads the stream behind the log and commits it in segments; then trims, and merges segments.

    Nothing leaves the stream before it is in the log, so a failure of either loses nothing: it is tried again. What was
    read is turned into columns as it comes, some ratings at a time: fifty thousand in a row would hold up all other
    threads for a tenth of a second.

    Attributes:
        obstacle: why the log cannot be written or continued just now, None if it can; no rating should be
            acknowledged meanwhile.
        damage: what is missing or altered in the log, None if nothing is known to be. New ratings can be written all
            the same, but nothing is merged or trimmed.
        n_pending: ratings read from the stream and not yet in the log.
    """

    def __init__(self, stream: Stream, log: RatingLog, on_failure: Callable[[BaseException], None] = unheard) -> None:
        self._stream, self._rating_log = stream, log
        self._reader: StreamReader | None = None
        self._is_verified = False
        self._lock: FileLock | None = None
        self._pending: list[pa.Table] = []
        self._fresh: list[Entry] = []  # pending too, not yet in columns
        self._n_fresh = 0
        self._first = self._last = ZERO  # of what is pending
        self._oldest_pending_s = 0.0
        self._rejected: list[RejectedEntry] = []  # not yet in Redis, for people to look at
        self._tidied_s = self._stepped_s = self._relieved_s = 0.0
        self._stopping = threading.Event()
        self._thread = PartThread("archiver", self._run, on_failure)
        self.obstacle: str | None = None
        self.damage: str | None = None
        self.n_pending = 0

    def start(self) -> None:
        """Start the thread."""
        self._thread.start()

    def stop(self) -> None:
        """Commit what is in the stream, if Redis and the disk allow, and end."""
        self._stopping.set()
        self._thread.join()

    @property
    def is_archiving(self) -> bool:
        """Whether this process holds the lock of the log."""
        return self._lock is not None

    @property
    def lag_s(self) -> float:
        """Age of the oldest entry that was read and is not in the log, or how long nothing could be read; in seconds.

        0 in a process that does not archive.
        """
        stalled_s = time.monotonic() - self._stepped_s if self._lock is not None else 0.0
        pending_s = time.monotonic() - self._oldest_pending_s if self._has_pending else 0.0
        return max(pending_s, stalled_s if stalled_s > STALLED_S else 0.0)

    @property
    def _has_pending(self) -> bool:
        return bool(self._pending or self._fresh)

    def step(self, block_ms: int = READ_BLOCK_MS) -> bool:
        """Read once, and commit if it is time; returns whether there is more to be read at once.

        Raises:
            ServiceError: Redis is gone, or stream and log contradict each other.
            OSError: the log cannot be written.
        """
        reader = self._connected()
        has_room = self.n_pending < COMMIT_RATINGS  # a full disk must not fill the memory: the stream keeps the rest
        try:
            n_read = self._read(reader, block_ms) if has_room else 0
        except NewerEntry:
            self._commit()  # what came before it
            raise
        if self._is_due():
            self._commit()
        self._tidy()
        self._relieve()
        self._keep_rejected()  # last: a full Redis refuses it, and trimming must go on
        self._stepped_s = time.monotonic()
        return n_read >= MAX_ENTRIES_PER_READ

    def flush(self) -> None:
        """Commit everything that is in the stream now. Raises as `step`."""
        reader = self._connected()
        newest = self._stream.newest()
        while reader.cursor < newest:
            self._read(reader, 0)
            if self.n_pending >= COMMIT_RATINGS:
                self._commit()
        self._commit()
        self._keep_rejected()

    def _connected(self) -> StreamReader:
        """The reader; at first and after every failure of Redis its server is looked at before anything is read."""
        if self._reader is None:
            self._rating_log.clean()
            self._reader = StreamReader(self._stream, self._rating_log, self._rating_log.last_id())
        if not self._is_verified:
            self._commit()  # whatever server comes back, what was read from the last one is in the log
            self._stream.verify()
            self._is_verified = True
        return self._reader

    def _read(self, reader: StreamReader, block_ms: int) -> int:
        """Returns the number of entries."""
        batch = reader.read(block_ms)
        self._rejected = [*self._rejected, *batch.rejected][-MAX_REJECTED:]
        if not batch.entries:
            return 0
        if not self._has_pending:
            self._first, self._oldest_pending_s = batch.entries[0].id, time.monotonic()
        self._last = batch.entries[-1].id
        self._fresh += batch.entries
        n_read = sum(len(entry.ratings) for entry in batch.entries)
        self.n_pending, self._n_fresh = self.n_pending + n_read, self._n_fresh + n_read
        if self._n_fresh >= BATCH_RATINGS:
            self._to_columns()
        return len(batch.entries)

    def _keep_rejected(self) -> None:
        while self._rejected:
            rejected = self._rejected[0]
            self._stream.reject(*rejected)
            self._rejected.pop(0)
            _log.warning("stream entry rejected", id=str(rejected.id), reason=rejected.reason)

    def _to_columns(self) -> None:
        self._pending += map(table_of, portions(self._fresh))
        self._fresh, self._n_fresh = [], 0

    def _is_due(self) -> bool:
        if not self._has_pending:
            return False
        if self.n_pending >= COMMIT_RATINGS or self.lag_s >= COMMIT_EVERY_S:
            return True
        return self._stream.requested_commit() >= self._first

    def _commit(self) -> None:
        if self._has_pending:
            self._to_columns()
            self._rating_log.write(self._first, self._last, [pa.concat_tables(self._pending)])
            self._pending, self.n_pending = [], 0

    def _tidy(self) -> None:
        """Merge and trim, now and then; a damaged log is left as it is, and the stream may have what it lacks."""
        if time.monotonic() - self._tidied_s < (LOOK_AGAIN_S if self.damage else TIDY_EVERY_S):
            return
        self._tidied_s = time.monotonic()
        if self._is_intact(merge=True):
            kept_from_ms = min(self._stream.last_id().ms, int(time.time() * 1000)) - KEEP_STREAM_MS
            self._stream.trim(min(self._rating_log.last_id(), StreamId(max(kept_from_ms, 0), 0)))

    def _relieve(self) -> None:
        """Trim all that the log has, or can have now, while Redis is close to the limit of its memory."""
        if time.monotonic() - self._relieved_s < LOOK_AT_MEMORY_EVERY_S:
            return
        self._relieved_s = time.monotonic()
        share = self._stream.memory_share()
        if share >= HIGH_MEMORY_SHARE and self._stream.newest() > ZERO and self._is_intact(merge=False):
            self._commit()
            _log.warning("redis is close to its maxmemory: trimming all that the log has", share=round(share, 3))
            self._stream.trim(self._rating_log.last_id())

    def _is_intact(self, *, merge: bool) -> bool:
        """Whether the log lacks nothing, as far as is known; merges segments if asked to."""
        try:
            self._rating_log.check()
            if merge:
                self._rating_log.compact()
        except (CorruptLog, NewerEntry) as error:
            if self.damage is None:
                _log.error("rating log is damaged: nothing is merged or trimmed", error=str(error))
            self.damage = f"{type(error).__name__}: {error}"
            return False
        if merge and self.damage is not None:
            _log.info("rating log is mended")
            self.damage = None
        return self.damage is None

    # --- the thread

    def _run(self) -> None:
        backoff = Backoff("the archiver", self._stopping)
        while not self._stopping.is_set():
            try:
                if self._lock is None and not self._acquire():
                    self._stopping.wait(1.0)
                    continue
                if not self.step():
                    self._stream.pause(PAUSE_S)
                self.obstacle = None
                backoff.worked()
            except Exception as error:  # whatever it is: told, and tried again
                self._is_verified = False
                # Redis being gone stops appending by itself; anything else must be told, so that POST answers 503.
                if not isinstance(error, StreamUnavailable | VolatileServer):
                    self.obstacle = _told(error)
                if isinstance(error, NewerEntry):  # a process that can read it may be waiting
                    self._reader = None
                    self._release()
                backoff.failed(error)
        self._finish()

    def _finish(self) -> None:
        try:
            if self._lock is not None and self._is_verified:
                self.flush()
            elif self._lock is not None:  # Redis has just failed, and would be waited for once more
                self._commit()
        except Exception as error:
            _log.error("stream not archived at stop, it will be at the next start", error=str(error))
        finally:
            self._release()

    def _acquire(self) -> bool:
        self._lock = FileLock.try_take(self._rating_log.folder / LOCK)
        self._stepped_s = time.monotonic()
        return self._lock is not None

    def _release(self) -> None:
        if self._lock is not None:
            self._lock.release()
            self._lock = None


def _told(error: Exception) -> str:
    """What is wrong, in words: those of the system for its errors; with a kind only where nobody foresaw it."""
    if isinstance(error, OSError) and error.strerror:
        return error.strerror
    return str(error) if isinstance(error, ServiceError) else f"{type(error).__name__}: {error}"
