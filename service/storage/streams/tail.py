"""`Tail`: the newest entries, in memory. A Redis that comes back without them gets them again."""

from __future__ import annotations

import threading
from collections.abc import Iterable

from service.storage.events import ZERO, Fields, StreamId

MAX_BYTES = 64 << 20  # bytes of entries; more than a commit of the archiver, after which they are dropped


class Tail:
    """What one process has written to the stream or read from it, and what the rating log may lack. For any thread.

    Attributes:
        highest: the highest id that was ever noted.
    """

    def __init__(self, max_bytes: int = MAX_BYTES) -> None:
        """Start empty; beyond `max_bytes` the entries that were noted first are dropped."""
        self._max_bytes, self._n_bytes = max_bytes, 0
        self._entries: dict[StreamId, Fields] = {}
        self._lock = threading.Lock()
        self.highest = ZERO

    def __len__(self) -> int:
        return len(self._entries)

    def note(self, entries: Iterable[tuple[StreamId, Fields]]) -> None:
        """Keep entries; those that are there already change nothing."""
        with self._lock:
            for stream_id, fields in entries:
                self.highest = max(self.highest, stream_id)
                if stream_id not in self._entries:
                    self._entries[stream_id] = fields
                    self._n_bytes += n_bytes_of(fields)
            while self._n_bytes > self._max_bytes:
                self._n_bytes -= n_bytes_of(self._entries.pop(next(iter(self._entries))))

    def after(self, position: StreamId) -> list[tuple[StreamId, Fields]]:
        """The entries after `position`, in order."""
        with self._lock:
            later = (entry for entry in self._entries.items() if entry[0] > position)
            return sorted(later, key=lambda entry: entry[0])

    def ids(self) -> set[StreamId]:
        """The ids of all entries."""
        with self._lock:
            return set(self._entries)

    def drop(self, upto: StreamId) -> None:
        """Drop the entries up to `upto`, which the rating log has."""
        with self._lock:
            self._entries = {stream_id: fields for stream_id, fields in self._entries.items() if stream_id > upto}
            self._n_bytes = sum(map(n_bytes_of, self._entries.values()))


def n_bytes_of(fields: Fields) -> int:
    """Bytes of the fields of an entry."""
    return sum(len(name) + len(value) for name, value in fields.items())
