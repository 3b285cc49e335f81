"""`broken`: which promises of the service a history of its clients breaks."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from operator import attrgetter

from service.storage.events import ZERO, StreamId
from tests.faults.history import History, Write


def broken(history: History) -> list[str]:
    """A line for each broken promise; empty: all are kept."""
    acknowledged = [write for write in history.writes if write.position is not None]
    return [*_in_order(acknowledged), *_not_back(history), *_of_one_state(history)]


def _in_order(acknowledged: list[Write]) -> Iterator[str]:
    """No two entries share a position, and what was written after an answer comes after it."""
    if len({write.position for write in acknowledged}) < len(acknowledged):
        yield "two entries have one position"
    ends = iter(sorted(acknowledged, key=attrgetter("ended_s")))
    ended, highest = next(ends, None), ZERO
    for write in sorted(acknowledged, key=attrgetter("began_s")):
        while ended is not None and ended.ended_s < write.began_s:
            highest, ended = max(highest, _position(ended)), next(ends, None)
        if _position(write) < highest:
            yield f"{write} was written below {highest}, which was acknowledged before"


def _not_back(history: History) -> Iterator[str]:
    """A client reads what it has waited for, and no service goes back before its eyes."""
    positions = {(write.user, write.item, write.rating): write.position for write in history.writes}
    seen: dict[tuple[str, ...], StreamId] = defaultdict(lambda: ZERO)
    for read in sorted(history.reads, key=attrgetter("began_s")):
        as_of = max(read.wait_for, seen[read.client,])
        if read.as_of < as_of:
            yield f"{read} is before {as_of}, which this client has seen"
        seen[read.client,] = read.as_of
        for item, rating in read.ratings.items():
            position, pair = positions.get((read.user, item, rating)), (read.client, read.user, item)
            if position is not None and position < seen[pair]:
                yield f"{read} has an older rating of {item} than this client has seen"
            seen[pair] = position or seen[pair]


def _of_one_state(history: History) -> Iterator[str]:
    """A read has, of each pair, the last rating up to its position, or a later one: none that is older, and no other.

    A write whose answer was lost may stand at any position after its beginning.
    """
    of_pair = defaultdict[tuple[str, str], list[Write]](list)
    for write in history.writes:
        of_pair[write.user, write.item].append(write)
    for read in history.reads:
        for item in {item for user, item in of_pair if user == read.user} | read.ratings.keys():
            writes = [write for write in of_pair[read.user, item] if write.began_s < read.ended_s]
            known = [write for write in writes if write.position is not None and write.position <= read.as_of]
            allowed = {write.rating for write in writes if write.position is None or write.position > read.as_of}
            allowed.add(max(known, key=_position).rating if known else None)
            if read.ratings.get(item) not in allowed:
                yield f"{read} has {read.ratings.get(item)} of {item}, expected one of {allowed}"


def _position(write: Write) -> StreamId:
    assert write.position is not None
    return write.position
