"""`Stream`: the ratings stream in Redis. With `StreamWriter` the only one that knows its keys and commands (Redis 6.2).

nearfield:ratings    stream, one entry per accepted request (`service.storage.events`)
nearfield:trimmed    string, the highest id that trimming has removed; written before the entries are removed
nearfield:rejected   stream, bad entries under their original id, with the reason
nearfield:lost       hash, entries by id that processes offer to a server that has lost them, see `verification`
nearfield:verified   string, the run of the server in which the first process has verified it
nearfield:commit     string, a position that a process has asked the archiver to commit
nearfield:signing    string, the key that signs, see `service.storage.signing_key`
nearfield:publisher  string, the folder whose worker publishes the log, see `service.extras.stores.publisher`
nearfield:never      never exists; `pause` blocks on it, and commands that must change nothing name it

These are the names of the default data set (`service.settings.keyspace`).
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import redis
import structlog

from service.settings.keyspace import DEFAULT, Keyspace
from service.settings.settings import AppendFsync
from service.storage.errors import InvalidKey, StreamUnavailable
from service.storage.events import ZERO, Entry, Fields, StreamId
from service.storage.streams.redis_client import (
    APPEND_AFTER,
    COUNT,
    REPACK,
    TRIM,
    connect,
    id_of,
    last_and_length,
    position_of,
    rewrite_aof,
    text_of,
    translated,
)
from service.storage.streams.stream_writer import StreamWriter
from service.storage.streams.tail import Tail
from service.storage.streams.verification import Loss, Verification

MAX_REJECTED = 10_000
DROP_EVERY_S = 5.0  # seconds between two looks at the log for entries that need not be kept in memory
REPACKED = 300  # entries that one script copies; three times the default size of a stream node

_log = structlog.get_logger(__name__)


class Reading(NamedTuple):
    """The result of one read.

    Attributes:
        entries: ids and fields, in order.
        trimmed: `Stream.trimmed_id` after the entries were taken.
    """

    entries: list[tuple[StreamId, Fields]]
    trimmed: StreamId


class Stream:
    """Reads and trims; all methods but `close` may be called from any thread.

    Attributes:
        writer: appends, on one event loop; each new connection is verified (`verify`).
    """

    def __init__(
        self,
        url: str,
        floor: Callable[[], StreamId] = lambda: ZERO,
        appendfsync: AppendFsync = "always",
        known: Callable[[Sequence[Entry]], set[StreamId]] = lambda entries: set(),
        keys: Keyspace = DEFAULT,
        loss: Loss = Loss.PROCESSES,
    ) -> None:
        """Prepare a stream; nothing connects yet.

        Args:
            url: redis://, rediss:// or unix://.
            floor: returns the last id of the rating log; new entries must come after it and after all that was read.
            appendfsync: the weakest policy with which the server counts as durable.
            known: returns the ids of those of some entries that the service has read, see `RatingLog.known`.
            keys: of the data set.
            loss: who has what the server may lack when it comes back.
        """
        self.url, self._keys = url, keys
        self._floor, self._tail, self._dropped_s = floor, Tail(), 0.0
        self._client = connect(url)
        self._verification = Verification(self._client, keys, appendfsync, self._tail, floor, known, loss)
        self.writer = StreamWriter(url, lambda run: asyncio.to_thread(self.verify_run, run), self._tail, keys)

    async def aclose(self) -> None:
        """`close`, and wait until the event loop has released the socket."""
        self.close()
        await asyncio.sleep(0)

    def close(self) -> None:
        """Close all connections; appends that still wait fail. Call it on the event loop of `writer`."""
        self.writer.close()
        self._client.close()

    # --- the promises of the server

    def verify(self) -> None:
        """Verify the server, see `Verification`, which has the errors."""
        self._verification()

    def is_verified(self) -> bool:
        """Whether the server needs no `verify`, see `Verification.is_current`, which has the errors."""
        return self._verification.is_current()

    def note(self, entries: Iterable[tuple[StreamId, Fields]]) -> None:
        """Entries that another process of this service has written: a server that has lost them gets them again."""
        self._tail.note(entries)

    def signing_key(self, proposed: bytes | None = None, *, replace: bool = False) -> bytes | None:
        """The key that signs: `proposed`, if Redis has none or with `replace`. Raises `StreamUnavailable`."""
        with translated():
            if proposed is not None:
                self._client.set(self._keys.signing, proposed, nx=not replace)
            key: bytes | None = self._client.get(self._keys.signing)
            return key

    def publisher(self, proposed: str | None = None, *, replace: bool = False) -> str | None:
        """The folder that publishes the log: `proposed`, if none does or with `replace`. Raises `StreamUnavailable`."""
        with translated():
            if proposed is not None:
                self._client.set(self._keys.publisher, proposed, nx=not replace)
            value = self._client.get(self._keys.publisher)
        return None if value is None else text_of(value)

    def verify_run(self, run_id: str) -> None:
        """`verify`, for a writer's new connection to the server with this run id, see `StreamWriter`.

        Raises:
            StreamUnavailable: the server was replaced meanwhile.
        """
        self.verify()
        with translated():
            actual = text_of(self._client.info("server").get("run_id", "")) if run_id else ""
        if actual != run_id:
            raise StreamUnavailable("Redis was replaced while a connection to it was opened; try again")

    # --- reading

    def read(self, after: StreamId, block_ms: int = 0, count: int = 1000) -> Reading:
        """At most `count` entries after `after`; waits up to `block_ms` (0: not at all) for the first one.

        Redis skips trimmed entries silently: compare with `Reading.trimmed`, as `StreamReader` does.
        """
        with translated(), self._client.pipeline(transaction=False) as pipeline:  # one round trip for both
            pipeline.xread({self._keys.ratings: str(after)}, count=count, block=block_ms or None)
            pipeline.get(self._keys.trimmed)
            reply, trimmed = pipeline.execute()
        entries = [(self._id(raw), fields) for _, entries in reply for raw, fields in entries]
        self._tail.note(entries)
        if self._tail and time.monotonic() - self._dropped_s > DROP_EVERY_S:
            self._dropped_s = time.monotonic()
            self._tail.drop(self._floor())
        return Reading(entries, position_of(trimmed, self._keys.trimmed))

    def pause(self, seconds: float) -> None:
        """Wait by a blocking command, so that a lost connection fails this call and the server is verified again."""
        with translated():
            self._client.blpop([self._keys.never], timeout=seconds)

    def last_id(self) -> StreamId:
        """The last id that the server has assigned; its entry may have been trimmed."""
        with translated():
            return last_and_length(self._client, self._keys.ratings)[0]

    def newest(self) -> StreamId:
        """Id of the newest entry still in the stream; `ZERO` if it is empty."""
        with translated():
            entries = self._client.xrevrange(self._keys.ratings, count=1)
        return self._id(entries[0][0]) if entries else ZERO

    def n_after(self, position: StreamId) -> int:
        """How many entries come after `position`."""
        with translated():
            return int(self._client.eval(COUNT, 1, self._keys.ratings, f"({position}"))

    def trimmed_id(self) -> StreamId:
        """The highest id that trimming has removed or is about to remove; `ZERO` before the first trimming."""
        return self._position(self._keys.trimmed)

    def size(self) -> tuple[int, int]:
        """Entries in the stream, and bytes that they take in the server's memory, by its oldest 10,000 nodes."""
        with translated():
            n_bytes = self._client.memory_usage(self._keys.ratings, samples=10_000)  # a few old ones may be far larger
            return int(self._client.xlen(self._keys.ratings)), int(n_bytes or 0)

    def append_after(self, last: StreamId, fields: Fields) -> StreamId | None:
        """Append an entry right after the entry `last`, and return its id; None if others came after that one.

        So a server that has lost entries up to `last` does not take it. It is as durable as what `writer` appends.
        """
        flat = [part for pair in fields.items() for part in pair]
        with translated():
            raw = self._client.eval(APPEND_AFTER, 1, self._keys.ratings, str(last), *flat)
        if raw is None:
            return None
        stream_id = self._id(raw)
        self._tail.note([(stream_id, fields)])
        return stream_id

    # --- for the archiver

    def trim(self, upto: StreamId) -> None:
        """Remove all entries up to `upto`; the rating log must have them.

        A server that came back as an older copy may have entries again that were trimmed.
        """
        with translated():
            oldest, trimmed = self._client.xrange(self._keys.ratings, count=1), self.trimmed_id()
            if upto > trimmed or (oldest and self._id(oldest[0][0]) <= upto):
                keys = self._keys.ratings, self._keys.trimmed, self._keys.never
                after = StreamId(upto.ms, upto.seq + 1)
                self._client.eval(TRIM, len(keys), *keys, str(max(upto, trimmed)), str(after))

    def memory_share(self) -> float:
        """Share of its `maxmemory` that the server uses, 0 to 1 or slightly more; 0 without such a limit."""
        with translated():
            memory = self._client.info("memory")
        limit = int(memory.get("maxmemory", 0))
        return int(memory["used_memory"]) / limit if limit else 0.0

    def request_commit(self, position: StreamId) -> None:
        """Ask the process that archives to commit all entries up to `position` now."""
        with translated():
            self._client.set(self._keys.commit, str(position))

    def requested_commit(self) -> StreamId:
        """The position of the last request; `ZERO` if there is none or its value is invalid."""
        try:
            return self._position(self._keys.commit)
        except InvalidKey as error:
            _log.warning("invalid request to commit removed", error=str(error))
            with translated():
                self._client.delete(self._keys.commit)
            return ZERO

    def reject(self, stream_id: StreamId, fields: Fields, reason: str) -> None:
        """Keep a bad entry for operators to inspect. A second call changes nothing."""
        content: dict[Any, Any] = {**fields, b"reason": reason.encode(errors="replace")}
        with translated():
            try:
                self._client.xadd(self._keys.rejected, content, id=str(stream_id), maxlen=MAX_REJECTED)
            except redis.ResponseError as error:
                if "equal or smaller" not in str(error):
                    raise

    def rejected(self, count: int = 100) -> list[tuple[StreamId, Fields]]:
        """The newest bad entries, newest first; the field `reason` is added to the original ones."""
        with translated():
            return [(self._id(raw), fields) for raw, fields in self._client.xrevrange(self._keys.rejected, count=count)]

    # --- for forgetting

    def clear_rejected(self) -> None:
        """Empty the stream of bad entries, because they may name a forgotten user."""
        with translated():
            self._client.xtrim(self._keys.rejected, maxlen=0, approximate=False)

    def repack(self) -> StreamId | None:
        """Free all memory of trimmed entries, which stay in a node of the stream as long as the node has other entries.

        Returns:
            None if it is done. If too many entries remain to copy them at once, an id beyond the nodes in question:
            trim up to it when the log has it.
        """
        with translated():
            further = self._client.eval(REPACK, 1, self._keys.ratings, REPACKED)
        return self._id(further) if further else None

    def rewrite_aof(self, folder: Path) -> None:
        """Rewrite the append-only file, so that trimmed entries are gone from disk too; return when it is done.

        Args:
            folder: folder of an embedded server; leftovers of killed rewrites are removed from it.

        Raises:
            StreamUnavailable: Redis is gone, could not write, or is not done after ten minutes.
            OSError: leftovers cannot be removed.
        """
        with translated():
            rewrite_aof(self._client, folder)

    def _position(self, key: str) -> StreamId:
        with translated():
            return position_of(self._client.get(key), key)

    def _id(self, raw: bytes) -> StreamId:
        return id_of(raw, self._keys.ratings)
