"""`Publisher`: the thread of `nearfield worker` that copies its folder to a store, for replicas that follow it.

One folder publishes. Redis and the head of the store have its id, and a worker with another folder does nothing before
an operator says that the folder is lost (`nearfield worker --take-over`). An entry leaves the stream only when the
store has it, so that a lost folder, or a replica that was away for long, is filled again from store and stream.
"""

from __future__ import annotations

import secrets
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import structlog

from service.base.backoff import Backoff
from service.base.errors import Conflict
from service.base.threads import PartThread, unheard
from service.extras.stores import snapshot_transfer, store_head
from service.extras.stores.names import HEAD_FILE, OWNER_FILE
from service.extras.stores.object_store import READ_ONLY, ObjectStore, StoreUnavailable, ignore
from service.extras.stores.store_copy import StoreCopy
from service.extras.stores.store_head import RATINGS, SNAPSHOTS, Head, object_of
from service.settings.errors import InvalidSetting
from service.settings.settings import Settings
from service.storage import files
from service.storage.errors import CorruptSnapshot, UnknownVersion
from service.storage.events import ZERO, StreamId
from service.storage.log.log_manifest import Sum
from service.storage.log.rating_log import RatingLog
from service.storage.snapshots import live_versions, snapshot
from service.storage.snapshots.live_versions import Live
from service.storage.streams.stream import Stream

POLL_S = 0.5  # seconds between two looks at the folder
LOOK_EVERY_S = 60.0  # seconds between two looks at the store, beside those before each change
SETTLE_S = 600.0  # seconds that `settle` waits for the store

_log = structlog.get_logger(__name__)


def check(settings: Settings) -> None:
    """Check that `worker` can publish to the store in `settings`, if there is one.

    Raises:
        InvalidSetting: it cannot, or the extra for stores is not installed.
        InvalidRequest: the URL cannot be used.
    """
    if settings.store is None:
        return
    if settings.redis is None:
        raise InvalidSetting("Invalid redis: expected the Redis of all replicas with NEARFIELD_STORE, got none")
    if settings.store.startswith(READ_ONLY):
        raise InvalidSetting(
            "Invalid store: expected s3://, gs://, az:// or file:// for a worker, which writes to it, got HTTP"
        )
    store_head.store_of(settings)


class FolderState(NamedTuple):
    """What the folder has."""

    segments: dict[str, Sum]
    live: Live
    versions: list[str]


