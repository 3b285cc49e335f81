"""`Truth`: what was written, acknowledged, learned, trimmed and forgotten in a world, and which promises it broke."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from service.storage.events import NOOP_VERSION, ZERO, Entry, StreamId
from service.storage.log.segment_folder import last_of
from tests.simulation.redis_server import Fields

Content = tuple[Any, ...]


def content_of(entry: Entry) -> Content:
    """What an entry says, however it was stored."""
    ratings = tuple((one.user, one.item, one.rating) for one in entry.ratings)
    return (entry.kind, ratings, entry.subject)


def users_of(content: Content) -> set[str]:
    """The users whom an entry names."""
    return {user for user, _, _ in content[1]} | ({content[2]} if content[0] == "forget" else set())


NOBODY = ""  # the user of what a forgetting leaves where the user was the first to rate an item
NOTHING: Content = ("noop", (), None)


class Truth:
    """Judges what the service does by its promises.

    Attributes:
        broken: the first broken promise, with the moment; empty if there is none.
        acknowledged: content by id.
        excused: entries that Redis has lost, and no process had any more: they were acknowledged, or learned.
    """

    def __init__(self) -> None:
        self.broken: list[str] = []
        self.acknowledged: dict[StreamId, Content] = {}
        self.written: dict[StreamId, Fields] = {}
        self.excused: set[StreamId] = set()
        self.forgets: dict[str, StreamId] = {}  # by user: before which position a forgetting removes all
        self.forgotten: set[str] = set()  # users of those that are done
        self.learners: set[Learned] = set()

    def check(self, is_kept: bool, promise: str) -> None:
        """Note a broken promise."""
        if not is_kept:
            self.broken.append(promise)

    def added(self, stream_id: StreamId, fields: Fields) -> None:
        """Redis has written an entry."""
        if fields.get(b"v") == NOOP_VERSION:
            return
        if stream_id in self.excused:  # nobody knows of its namesake
            self.excused.discard(stream_id)
            self.acknowledged.pop(stream_id, None)
            self.written.pop(stream_id)
        before = self.written.setdefault(stream_id, fields)
        self.check(before == fields, f"{stream_id} was given to two entries")

    def acknowledge(self, stream_id: StreamId, content: Content, before: dict[StreamId, Content]) -> None:
        """A client was told so; when it asked, `before` had been acknowledged."""
        self.check(stream_id not in self.acknowledged, f"{stream_id} was acknowledged twice")
        kept = (each for each, its in before.items() if self.acknowledged.get(each) is its and each not in self.excused)
        after = max(kept, default=ZERO)
        self.check(stream_id > after, f"{stream_id} was acknowledged after {after}")
        self.acknowledged[stream_id] = content
        for learned in self.learners:
            self.check_learned(learned, [stream_id])

    def check_learned(self, learned: Learned, ids: Iterable[StreamId]) -> None:
        """Whoever has passed an acknowledged entry has learned it: read-your-writes."""
        for stream_id in ids:
            if stream_id > learned.position or stream_id in learned.contents or stream_id in self.excused:
                continue
            is_removed = self.is_removed(stream_id, self.acknowledged[stream_id])
            self.check(is_removed, f"{learned.name} has passed {stream_id} without learning it")

    def is_removed(self, stream_id: StreamId, *contents: Content | None, done: bool = False) -> bool:
        """Whether a forgetting removes the entry; `done`: has removed it."""
        users = {user for content in contents if content for user in users_of(content)}
        return any(stream_id < self.forgets.get(user, ZERO) for user in users if not done or user in self.forgotten)

    def trimmed(self, upto: StreamId, removed: list[StreamId], durable: list[str]) -> None:
        """Redis has removed entries; `durable`: names of the files of the log that no power cut can take away."""
        logged = last_of(durable)
        for stream_id in removed:
            if stream_id in self.written:
                self.check(stream_id <= logged, f"{stream_id} was trimmed, and the log ends at {logged}")
        self.check(upto <= logged or not self.written, f"trimmed up to {upto}, and the log ends at {logged}")

    def check_log(self, entries: list[Entry]) -> None:
        """The log has what was acknowledged, in order, and each entry as it was written."""
        ids = [entry.id for entry in entries]
        self.check(ids == sorted(set(ids)), "the log is out of order")
        there = {entry.id: content_of(entry) for entry in entries}
        for stream_id, content in self.acknowledged.items():
            if self.is_removed(stream_id, content, done=True):
                names = users_of(there.get(stream_id, NOTHING))
                self.check(not names & users_of(content), f"{stream_id} of a forgotten user is in the log")
            elif stream_id not in self.excused and not self.is_removed(stream_id, content):
                self.check(there.get(stream_id) == content, f"{stream_id} was acknowledged and is not in the log")


class Learned:
    """What a process has learned: its state is a fold over these entries.

    Attributes:
        contents: of each entry, by id, in order.
        position: of the last one.
    """

    def __init__(self, name: str, truth: Truth) -> None:
        self.name, self._truth = name, truth
        self.contents: dict[StreamId, Content] = {}
        self.position = ZERO
        self.is_loaded = False

    def apply(self, entries: list[Entry]) -> None:
        """Learn entries."""
        before = self.position
        for entry in entries:
            self._truth.check(entry.id > self.position, f"{self.name} has learned {entry.id} after {self.position}")
            self.position = entry.id
            if entry.kind != "noop":
                self.contents[entry.id] = content_of(entry)
        if self.is_loaded:
            passed = [each for each in self._truth.acknowledged if before < each <= self.position]
            self._truth.check_learned(self, passed)

    def check(self, log: list[Entry]) -> None:
        """The state is that of the log up to this position: equal from any prefix."""
        truth = self._truth
        there = {entry.id: content_of(entry) for entry in log if entry.id <= self.position}
        for stream_id in there.keys() | self.contents.keys():
            ours, theirs = self.contents.get(stream_id), there.get(stream_id)
            if ours == theirs or stream_id in truth.excused:
                continue
            is_gone = ours is None or theirs is None or NOBODY in users_of(ours) | users_of(theirs)
            is_removed = is_gone and truth.is_removed(stream_id, ours, theirs)
            truth.check(is_removed, f"{self.name} and the log differ at {stream_id}: {ours} and {theirs}")
