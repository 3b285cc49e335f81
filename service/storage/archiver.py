"""`Archiver`: the thread that copies the stream to the rating log. One of all processes that share DATA archives."""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Callable
from typing import Protocol

import pyarrow as pa
import structlog

from service.base.backoff import Backoff
from service.base.errors import Conflict, ServiceError
from service.base.threads import PartThread, unheard
from service.storage.archive_lock import ArchiveLock
from service.storage.errors import CorruptLog, NewerEntry, StreamUnavailable, VolatileServer
from service.storage.events import BATCH_RATINGS, ZERO, Entry, StreamId, portions
from service.storage.log.rating_log import RatingLog
from service.storage.log.segment import table_of
from service.storage.streams.stream import MAX_REJECTED, Stream
from service.storage.streams.stream_reader import MAX_ENTRIES_PER_READ, RejectedEntry, StreamReader

COMMIT_EVERY_S = 10.0  # seconds; longest time that a read rating waits for its commit
COMMIT_RATINGS = 50_000  # ratings; a commit is due when more are pending
KEEP_STREAM_MS = 3_600_000  # milliseconds; the newest hour stays in the stream, for replicas that reconnect
TIDY_EVERY_S = 60.0  # seconds between two merges and trims
LOOK_AT_MEMORY_EVERY_S = 1.0  # seconds between two looks at the memory of Redis
IDLE_LOOK_EVERY_S = 10.0  # seconds; the same while nothing waits for a commit
HIGH_MEMORY_SHARE = 0.8  # of the `maxmemory` of Redis; above it, all entries that the log has are trimmed
LOOK_AGAIN_S = 5.0  # seconds between two checks of a damaged log
STALLED_S = 5.0  # seconds; only a large merge makes a step take longer
READ_BLOCK_MS = 200  # milliseconds of a read; read and pause together delay a requested commit
IDLE_BLOCK_MS = 1000  # milliseconds of a read while nothing waits for a commit
PAUSE_S = 0.1  # seconds between reads, each of which takes the GIL several times

_log = structlog.get_logger(__name__)


class Keeper(Protocol):
    """Knows from when on an entry may leave the stream."""

    def check(self) -> None:
        """Raise `Conflict` if this process must not archive."""
        ...

    def upto(self) -> StreamId:
        """All entries up to this one may leave the stream. Raises what `check` raises."""
        ...


class OwnLog:
    """A keeper without a store: what the log has may leave the stream."""

    def __init__(self, stream: Stream, log: RatingLog) -> None:
        self._stream, self._rating_log = stream, log

    def check(self) -> None:
        """See `Keeper.check`: if a worker publishes to a store, nobody else may archive."""
        if self._stream.publisher() is not None:
            raise Conflict(
                "the worker that publishes to a store archives the ratings of this Redis; set NEARFIELD_STORE here too,"
                " or, if no replica follows a store any more, delete nearfield:publisher"
            )

    def upto(self) -> StreamId:
        """See `Keeper.upto`."""
        return self._rating_log.last_id()