class Publisher:
    """Sends what the folder has and the store lacks, then replaces the head, then removes what it names no longer.

    Attributes:
        url: of the store.
    """

    def __init__(
        self,
        store: ObjectStore,
        data: Path,
        stream: Stream,
        log: RatingLog,
        on_failure: Callable[[BaseException], None] = unheard,
    ) -> None:
        """Prepare; `start` starts the thread."""
        self.url = store.url
        self._store, self._data, self._stream, self._rating_log = store, data, stream, log
        self._snapshots = ObjectStore(f"{store.url}/{SNAPSHOTS}", store.keys)
        self._head: Head | None = None  # as the store has it
        self._sent: set[str] = set()  # objects of segments that the store has
        self._signed: set[str] = set()  # versions that this process has signed, if there is a key
        self._content: bytes | None = None  # of this head
        self._is_swept = False  # whether the store has only what it names
        self._sent_state: FolderState | None = None
        self._looked_s = -LOOK_EVERY_S
        self._settled_s = -1.0  # when the last pass began that has ended well
        self._unpublished: dict[str, str] = {}  # snapshots that cannot be sent, and why
        self._poked, self._stopping = threading.Event(), threading.Event()
        self._thread = PartThread("publisher", self._run, on_failure)

    # --- from any thread

    def prepare(self, *, take_over: bool = False) -> None:
        """Make sure that this folder publishes, and has all that the store has. Call it before any other part starts.

        Args:
            take_over: publish from now on in place of another folder, which is lost; this one must have no ratings.

        Raises:
            Conflict: another folder publishes, or the store belongs to one.
            StreamUnavailable, StoreUnavailable, StoreRefused, CorruptStore, OSError: try again.
        """
        if not self._store.is_reachable:
            raise StoreUnavailable(f"{self._store.url}: expected a folder, which a worker does not make, got none")
        content, last = store_head.read(self._store), self._rating_log.last_id()
        head = None if content is None else Head.of(content, self._store.url)
        if head is not None and head.owner != self._id and not (take_over and last == ZERO):
            raise Conflict(
                f"Invalid store {self._store.url}: expected that of {self._data}, got one of another folder; name"
                " another store, or, if that folder is lost, start once with an empty one and --take-over"
            )
        proposed = self._id
        # Before Redis or a head names the id, also when it is there: an earlier start may have failed here.
        files.sync(self._data)
        self._stream.publisher(proposed, replace=take_over)
        self.check()
        if head is not None and head.position > last:
            _log.warning("the folder takes what the store has and it lacks", folder=last, store=head.position)
            StoreCopy(self._store, self._data, self._rating_log).take(head, reads=True)

    def start(self) -> None:
        """Start to publish."""
        self._thread.start()

    def stop(self) -> None:
        """End after the present file; the next start sends the rest, which the stream keeps meanwhile."""
        self._stopping.set()
        self._poked.set()
        self._thread.join()

    def check(self) -> None:
        """Check that no other folder publishes.

        Raises:
            Conflict: one does.
            StreamUnavailable: Redis is gone.
        """
        publisher = self._stream.publisher(self._id)
        if publisher != self._id:
            raise Conflict(
                f"Invalid data: expected the folder that publishes the ratings, got {self._data}, which is not it; stop"
                " this worker, or, if the other folder is lost, start once with an empty one and --take-over"
            )

    def upto(self) -> StreamId:
        """The store has all entries up to this one. Raises what `check` raises."""
        self.check()
        return ZERO if self._head is None else self._head.position

    def settle(self) -> None:
        """Return when the store is as the folder was at the call, without anything that is no longer in the folder.

        Raises:
            StoreUnavailable: not within ten minutes.
        """
        asked_s = time.monotonic()
        while self._settled_s < asked_s:
            if time.monotonic() > asked_s + SETTLE_S:  # not at a stop: who waits then goes on after the next start
                raise StoreUnavailable(f"{self._store.url} has not taken the present state of {self._data}")
            self._poked.set()
            time.sleep(POLL_S / 10)

    # --- the thread

    def _run(self) -> None:
        backoff = Backoff("the publisher", self._stopping)
        while not self._stopping.is_set():
            try:
                self.step()
            except Exception as error:  # of any kind: report it and try again
                backoff.failed(error)
            else:
                backoff.worked()
                self._poked.wait(POLL_S)
                self._poked.clear()

    def step(self) -> None:
        """Bring the store up to date.

        Raises:
            Conflict: see `check`.
            CorruptLog, OSError: the folder cannot be read, or has changed meanwhile.
            StoreRefused, StoreUnavailable: see `ObjectStore`.
        """
        begun_s = time.monotonic()
        there = {segment.path.name for segment in self._rating_log.files.segments()}
        sums_of = self._rating_log.files.listed()
        # A segment is being written and will be listed, or a write has failed before it was: then nobody else lists it.
        if not there <= sums_of.keys() or any(len(sums) != 1 for sums in sums_of.values()):
            self._rating_log.files.seal()
            return
        versions = sorted(snapshot.versions(self._data / "snapshots"))
        segments = {name: segment for name, (segment,) in sums_of.items()}
        state = FolderState(segments, live_versions.read_all(self._data), versions)
        if state != self._sent_state or begun_s - self._looked_s > LOOK_EVERY_S:
            # Find out what the store has, if its head is not the one that was written last.
            if not self._store.is_reachable:
                raise StoreUnavailable(f"{self._store.url}: expected a folder, which a worker does not make, got none")
            content = store_head.read(self._store)
            if content is None or content != self._content:
                self._head, self._content = None, content
                self._sent = set(self._store.names(RATINGS))
            self._send(state)
            self._sent_state, self._looked_s = state, begun_s
        self._settled_s = begun_s

    def _send(self, state: FolderState) -> None:
        for name, segment in sorted(state.segments.items()):
            if (target := object_of(segment)) not in self._sent:
                if self._store.send(target, self._rating_log.folder / name, ignore) != segment.sha256:
                    self._store.remove([target])
                    raise OSError(f"{name} has changed while it was sent")
                self._sent.add(target)
        sent = [version for version in state.versions if self._send_snapshot(version)]
        # What the store now has. A live version that it lacks leaves the one before it live there.
        before, live = {} if self._head is None else self._head.live, state.live
        if not live.is_written:  # somebody repairs it
            live = live._replace(versions=before)
        wanted = {name: v if v in sent else before.get(name, "") for name, v in live.versions.items()}
        shown = {name: version for name, version in sorted(wanted.items()) if version in sent}
        head = Head(self._id, state.segments, shown, sorted(live.shadows & shown.keys()), sent)
        if head != self._head:
            self.check()
            content = head.encoded()
            self._store.write(HEAD_FILE, content)
            self._head, self._content, self._is_swept = head, content, False
        if not self._is_swept:
            # Remove everything that the head does not name, such as what names a user who was forgotten.
            names = set(map(object_of, head.segments.values()))
            gone = [name for name in self._store.names(RATINGS) if name not in names]
            gone += [name for name in self._store.names(SNAPSHOTS) if name.split("/")[1] not in head.snapshots]
            self._sent -= set(gone)
            self._store.remove(gone)
            self._is_swept = True

    def _send_snapshot(self, version: str) -> bool:
        """Send a snapshot that the store lacks; return whether the store has it. A damaged one holds nothing up."""
        is_signed = version in self._signed or not self._snapshots.keys
        if self._head is not None and version in self._head.snapshots and is_signed:
            return True
        try:
            snapshot_transfer.push(self._data / "snapshots", version, self._snapshots, ignore, ignore)
        except UnknownVersion:  # it was removed meanwhile
            return False
        except (CorruptSnapshot, Conflict) as error:
            if version not in self._unpublished:
                _log.error("a model cannot be published", version=version, error=str(error))
            self._unpublished[version] = str(error)
            return False
        self._signed.add(version)
        return True

    @property
    def _id(self) -> str:
        """The id of the folder, which the first call makes."""
        path = self._data / OWNER_FILE
        try:
            return files.read_regular(path).decode("ascii").strip()
        except FileNotFoundError:
            files.replace(path, secrets.token_hex(16).encode())
            return files.read_regular(path).decode("ascii").strip()
