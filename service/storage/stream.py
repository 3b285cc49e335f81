"""`Stream`: the ratings stream in Redis. The only module that knows its keys and commands (those of Redis 6.2).

nearfield:ratings    stream, one entry per accepted request (`service.storage.events`)
nearfield:trimmed    string, the highest id that trimming has removed; written before the entries go
nearfield:rejected   stream, bad entries under their own id, with the reason
nearfield:commit     string, the position that somebody wants to see in the rating log
nearfield:never      never there: what is waited for in vain, and what commands name that must change nothing
"""

from __future__ import annotations

import asyncio
import itertools
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import redis
import structlog

from service.errors import InvalidKey, StreamReplaced, StreamUnavailable
from service.settings import AppendFsync
from service.storage import aof_files
from service.storage.durability import refuse_volatile
from service.storage.events import NOOP_VERSION, ZERO, Fields, StreamId
from service.storage.redis_client import REPACK, TRIM, connect, id_of, position_of, text_of, translated
from service.storage.shared_pipe import SharedPipe

RATINGS = "nearfield:ratings"
TRIMMED = "nearfield:trimmed"
REJECTED = "nearfield:rejected"
COMMIT = "nearfield:commit"
NEVER = "nearfield:never"

MAX_REJECTED = 10_000
COMPARED = 100  # entries by which a stream behind the log is recognized: a foreign one would not share their ids
AOF_REWRITE_TIMEOUT_S = 600.0
_POLL_S = 0.05
REPACKED = 300  # entries that are copied at a time; three times as many as a node has, where nobody changed that

_log = structlog.get_logger(__name__)


class Reading(NamedTuple):
    """What was read.

    Attributes:
        entries: ids and fields, in order.
        trimmed: `Stream.trimmed_id` after the entries were taken.
    """

    entries: list[tuple[StreamId, Fields]]
    trimmed: StreamId


