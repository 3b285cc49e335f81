"""`Follower`: the thread that keeps the folder of a replica equal to what a worker publishes in a store.

Such a replica has a folder of its own and shares a store and Redis with the others. It appends to the stream, reads it,
and takes from the store what the stream has no longer. It neither archives nor trains, and no entry leaves the stream
before the store has it.
"""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Callable
from pathlib import Path

import structlog

from service.base.backoff import Backoff
from service.base.threads import PartThread, unheard
from service.extras.stores import store_head
from service.extras.stores.names import HEAD_FILE
from service.extras.stores.object_store import ObjectStore, StoreUnavailable
from service.extras.stores.store_copy import StoreCopy
from service.extras.stores.store_head import CorruptStore, Head
from service.settings.errors import InvalidSetting
from service.settings.settings import Settings
from service.storage import files
from service.storage.events import ZERO, StreamId
from service.storage.log.rating_log import RatingLog

POLL_S = 1.0  # seconds between two looks at the head
WAIT_S = 0.05  # seconds between two looks whether the first copy is there

_log = structlog.get_logger(__name__)


def check(settings: Settings) -> None:
    """Check that `serve` can follow the store in `settings`, if there is one.

    Raises:
        InvalidSetting: it cannot, or the extra for stores is not installed.
        InvalidRequest: the URL cannot be used.
    """
    if settings.store is None:
        return
    if settings.redis is None:
        raise InvalidSetting(
            "Invalid redis: expected the Redis of all replicas and of the worker with NEARFIELD_STORE, got none"
        )
    if settings.worker:
        raise InvalidSetting(
            "Invalid worker: expected false with NEARFIELD_STORE, because a replica with a folder of its own cannot"
            " train for the others; use --no-worker, and run `nearfield worker` with the same store and Redis"
        )
    store_head.store_of(settings)


class Follower:
    """Copies the store to the folder. Stands for the archiver, which runs elsewhere (`service.storage.archiver`).

    While the store is away, the folder stays as it is, and the replica goes on: ratings come by the stream.

    Attributes:
        obstacle, damage, n_pending: as of an archiver; nothing is archived here.
    """

    obstacle: str | None = None
    damage: str | None = None
    n_pending = 0

    def __init__(
        self,
        store: ObjectStore,
        data: Path,
        log: RatingLog,
        learned: Callable[[], StreamId],
        tell: Callable[[str | None], None],
        on_failure: Callable[[BaseException], None] = unheard,
    ) -> None:
        """Prepare; `start` starts the thread.

        Args:
            store: of the data set.
            data, log: of this replica alone.
            learned: returns the last entry that the replica has learned.
            tell: called with the reason why there is nothing to answer from yet, and with None when there is.
            on_failure: see `PartThread`.
        """
        self._store, self._data, self._rating_log = store, data, log
        self._learned, self._tell = learned, tell
        self._copy = StoreCopy(store, data, log)
        self._content: bytes | None = None  # of the head that the folder has
        self._is_clean = self._is_checked = False
        self._is_there, self._stopping = threading.Event(), threading.Event()
        self._agreed_s = time.monotonic()
        self._awaited, self._awaited_s = ZERO, self._agreed_s  # an entry that the log here shall get, and since when
        self._thread = PartThread("follower", self._run, on_failure)

    def start(self) -> None:
        """Start to copy."""
        self._thread.start()

    def stop(self) -> None:
        """End after the present file."""
        self._stopping.set()
        self._thread.join()

    def wait(self, stopping: threading.Event) -> None:
        """Return when the folder has a copy to answer from, or when `stopping` or this thread ends."""
        while not (stopping.is_set() or self._stopping.is_set() or self._is_there.wait(WAIT_S)):
            pass

    @property
    def age_s(self) -> float:
        """Seconds since folder and store were last found equal."""
        return time.monotonic() - self._agreed_s

    @property
    def lag_s(self) -> float:
        """Seconds for which the log here has lacked an entry that was learned; many: no worker archives."""
        return 0.0 if self._rating_log.last_id() >= self._awaited else time.monotonic() - self._awaited_s

    def step(self) -> None:
        """Look at the head, and take what is new. Raises what `StoreCopy.take` raises."""
        if not self.lag_s:
            self._awaited, self._awaited_s = self._learned(), time.monotonic()
        if not self._is_clean:
            self._copy.clean()
            self._is_clean = True
        content = store_head.read(self._store) if self._store.is_reachable else None
        if content is None:
            raise StoreUnavailable(
                f"{self._store.url} has no {HEAD_FILE} yet: expected that of a worker; start `nearfield worker` with"
                " the same store and Redis, or repair the path to the store"
            )
        if content != self._content or not self._is_checked:
            self._copy.take(Head.of(content, self._store.url), reads=not self._is_checked)
            if content != self._content:
                files.replace(self._data / HEAD_FILE, content)
            self._content, self._is_checked = content, True
        self._agreed_s = time.monotonic()

    def _run(self) -> None:
        with contextlib.suppress(OSError, CorruptStore):  # else the folder has no whole copy of a head
            content = files.read_regular(self._data / HEAD_FILE)
            Head.of(content, str(self._data))
            self._content = content
        backoff = Backoff("the copy of the store", self._stopping)
        while not self._stopping.is_set():
            try:
                self.step()
            except Exception as error:  # of any kind: report it and try again
                if self._content is None:
                    self._tell(f"the first copy of the store is not complete: {error}")
                else:
                    self._arrived()
                backoff.failed(error)
            else:
                self._arrived()
                backoff.worked()
                self._stopping.wait(POLL_S)

    def _arrived(self) -> None:
        if not self._is_there.is_set():
            self._tell(None)
            self._is_there.set()
