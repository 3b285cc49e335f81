"""`Head`: the file `head.json` of a store, which names everything else that replicas take from there.

    head.json                   what the worker's folder had when it was written
    ratings/<sha256>.parquet    the segments of its rating log, by their content
    snapshots/<version>/        its snapshots

Files other than the head never change. The head is written after all that it names, so that a reader of it finds what
it needs, or, if it was replaced meanwhile, reads it again.
"""

from __future__ import annotations

import hashlib
import re
from typing import Any

import msgspec

from service.base.errors import ServiceError
from service.extras.stores.names import HEAD_FILE
from service.extras.stores.object_store import ObjectStore
from service.settings.settings import Settings
from service.storage.events import ZERO, StreamId
from service.storage.log.log_manifest import Sum
from service.storage.log.segment_folder import span_of
from service.storage.snapshots.live_versions import Live
from service.storage.snapshots.version_names import is_version

RATINGS, SNAPSHOTS = "ratings", "snapshots"
FORMAT = 1
MAX_BYTES = 16 << 20  # bytes of a head, of which a segment takes some 200
_DIGEST = re.compile(r"[0-9a-f]{64}")


class CorruptStore(ServiceError):
    """A store has something else than what a worker has written."""

    status, slug, title = 502, "corrupt-store", "Corrupt store"


class Head(msgspec.Struct, frozen=True):
    """What a store holds.

    Attributes:
        owner: id of the folder that is published there.
        segments: of the rating log, by name, each with one sum.
        live: name to version of the live models and shadows; each is one of `snapshots`.
        shadows: the names of the shadows.
        snapshots: all versions.
    """

    owner: str
    segments: dict[str, Sum]
    live: dict[str, str]
    shadows: list[str]
    snapshots: list[str]

    @property
    def position(self) -> StreamId:
        """The rating log has all entries up to this id."""
        return max((_span(name)[1] for name in self.segments), default=ZERO)

    @property
    def in_order(self) -> list[str]:
        """The names of the segments, the oldest first."""
        return sorted(self.segments, key=_span)

    @property
    def live_versions(self) -> Live:
        """What replicas answer with."""
        return Live(self.live, frozenset(self.shadows))

    def encoded(self) -> bytes:
        """The content of the file."""
        content = msgspec.json.encode(self, order="sorted")
        return msgspec.json.encode(_HeadDocument(FORMAT, hashlib.sha256(content).hexdigest(), msgspec.Raw(content)))

    @classmethod
    def of(cls, content: bytes, place: str) -> Head:
        """The head that `encoded` has written; `CorruptStore`, with `place`, if it is another one, or a newer one."""
        try:
            document = msgspec.json.decode(content, type=_HeadDocument)
            if document.format > FORMAT:
                raise ValueError(f"format {document.format} is newer than {FORMAT}: upgrade this process")
            if hashlib.sha256(document.content).hexdigest() != document.sha256:
                raise ValueError("its sha256 is not that of its content")
            head: Head = msgspec.json.decode(document.content, type=cls)
            # No name may lead elsewhere, or nowhere.
            wrong: list[Any] = [name for name in head.segments if span_of(name) is None]
            wrong += [segment.sha256 for segment in head.segments.values() if not _DIGEST.fullmatch(segment.sha256)]
            wrong += [version for version in head.snapshots if not is_version(version)]
            wrong += [name for name, version in head.live.items() if not is_version(version, name)]
            wrong += [version for version in head.live.values() if version not in head.snapshots]
            if wrong:
                raise ValueError(f"{wrong[0][:80]!r} is no name that it may have")
        except (ValueError, msgspec.MsgspecError) as error:
            raise CorruptStore(f"Invalid {place}/{HEAD_FILE}: expected what a worker has written: {error}") from None
        return head


class _HeadDocument(msgspec.Struct):
    format: int
    sha256: str
    content: msgspec.Raw


def object_of(segment: Sum) -> str:
    """The name of a segment in the store."""
    return f"{RATINGS}/{segment.sha256}.parquet"


def store_of(settings: Settings) -> ObjectStore:
    """The store of a data set; raises what `ObjectStore` raises."""
    within = ["sets", settings.data_set] if settings.data_set else []
    url = "/".join([(settings.store or "").rstrip("/"), *within])
    return ObjectStore(url, settings.keys("model_key"))


def read(store: ObjectStore) -> bytes | None:
    """The content of the head; None if there is none. Raises what `ObjectStore.read` raises."""
    return store.read(HEAD_FILE, MAX_BYTES)


def _span(name: str) -> tuple[StreamId, StreamId]:
    return span_of(name) or (ZERO, ZERO)