class Archiver:
    """Reads entries that the log lacks, commits them in segments, then trims the stream and merges segments.

    An entry stays in the stream until the log has it, so that a failure of either loses nothing and can be retried.
    Entries are converted to columns in small batches as they are read: converting fifty thousand ratings at once would
    hold the GIL for a tenth of a second.

    Attributes:
        obstacle: why the log cannot be written at present, or None. No rating should be acknowledged meanwhile.
        damage: which segment of the log is missing or altered, or None. New ratings can still be written, but the
            archiver does not merge or trim.
        n_pending: ratings and items that were read from the stream and are not in the log yet.
    """

    def __init__(
        self,
        stream: Stream,
        log: RatingLog,
        on_failure: Callable[[BaseException], None] = unheard,
        keeper: Keeper | None = None,
    ) -> None:
        """Prepare; `start` starts the thread. `on_failure`: see `PartThread`; `keeper`: default `OwnLog`."""
        self._stream, self._rating_log = stream, log
        self._keeper = keeper or OwnLog(stream, log)
        self._reader: StreamReader | None = None
        self._is_verified = False
        self._lock: ArchiveLock | None = None
        self._pending: list[pa.Table] = []
        self._fresh: list[Entry] = []  # pending entries that are not converted to columns yet
        self._n_fresh = 0
        self._first = self._last = ZERO  # ids of the pending entries
        self._oldest_pending_s = 0.0
        self._rejected: list[RejectedEntry] = []  # bad entries that are not in nearfield:rejected yet
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
        """Commit the rest of the stream if Redis and the disk work, and end."""
        self._stopping.set()
        self._thread.join()

    @property
    def is_archiving(self) -> bool:
        """Whether this process holds the lock of the log."""
        return self._lock is not None

    @property
    def lag_s(self) -> float:
        """Seconds: age of the oldest pending entry, or the time since the last read if reading has stalled.

        0 in a process that does not archive.
        """
        stalled_s = time.monotonic() - self._stepped_s if self._lock is not None else 0.0
        pending_s = time.monotonic() - self._oldest_pending_s if self._has_pending else 0.0
        return max(pending_s, stalled_s if stalled_s > STALLED_S else 0.0)

    @property
    def _has_pending(self) -> bool:
        return bool(self._pending or self._fresh)

    def step(self, block_ms: int = READ_BLOCK_MS) -> bool:
        """Read once, and commit if a commit is due; return whether more entries can be read at once.

        Raises:
            ServiceError: Redis is gone, or stream and log contradict each other.
            OSError: the log cannot be written.
        """
        reader = self._connected()
        n_read = 0
        if self.n_pending < COMMIT_RATINGS:  # a full disk must not fill our memory: the rest stays in the stream
            try:
                n_read = self._read(reader, block_ms)
            except NewerEntry:
                self._commit()  # the entries before it
                raise
        if self._has_pending:
            is_due = self.n_pending >= COMMIT_RATINGS or self.lag_s >= COMMIT_EVERY_S
            if is_due or self._stream.requested_commit() >= self._first:
                self._commit()
        # Merge and trim from time to time, but not while the log is damaged: the stream may have the lost entries.
        if time.monotonic() - self._tidied_s >= (LOOK_AGAIN_S if self.damage else TIDY_EVERY_S):
            self._tidied_s = time.monotonic()
            if self._is_intact(merge=True):
                kept_from_ms = min(self._stream.last_id().ms, int(time.time() * 1000)) - KEEP_STREAM_MS
                self._stream.trim(min(self._keeper.upto(), StreamId(max(kept_from_ms, 0), 0)))
        # Commit, and trim all that the log has, while Redis is close to its memory limit.
        look_every_s = LOOK_AT_MEMORY_EVERY_S if self._has_pending else IDLE_LOOK_EVERY_S
        if time.monotonic() - self._relieved_s >= look_every_s:
            self._relieved_s = time.monotonic()
            share = self._stream.memory_share()
            if share >= HIGH_MEMORY_SHARE and self._stream.newest() > ZERO and self._is_intact(merge=False):
                self._commit()
                _log.warning("redis is close to its maxmemory: trimming all that the log has", share=round(share, 3))
                self._stream.trim(self._keeper.upto())
        self._keep_rejected()  # last, because a full Redis refuses it, and trimming must go on
        self._stepped_s = time.monotonic()
        return n_read >= MAX_ENTRIES_PER_READ

    def flush(self) -> None:
        """Commit all entries that are in the stream now. Raises what `step` raises."""
        reader = self._connected()
        newest = self._stream.newest()
        while reader.cursor < newest:
            self._read(reader, 0)
            if self.n_pending >= COMMIT_RATINGS:
                self._commit()
        self._commit()
        self._keep_rejected()

    def _connected(self) -> StreamReader:
        """The reader; verifies a server before the first read of it, and after every failure of Redis.

        Redis may have been started again between two calls, such as while a commit took long: then none has failed.
        """
        self._is_verified = self._is_verified and self._stream.is_verified()
        if not self._is_verified:
            self._keeper.check()
        if self._reader is None:
            self._rating_log.clean()
            self._reader = StreamReader(self._stream, self._rating_log, self._rating_log.last_id())
        if not self._is_verified:
            try:
                self._commit()  # entries of the previous server go to the log before another server may answer
            finally:
                self._stream.verify()  # also while the disk is full: it offers what a new server lacks
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
        n_read = sum(entry.n_rows for entry in batch.entries)
        self.n_pending, self._n_fresh = self.n_pending + n_read, self._n_fresh + n_read
        if self._n_fresh >= BATCH_RATINGS:
            self._to_columns()
        return len(batch.entries)

    def _keep_rejected(self) -> None:
        while self._rejected:
            rejected = self._rejected[0]
            self._stream.reject(rejected.id, rejected.fields, rejected.reason)
            self._rejected.pop(0)
            _log.warning("stream entry rejected", id=str(rejected.id), reason=rejected.reason)

    def _to_columns(self) -> None:
        self._pending += map(table_of, portions(self._fresh))
        self._fresh, self._n_fresh = [], 0

    def _commit(self) -> None:
        if self._has_pending:
            self._to_columns()
            if self._rating_log.last_id() < self._last:
                self._rating_log.files.write(self._first, self._last, [pa.concat_tables(self._pending)])
            else:  # an attempt has failed after its rename, and a user may have been forgotten in the segment since
                self._rating_log.files.seal()
                self._rating_log.files.settle()
            self._pending, self.n_pending = [], 0

    def _is_intact(self, *, merge: bool) -> bool:
        """Whether a check finds the log complete; merges segments if `merge`."""
        try:
            self._rating_log.files.check()
            if merge:
                self._rating_log.compact()
        except (CorruptLog, NewerEntry) as error:
            if self.damage is None:
                _log.error("rating log is damaged: nothing is merged or trimmed", error=str(error))
            self.damage = f"{type(error).__name__}: {error}"
            return False
        if merge and self.damage is not None:
            _log.info("rating log is complete again")
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
                if not self.step(READ_BLOCK_MS if self._has_pending else IDLE_BLOCK_MS) and self._has_pending:
                    self._stream.pause(PAUSE_S)
                self.obstacle = None
                backoff.worked()
            except Exception as error:  # of any kind: report it and try again
                self._is_verified = False
                # Without Redis no rating is acknowledged anyway. Any other error must become the obstacle, so that POST
                # answers 503.
                if not isinstance(error, StreamUnavailable | VolatileServer):
                    text = error.strerror if isinstance(error, OSError) else None
                    is_ours = isinstance(error, ServiceError)
                    self.obstacle = text or (str(error) if is_ours else f"{type(error).__name__}: {error}")
                if isinstance(error, NewerEntry | Conflict):  # release the lock: the right process may wait for it
                    self._reader = None
                    self._release()
                backoff.failed(error)
        self.finish()

    def finish(self) -> None:
        """Commit the rest of the stream, unless another process archives; log what stays in Redis alone."""
        try:
            if self._lock is not None or self._acquire():  # its holder may have been killed
                self._commit()  # first, because it needs no Redis
                self.flush()
        except Exception as error:
            n_left: int | None = None  # that are in Redis alone, if it can tell
            with contextlib.suppress(Exception):
                n_left = self._stream.n_after(self._rating_log.last_id())
            _log.error("stream not archived at stop; the next start archives it", entries=n_left, error=str(error))
        finally:
            self._release()

    def _acquire(self) -> bool:
        self._lock = ArchiveLock.try_take(self._rating_log.folder)
        self._stepped_s = time.monotonic()
        return self._lock is not None

    def _release(self) -> None:
        if self._lock is not None:
            self._lock.release()
            self._lock = None
