"""The queries about sources of batches, and the answers to them; see `service.engine.queries`."""

from __future__ import annotations

from msgspec import Struct

from service.base.errors import Conflict
from service.engine.queries.forms import Count, Newest
from service.storage.sources import Source


class OffsetTooFar(Conflict):
    """The offset is so far above that of the batch before that all further batches would be skipped for long."""

    slug, title = "offset-too-far", "Offset too far ahead"


class TooManySources(Conflict):
    """The key has named as many sources as it may."""

    slug, title = "too-many-sources", "Too many sources"


class CheckSource(Struct, frozen=True, tag=True):
    """Asks whether a batch of `source` may be sent; the answer is `SourceTold`, `OffsetTooFar` or `TooManySources`."""

    source: Source


class WasSkipped(Struct, frozen=True, tag=True):
    """Asks whether the entry `stream_id`, which has been learned, was skipped, as `SourceTold`."""

    stream_id: str


class ListSources(Struct, frozen=True, tag=True):
    """Asks for `n` sources after the `offset` that advanced last, as `SourceList`."""

    n: Count = 100
    offset: Newest = 0


class FindSource(Struct, frozen=True, tag=True):
    """Asks for the sources `name` of the key `owner` (None: of every key), as `SourceList`."""

    name: str
    owner: str | None


class SourceTold(Struct):
    """The answer about an entry: whether it repeats what its source had delivered before."""

    was_skipped: bool
    as_of: str


class ListedSource(Struct):
    """How far a source has come.

    Attributes:
        source: its name.
        key: the key whose source it is: the name of a setting, or the id of a made key. Null: none was needed, and
            the mark holds for every key.
        offset: the highest one that has counted.
        stream_id: the entry that had it.
    """

    source: str
    key: str | None
    offset: int
    stream_id: str


class SourceList(Struct):
    """A page of sources, and the number of all."""

    sources: list[ListedSource]
    n_sources: int
    as_of: str


SourceQuery = CheckSource | WasSkipped | ListSources | FindSource
SourceAnswer = SourceTold | SourceList
