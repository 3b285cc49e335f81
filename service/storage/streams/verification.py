"""`Verification`: what a server must promise before an entry may be written to it, and what it is given back.

A server that was replaced by an older copy, emptied, or started with an older clock would give out ids again that
readers have passed: they would never see the new entries. So the next id must come after all ids that this process has
seen. The entries that the server lost are written to it again, under their ids.

A process that starts has seen nothing. So a server keeps the id of the run in which it was verified: in another run
every process, a new one too, first gives all others the time to offer what they have (`Loss`).
"""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Callable, Sequence
from enum import Enum, auto
from typing import Any

import msgspec
import redis
import structlog

from service.settings.keyspace import Keyspace
from service.settings.settings import AppendFsync
from service.storage.errors import BadEntry, NewerEntry, StreamReplaced, StreamUnavailable, VolatileServer
from service.storage.events import NOOP_VERSION, ZERO, Entry, Fields, StreamId, parse_entry
from service.storage.streams.redis_client import id_of, last_and_length, position_of, text_of, translated
from service.storage.streams.tail import Tail

COMPARED = 100  # newest entries to compare with the log: a foreign stream would not share their ids
OTHERS_S = 2.0  # seconds in which other processes give back what they have seen; they look for the server each second
SLOW_S = 0.5  # seconds after which an answer is late, and the others may be late too
POLL_S = 0.1  # seconds between two questions that tell
OFFERED_S = 60  # seconds after which an offer of a process that has ended goes
REPLACED = "Redis was replaced while it was verified; try again"

packed, _unpack = msgspec.msgpack.encode, msgspec.msgpack.Decoder(dict[bytes, bytes]).decode
_FSYNC_STRENGTH = {"no": 0, "everysec": 1, "always": 2}
_log = structlog.get_logger(__name__)


class Loss(Enum):
    """Who has what a server may lack when it comes back.

    Attributes:
        NONE: it lacks nothing, because it is embedded.
        PROCESSES: those that have written or read it, and the log of DATA.
        WORKER: also the log of another folder. The worker that has this log must be the first to verify the server.
    """

    NONE, PROCESSES, WORKER = auto(), auto(), auto()


