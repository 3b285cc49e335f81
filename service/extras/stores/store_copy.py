"""`StoreCopy`: makes a data folder what the head of a store names: rating log, snapshots, and which are live."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import IO

from service.base.errors import Conflict
from service.extras.stores import snapshot_transfer
from service.extras.stores.object_store import ObjectStore, ignore
from service.extras.stores.store_head import SNAPSHOTS, CorruptStore, Head, object_of
from service.storage import exclusion
from service.storage.errors import CorruptSnapshot
from service.storage.log.rating_log import RatingLog
from service.storage.snapshots import live_versions, snapshot


class StoreCopy:
    """Takes from the store what the folder lacks. No other process may write to the folder."""

    def __init__(self, store: ObjectStore, data: Path, log: RatingLog) -> None:
        """Prepare; `store` is that of the data set."""
        self._store, self._data, self._log = store, data, log
        self._folder = data / "snapshots"
        self._snapshots = ObjectStore(f"{store.url}/{SNAPSHOTS}", store.keys)

    def clean(self) -> None:
        """Remove what killed copies have left, and snapshots that are torn. Raises `OSError`."""
        exclusion.clean(self._data)
        self._log.files.remove_temporaries()
        for version in snapshot.versions(self._folder):
            try:
                snapshot.verify(self._folder, version)
            except CorruptSnapshot:
                snapshot.remove(self._folder, version)

    def take(self, head: Head, *, reads: bool) -> None:
        """Make the folder what `head` names.

        New segments and live models come first, in an order in which each moment is a whole log, and a live model is
        there before `live.json` names it. What the head does not name any more goes last.

        Args:
            head: of the store.
            reads: whether the content of segments that are here already is compared, too.

        Raises:
            Conflict: the log here is newer than the one in the store.
            CorruptStore: the store has something else than the head says; what was taken so far stays.
            CorruptLog, CorruptSnapshot, UnknownVersion: the same, or a file here is altered.
            StoreRefused, StoreUnavailable: see `ObjectStore`.
            OSError: the disk is full or broken.
        """
        if head.position < self._log.last_id():
            raise Conflict(
                f"Invalid {self._store.url}: expected a rating log up to {self._log.last_id()}, as in {self._data}, got"
                f" one up to {head.position}; if the store is the right one, empty the folder: it is filled again"
            )
        listed, files = self._log.files.listed(), self._log.files
        for name in head.in_order:
            expected = head.segments[name]
            if listed.get(name) != [expected] or not files.holds(name, expected, reads=reads):
                source = object_of(expected)

                def fetch(file: IO[bytes], source: str = source) -> None:
                    if self._store.fetch(source, file, ignore) is None:
                        raise CorruptStore(
                            f"Invalid {self._store.url}: expected {source}, as its head says, got no such file"
                        )

                files.take(name, expected, fetch)
        self.take_snapshots(head.live.values())
        live_versions.replace(self._data, head.live_versions)
        self._log.files.keep_only(head.segments)
        self.take_snapshots(head.snapshots)
        for version in snapshot.versions(self._folder):
            if version not in head.snapshots:
                snapshot.remove(self._folder, version)

    def take_snapshots(self, versions: Iterable[str]) -> None:
        """Fetch those that the folder lacks; raises what `snapshot_transfer.pull` raises."""
        there = snapshot.versions(self._folder)
        for version in versions:
            if version not in there:
                snapshot_transfer.pull(self._snapshots, version, self._folder, ignore)
