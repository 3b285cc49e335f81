"""`Undoing`: writes what takes everything that a source has sent back, and keeps what others change meanwhile."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import msgspec

from service.storage.events import (
    Fields,
    RatingEvent,
    Retraction,
    StreamId,
    encode_ratings,
    encode_retraction,
    encode_unmark,
)
from service.storage.log.rating_log import RatingLog
from service.storage.sources import Unmark
from service.storage.streams.stream import Stream
from service.storage.streams.stream_reader import StreamReader

MERGED = "users were merged meanwhile, and what they had of the source may have stayed: undo it again"


class Undo(msgspec.Struct, frozen=True):
    """What to take back.

    Attributes:
        source: the `X-Source` of its batches.
        key: the key that has sent them, as `GET /admin/sources` names it; empty: none. None: any.
        dry_run: whether to count alone.
    """

    source: str
    key: str | None = None
    dry_run: bool = False


class Start(msgspec.Struct):
    """The first line of a plan: the position of the state that it changes, and how many ratings and events it names."""

    as_of: str
    n: int


class Undoing:
    """Carries out a plan of `service.jobs.undo_plan`. A plan that was carried out in part is made again, and shorter.

    An entry is appended only right after the last one that was read. So nothing can come in between, and a rating that
    is newer than the plan stays.

    Attributes:
        left_out: how many ratings of the plan were changed before it came to them, by what it would have done.
        has_merged: whether users of the plan were merged meanwhile, whose part of it was left out.
    """

    def __init__(self, stream: Stream, log: RatingLog, undo: Undo, plan: Path) -> None:
        self._stream, self._log, self._undo, self._plan = stream, log, undo, plan
        self._newer, self._gone, self._merged = set[tuple[str, str]](), set[str](), set[str]()
        self.left_out, self.has_merged = Counter[str](), False

    def steps(self) -> Iterator[float]:
        """Write everything; yields the share that is done, at least once between two attempts.

        Raises:
            StreamUnavailable: Redis is gone. What was written stays, and another undoing of the source does the rest.
        """
        n_done = 0
        with self._plan.open("rb") as lines:
            start = msgspec.json.decode(next(lines), type=Start)
            self._reader = StreamReader(self._stream, self._log, StreamId.parse(start.as_of))
            for line in lines:
                step = msgspec.json.decode(line, type=list[RatingEvent] | Retraction)
                while not self._is_done(step):
                    yield n_done / start.n
                n_done += len(step) if isinstance(step, list) else 1
                yield n_done / start.n
        self._follow()
        while not self._append(encode_unmark(Unmark(self._undo.source, self._undo.key))):
            yield 1.0
            self._follow()
        yield 1.0

    def _is_done(self, step: list[RatingEvent] | Retraction) -> bool:
        """Write a step without what has changed meanwhile; whether nothing came in between."""
        self._follow()
        users = {step.user} if isinstance(step, Retraction) else {rating.user for rating in step}
        self.has_merged |= not users.isdisjoint(self._merged)
        if isinstance(step, Retraction):
            return step.user in self._gone or self._append(encode_retraction(step))
        left = [one for one in step if (one.user, one.item) not in self._newer and one.user not in self._gone]
        if left and not self._append(encode_ratings(left)):
            return False
        for sign, ratings in ((1, step), (-1, left)):
            for rating in ratings:
                self.left_out["deleted" if rating.rating is None else "restored"] += sign
        return True

    def _append(self, fields: Fields) -> bool:
        return self._stream.append_after(self._reader.cursor, fields) is not None

    def _follow(self) -> None:
        """Read what has come, of which nothing may be overwritten."""
        while entries := self._reader.read(0).entries:
            for entry in entries:
                self._newer.update((rating.user, rating.item) for rating in entry.ratings)
                if entry.kind in ("forget", "merge"):
                    self._gone |= entry.users
                if entry.kind == "merge":
                    self._merged |= entry.users