class Verification:
    """Verifies the server of one client, at each new connection. May be called from any thread."""

    def __init__(
        self,
        client: Any,
        keys: Keyspace,
        appendfsync: AppendFsync,
        tail: Tail,
        archived: Callable[[], StreamId],
        known: Callable[[Sequence[Entry]], set[StreamId]],
        loss: Loss,
    ) -> None:
        """See `Stream` for the arguments; `archived` is its `floor`."""
        self._client, self._keys, self._appendfsync = client, keys, appendfsync
        self._tail, self._archived, self._known, self._loss = tail, archived, known, loss
        self._verifying = threading.Lock()
        self._run: str | None = None  # that was verified last
        self._ahead_ms = 0  # by which its clock was ahead of ours
        self._warned = False

    def __call__(self) -> None:
        """Check that the server keeps acknowledged entries, and that its ids continue those seen before.

        Raises:
            VolatileServer: persistence is off or too weak, entries may be evicted, or it is a part of a cluster.
            StreamReplaced: the stream is behind what this process has seen, and has entries that it does not know.
            StreamUnavailable: Redis is gone.
        """
        with self._verifying, translated():
            self.check_promises()
            run, began_ms = self.run_id(), int(time.time() * 1000)
            is_new, bound, ahead_ms = not run or run != self._run, ZERO, self._ahead_ms
            if (clock_ms := self.clock_ms()) is not None:
                # What other processes have seen is not above the clock of the server that gave it out.
                if is_new and clock_ms < (ours_ms := began_ms + max(self._ahead_ms, 0)):
                    bound = StreamId(ours_ms, 0)
                ahead_ms = clock_ms - int(time.time() * 1000)
            floor = max(self._archived(), self._tail.highest)  # before the last id: meanwhile both may grow
            last, _ = last_and_length(self._client, self._keys.ratings)
            is_verified = self._is_verified(run, last)
            # Ids that are raised past the clock keep out what others give back, as those that are raised to a floor do.
            if floor > last or not is_verified or (bound > last > ZERO and self._run is not None):
                # All offer what they have. The first to go on writes all of it, in order: no entry goes below another.
                n_offered = len(self._tail)  # before the offer, as a front may tell us more meanwhile
                self._change(run, lambda pipeline: self._offer(pipeline, floor))
                if is_new and not is_verified and self._loss is Loss.WORKER:
                    raise StreamUnavailable(
                        "Redis was started again, and its worker, which has the log, has not told yet what it lacks:"
                        " start `nearfield worker` if it does not run"
                    )
                if is_new:
                    self._await_others(run, floor, n_offered)
                floor = max(self._archived(), self._tail.highest)
                self._change(run, lambda pipeline: self._restore(pipeline, floor))
                self._change(run, lambda pipeline: self._raise_to(pipeline, floor))
            if bound > ZERO:
                self._change(run, lambda pipeline: self._raise_past(pipeline, bound))
            if run and (is_new or not is_verified):
                self._client.set(self._keys.verified, run)  # the others have had their time
            if is_new:
                self._ahead_ms = ahead_ms
            self._run = run

    def is_current(self) -> bool:
        """Whether the server is still the one that was verified last: a closed connection opens again in silence.

        True if it refuses to tell.

        Raises:
            StreamUnavailable: Redis is gone.
        """
        with translated():
            return self.run_id() in ("", self._run)

    def check_promises(self) -> bool:
        """Check that the settings of the server make it keep what it acknowledges; False if it refuses to tell them.

        Raises:
            VolatileServer: persistence is off or too weak, entries may be evicted, or it is a part of a cluster.
        """
        if self.info("cluster").get("cluster_enabled"):
            raise VolatileServer(
                "Invalid cluster-enabled of the Redis server: expected no, got yes: a transaction of the service"
                " names several keys, which may lie on several nodes of a cluster; name a server without cluster mode"
            )
        names = ("appendonly", "appendfsync", "maxmemory", "maxmemory-policy")
        try:
            config = {name: text_of(self._client.config_get(name).get(name, "")) for name in names}
        except redis.ResponseError as error:
            if not self._warned:
                _log.warning("durability of redis cannot be checked: CONFIG is refused", error=str(error))
            self._warned = True
            return False
        if config["appendonly"] != "yes":
            # CONFIG SET is not enough: until its first rewrite is done, a killed server would lose everything.
            raise VolatileServer("Invalid appendonly of the Redis server: expected yes, got no; restart it with yes")
        if _FSYNC_STRENGTH.get(config["appendfsync"], 0) < _FSYNC_STRENGTH[self._appendfsync]:
            raise VolatileServer(
                f"Invalid appendfsync of the Redis server: expected {self._appendfsync}, got {config['appendfsync']};"
                " change it there, or accept the weaker one with NEARFIELD_APPENDFSYNC"
            )
        if config["maxmemory"] not in ("", "0") and config["maxmemory-policy"] != "noeviction":
            policy = config["maxmemory-policy"]
            raise VolatileServer(f"Invalid maxmemory-policy of the Redis server: expected noeviction, got {policy}")
        return True

    def clock_ms(self) -> int | None:
        """The time of the server in milliseconds since 1970; None if it refuses to tell."""
        try:
            seconds, us = self._client.time()
        except redis.ResponseError:
            return None
        return int(seconds) * 1000 + int(us) // 1000

    def run_id(self) -> str:
        """What the server has drawn at its start; empty if it refuses to tell."""
        return text_of(self.info("server").get("run_id", ""))

    def info(self, section: str) -> dict[str, Any]:
        """What the server tells of itself; empty if it refuses."""
        try:
            return dict(self._client.info(section))
        except redis.ResponseError:
            return {}

    def _is_verified(self, run: str, last: StreamId) -> bool:
        """Whether the server has got back what it may have lost when this run began; true if it refuses to tell."""
        mark = self._client.get(self._keys.verified)
        is_of_older_version = mark is None and last > ZERO
        return self._loss is Loss.NONE or not run or is_of_older_version or text_of(mark or b"") == run

    def _await_others(self, run: str, floor: StreamId, n_offered: int) -> None:
        """Wait until the server has answered for as long as the others take to find it and to offer what they have.

        A front that joins meanwhile tells us what it has written: that is offered, too.
        """
        until_s = time.monotonic() + OTHERS_S
        while (asked_s := time.monotonic()) < until_s:
            if len(self._tail) != n_offered:
                n_offered = len(self._tail)
                self._change(run, lambda pipeline: self._offer(pipeline, floor))
            if self.run_id() != run:  # begin again at once: all give back to the other one now, and wait no longer
                raise StreamUnavailable(REPLACED)
            if time.monotonic() > asked_s + SLOW_S:
                until_s = time.monotonic() + OTHERS_S
            time.sleep(POLL_S)

    # --- raising the last id, each in one transaction

    def _change(self, run: str, change: Callable[[Any], None]) -> None:
        """Run `change` in a transaction on the server that is verified: no other producer appends within it.

        Raises:
            StreamUnavailable: another server has taken its place since, which may have lost more.
        """

        def on_this_server(pipeline: Any) -> None:
            with contextlib.suppress(redis.ResponseError):  # a server may refuse to tell
                if text_of(pipeline.info("server").get("run_id", "")) != run:
                    raise StreamUnavailable(REPLACED)
            change(pipeline)

        self._client.transaction(on_this_server, self._keys.ratings)

    def _offer(self, pipeline: Any, floor: StreamId) -> None:
        """Show the other processes the entries that the server has lost and this one still has."""
        lost = self._tail.after(max(self._last_if_ours(pipeline, floor), self._archived()))
        pipeline.multi()
        if lost:
            pipeline.hset(self._keys.lost, mapping={str(stream_id): packed(fields) for stream_id, fields in lost})
            pipeline.expire(self._keys.lost, OFFERED_S)

    def _restore(self, pipeline: Any, floor: StreamId) -> None:
        """Write the entries that the server has lost and any process still has, under their ids.

        Those that a log has stay away: it may have removed a forgotten user since, and `trim` would not see them.
        """
        last, key = self._last_if_ours(pipeline, floor), self._keys.lost
        archived, trimmed = self._archived(), position_of(pipeline.get(self._keys.trimmed), self._keys.trimmed)
        offered = dict[StreamId, Fields]()
        for raw, packed in pipeline.hgetall(key).items():
            offered[id_of(raw, key)] = _unpack(packed)
        offered |= dict(self._tail.after(max(last, archived)))
        lost = sorted(entry for entry in offered.items() if entry[0] > max(last, archived, trimmed))
        pipeline.multi()
        if last < archived and trimmed < archived:  # so that who has not read them from the stream reads the log
            pipeline.set(self._keys.trimmed, str(archived))
        for stream_id, fields in lost:
            pipeline.xadd(self._keys.ratings, dict(fields), id=str(stream_id))
        pipeline.delete(key)
        if lost:
            _log.warning("entries that redis had lost are written again", entries=len(lost), after=str(last))

    def _raise_to(self, pipeline: Any, floor: StreamId) -> None:
        """Make the next id greater than `floor`: a flushed or replaced server would start below it."""
        last = self._last_if_ours(pipeline, floor)
        pipeline.multi()
        if last < floor:
            pipeline.xadd(self._keys.ratings, {"v": NOOP_VERSION}, id=str(floor))
            _log.warning("stream was behind and has been raised", last=str(last), raised_to=str(floor))

    def _raise_past(self, pipeline: Any, bound: StreamId) -> None:
        """Make the next id greater than `bound`, which the clock of the server has not reached."""
        last, _ = last_and_length(pipeline, self._keys.ratings)
        pipeline.multi()
        if ZERO < last < bound:
            pipeline.xadd(self._keys.ratings, {"v": NOOP_VERSION}, id=str(bound))
            _log.info("clock of redis is behind; ids go on from ours", raised_to=str(bound))

    def _last_if_ours(self, pipeline: Any, floor: StreamId) -> StreamId:
        """The last id of the server. Raises `StreamReplaced` if it is below `floor` and has entries of others."""
        last, length = last_and_length(pipeline, self._keys.ratings)
        if last >= floor or not length:
            return last
        key = self._keys.ratings
        # If its newest entries are known, the server lost its tail or was restored from a backup.
        ours, unread = self._tail.ids(), list[Entry]()
        for raw, fields in reversed(pipeline.xrevrange(key, count=COMPARED)):
            stream_id = id_of(raw, key)
            with contextlib.suppress(BadEntry):  # nobody was told that it is kept
                try:
                    unread += [] if stream_id in ours else [parse_entry(stream_id, fields)]
                except NewerEntry:
                    unread.append(Entry(stream_id, "document"))
        unread = [entry for entry in unread if entry.kind != "noop"]
        if unread and not {entry.id for entry in unread} <= self._known(unread):
            raise StreamReplaced(
                f"Invalid stream: expected ids above {floor}, the last one that was read, got {length:,} entries up to"
                f" {last}, some of which this service has never read. Was Redis replaced? Keep them under another name,"
                f" RENAME {key} {key}:kept, to go on from the log, and add them again (docs/faults.md)"
            )
        return last