class Stream:
    """Append, read and trim. Appending belongs to one event loop; everything else may be called from any thread."""

    def __init__(
        self,
        url: str,
        floor: Callable[[], StreamId] = lambda: ZERO,
        appendfsync: AppendFsync = "always",
        known: Callable[[StreamId, StreamId], set[StreamId]] = lambda first, last: set(),
    ) -> None:
        """Prepare a stream; nothing connects yet.

        Args:
            url: redis://, rediss:// or unix://.
            floor: the last id of the rating log, below which no new entry may lie.
            appendfsync: the weakest policy at which the server counts as durable.
            known: the ids of the rating log from the first to the last given one, both included; others do no harm.
        """
        self.url = url
        self._floor, self._known = floor, known
        self._appendfsync = appendfsync
        self._client = connect(url)
        self._pipe = SharedPipe(url, self.verify)
        self._warned = threading.Event()

    # --- appending

    @property
    def n_appending(self) -> int:
        """Calls that wait for a connection or for the server."""
        return self._pipe.n_waiting

    async def append(self, fields: Fields) -> StreamId:
        """Append one entry, once; when this returns it is as durable as the server's policy says.

        Raises:
            StreamUnavailable: Redis is gone, hangs or refuses; whether the entry was written is unknown, and writing
                the same ratings again is harmless.
            VolatileServer, StreamReplaced: see `verify`, called at every new connection.
        """
        return _id(await self._pipe.call("XADD", RATINGS, b"*", *itertools.chain.from_iterable(fields.items())))

    async def check_writable(self) -> None:
        """Return if the server takes writes now; asks by one that changes nothing. Raises as `append`."""
        await self._pipe.call("XADD", NEVER, "NOMKSTREAM", "*", "v", "0")

    async def aclose(self) -> None:
        """`close`, and wait until the event loop has let go of the socket."""
        self.close()
        await asyncio.sleep(0)

    def close(self) -> None:
        """Close every connection; appends that still wait fail. Call it where `append` was called."""
        self._pipe.close()
        self._client.close()

    # --- the promises of the server

    def verify(self) -> None:
        """Check that the server keeps what it acknowledges, and that its ids continue those of the log.

        Raises:
            VolatileServer: persistence is off, weaker than asked for, or entries may be evicted.
            StreamReplaced: the stream is behind the rating log and holds entries that the log does not have.
            StreamUnavailable: Redis is gone.
        """
        self._check_durability()
        self._raise_last_id(self._floor())

    def _check_durability(self) -> None:
        names = ("appendonly", "appendfsync", "maxmemory", "maxmemory-policy")
        with translated():
            try:
                found = {name: text_of(self._client.config_get(name).get(name, "")) for name in names}
            except redis.ResponseError as error:
                if not self._warned.is_set():
                    _log.warning("durability of redis cannot be checked: CONFIG is refused", error=str(error))
                self._warned.set()
                return
        refuse_volatile(found, self._appendfsync)

    def _raise_last_id(self, floor: StreamId) -> None:
        """Make the next id come after `floor`: a flushed or replaced server would start below the log."""
        with translated():
            # One transaction: an entry of another producer cannot slip in between the look and the noop.
            self._client.transaction(lambda pipeline: self._raise_in(pipeline, floor), RATINGS)

    def _raise_in(self, pipeline: Any, floor: StreamId) -> None:
        last, length = _last_and_length(pipeline)
        if last < floor and length and not self._is_older_copy(pipeline):
            raise StreamReplaced(
                f"Invalid stream: expected ids above {floor}, the last one in the rating log, got {length:,} entries"
                f" up to {last}. Was Redis replaced? Delete {RATINGS} to go on from the log, or bring back its data"
            )
        pipeline.multi()
        if last < floor:
            pipeline.xadd(RATINGS, {"v": NOOP_VERSION}, id=str(floor))
            _log.warning("stream was behind the rating log and has been raised", last=str(last), raised_to=str(floor))

    def _is_older_copy(self, pipeline: Any) -> bool:
        """Whether the log has the newest entries: a server that lost its tail then, or came from a backup."""
        newest = pipeline.xrevrange(RATINGS, count=COMPARED)
        ids = {_id(raw) for raw, fields in newest if fields.get(b"v") != NOOP_VERSION}
        return not ids or ids <= self._known(min(ids), max(ids))

    # --- reading

    def read(self, after: StreamId, block_ms: int = 0, count: int = 1000) -> Reading:
        """Entries behind `after`, at most `count`; waits up to `block_ms` (0: not at all) for the first one.

        Reading from behind a trimmed id skips silently: look at `Reading.trimmed` (`StreamReader` does).
        """
        with translated(), self._client.pipeline(transaction=False) as pipeline:  # one way for both
            pipeline.xread({RATINGS: str(after)}, count=count, block=block_ms or None)
            pipeline.get(TRIMMED)
            reply, trimmed = pipeline.execute()
        return Reading(
            [(_id(raw), fields) for _, entries in reply for raw, fields in entries], position_of(trimmed, TRIMMED)
        )

    def pause(self, seconds: float) -> None:
        """Wait in vain, asking the server: one that goes meanwhile, and may come back as another, fails this call."""
        with translated():
            self._client.blpop([NEVER], timeout=seconds)

    def last_id(self) -> StreamId:
        """The last id ever given out (not the last one still there)."""
        with translated():
            return _last_and_length(self._client)[0]

    def newest(self) -> StreamId:
        """Id of the newest entry still in the stream; `ZERO` if it is empty."""
        with translated():
            found = self._client.xrevrange(RATINGS, count=1)
        return _id(found[0][0]) if found else ZERO

    def trimmed_id(self) -> StreamId:
        """The highest id that trimming has removed, or is about to; `ZERO` before the first time."""
        return self._position(TRIMMED)

    # --- for the archiver

    def trim(self, upto: StreamId) -> None:
        """Remove every entry up to `upto`, which the rating log must have."""
        if upto <= self.trimmed_id():
            return
        with translated():
            self._client.eval(TRIM, 3, RATINGS, TRIMMED, NEVER, str(upto), str(StreamId(upto.ms, upto.seq + 1)))

    def memory_share(self) -> float:
        """How much of its `maxmemory` the server uses, 0 to 1 or a little more; 0 where it has no such limit."""
        with translated():
            memory = self._client.info("memory")
        limit = int(memory.get("maxmemory", 0))
        return int(memory["used_memory"]) / limit if limit else 0.0

    def request_commit(self, position: StreamId) -> None:
        """Ask whoever archives to commit everything up to `position` now."""
        with translated():
            self._client.set(COMMIT, str(position))

    def requested_commit(self) -> StreamId:
        """The position last asked for; `ZERO` if none ever was, or if something else is there: it is a wish only."""
        try:
            return self._position(COMMIT)
        except InvalidKey as error:
            _log.warning("request to commit is not understood", error=str(error))
            with translated():
                self._client.delete(COMMIT)
            return ZERO

    def reject(self, stream_id: StreamId, fields: Fields, reason: str) -> None:
        """Keep a bad entry for people to look at; doing it again changes nothing."""
        content: dict[Any, Any] = {**fields, b"reason": reason.encode(errors="replace")}
        with translated():
            try:
                self._client.xadd(REJECTED, content, id=str(stream_id), maxlen=MAX_REJECTED)
            except redis.ResponseError as error:
                if "equal or smaller" not in str(error):
                    raise

    def rejected(self, count: int = 100) -> list[tuple[StreamId, Fields]]:
        """The newest bad entries, newest first; their `reason` is a field beside the original ones."""
        with translated():
            return [(_id(raw), fields) for raw, fields in self._client.xrevrange(REJECTED, count=count)]

    # --- for forgetting

    def clear_rejected(self) -> None:
        """Empty the stream of bad entries: they may name a forgotten user."""
        with translated():
            self._client.xtrim(REJECTED, maxlen=0, approximate=False)

    def repack(self) -> StreamId | None:
        """Free what was trimmed to the byte: a node of the stream keeps trimmed entries beside those that remain.

        Returns:
            None if that is done. Where too many entries remain to be copied at a time, the id of one behind the nodes
            in question: trim up to there too, once the log has it.
        """
        with translated():
            found = self._client.eval(REPACK, 1, RATINGS, REPACKED)
        return _id(found) if found else None

    def rewrite_aof(self, folder: Path) -> None:
        """Rewrite the append-only file, so that what was trimmed is gone from disk too; returns when done.

        Args:
            folder: of an embedded server, from which what killed rewrites left is removed.

        Raises:
            StreamUnavailable: Redis is gone, could not write, or is not done after ten minutes.
            OSError: what was left cannot be removed.
        """
        deadline = time.monotonic() + AOF_REWRITE_TIMEOUT_S
        with translated():
            self._await_rewrite(deadline)  # one that runs already may still write what was trimmed since
            unused = aof_files.unused(folder)
            self._client.bgrewriteaof()
            if self._await_rewrite(deadline) != "ok":
                raise StreamUnavailable("Redis could not rewrite its append-only file: its log says why")
        aof_files.remove(folder, unused)

    def _await_rewrite(self, deadline: float) -> str:
        """How the last one went."""
        while True:
            state = self._client.info("persistence")
            if not (state["aof_rewrite_in_progress"] or state["aof_rewrite_scheduled"]):
                return str(state["aof_last_bgrewrite_status"])
            if time.monotonic() > deadline:
                raise StreamUnavailable(f"Redis has not rewritten its file after {AOF_REWRITE_TIMEOUT_S:g} s")
            time.sleep(_POLL_S)

    def _position(self, key: str) -> StreamId:
        with translated():
            return position_of(self._client.get(key), key)


def _last_and_length(client: Any) -> tuple[StreamId, int]:
    try:
        found = client.xinfo_stream(RATINGS)
    except redis.ResponseError as error:
        if "no such key" not in str(error):
            raise
        return ZERO, 0
    return _id(found["last-generated-id"]), int(found["length"])


def _id(raw: bytes) -> StreamId:
    return id_of(raw, RATINGS)
