"""Format of stream entries: the only parser and the only encoder of `nearfield:ratings`.

Fields of an entry: `v` (format version, "1") and exactly one of `ratings` (JSON array of `{user, item, rating,
timestamp}`), `events` (JSON array of `{user, item, type, value, timestamp, event_id}`), `items` (JSON array of
`service.storage.item_changes.ItemChange`), `users` (JSON array of `service.storage.user_changes.UserChange`),
`document` (JSON of a `service.storage.documents.Document`), `merge` (JSON `{user, into}`), `retract` (JSON `{user,
event_id}`, see `Retraction`), `unmark` (JSON `{name, owner}`, see `Unmark`), `forget` (a user), `hide`, `show` (an
item). Beside `ratings` or `events` there may be `source` (JSON `{name, offset}`) and with it `owner`, see `Source`;
beside `events` there is `attributed` ("1") if some of them have the further name `recommendation_id`; beside `items`
there is `shown` ("1") if some of them have further names (`service.storage.item_changes.SHOWN`); beside `document`
there is `filtered` ("1") if it is an experiment with a filter. `v=noop` alone only moves the stream's last id.

An entry with another version or field comes from a newer Nearfield, which has acknowledged it. It is not a bad entry,
and an older process must stop before it. Therefore a new kind of entry needs a new field, and a changed content of a
known field needs a new version.
"""

from __future__ import annotations

import itertools
import math
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Annotated, Literal, NamedTuple, TypeVar, get_args, overload

import msgspec
import numpy as np
from msgspec import UNSET
from numpy.typing import NDArray

from gpu.data import host_rating_text
from gpu.data.host_ids import IdColumn
from service.base import recommendation_ids
from service.base.ids import MAX_ID_BYTES, check_id
from service.base.limits import MAX_RATING
from service.settings.event_types import DEFAULT_TYPES, MAX_TYPE_LENGTH
from service.storage import documents, item_changes, user_changes
from service.storage.documents import Document
from service.storage.errors import BadEntry, NewerEntry
from service.storage.item_changes import ItemChange
from service.storage.sources import Source, Unmark, decode_source, decode_unmark, encode_source
from service.storage.user_changes import UserChange

FORMAT_VERSION = b"1"
NOOP_VERSION = b"noop"
MAX_EVENT_ID_LENGTH = 128  # characters
LATEST_EVENT_S = 1e11  # Unix seconds, the year 5138; later times are probably in milliseconds
BATCH_RATINGS = 1000  # ratings and events that are archived or learned in one batch: a few milliseconds of the engine
ITEM_COST = 10  # ratings that the engine applies in the time of one change of an item, or of a user's attributes
LONG = 2048  # bytes of ratings, about 20; to read fewer into columns takes longer than to make objects of them
ITEMS_PER_ENTRY = BATCH_RATINGS // ITEM_COST  # changes of items, or of users, in one entry

_STREAM_ID = re.compile(r"(\d{1,19})-(\d{1,19})", re.ASCII)
_CONTENTS = frozenset(
    (
        *(b"ratings", b"events", b"items", b"users", b"document", b"merge", b"retract", b"unmark"),
        *(b"forget", b"hide", b"show"),
    )
)
_FIELDS = _CONTENTS | {b"v", b"source", b"owner", b"attributed", b"shown", b"filtered"}
_MAX_STREAM_ID_PART = 2**63 - 1
_YES = b"1"
_OF_SOURCES = frozenset((b"ratings", b"events"))  # fields beside which `source` may be

Kind = Literal[
    "rating", "event", "item", "user", "document", "merge", "retract", "unmark", "forget", "hide", "show", "noop"
]
KINDS = frozenset(get_args(Kind))
_SUBJECT_KINDS: dict[bytes, Kind] = {b"forget": "forget", b"hide": "hide", b"show": "show"}  # by field
Id = Annotated[str, msgspec.Meta(min_length=1, max_length=MAX_ID_BYTES)]
RatingValue = Annotated[float, msgspec.Meta(ge=-MAX_RATING, le=MAX_RATING)]
# The judge of ratings checks the bound: its message has the number.
RatingTime = Annotated[float, msgspec.Meta(extra_json_schema={"maximum": LATEST_EVENT_S})]
TypeName = Annotated[
    str,
    msgspec.Meta(
        min_length=1,
        max_length=MAX_TYPE_LENGTH,
        description="One of the setting `events`.",
        examples=list(DEFAULT_TYPES),
    ),
]
EventValue = Annotated[RatingValue, msgspec.Meta(description="Multiplies the weight of the type.")]
EventTime = Annotated[float, msgspec.Meta(ge=0, le=LATEST_EVENT_S)]
RecommendationId = Annotated[
    str,
    msgspec.Meta(
        min_length=1,
        max_length=recommendation_ids.MAX_LENGTH,
        description="Of the answer that led to the event, as the same user got it in an experiment.",
    ),
]
EventId = Annotated[
    str,
    msgspec.Meta(
        min_length=1,
        max_length=MAX_EVENT_ID_LENGTH,
        description="Of a user's events with the same one only the first counts.",
        examples=["order-1047-2"],
    ),
]
Fields = Mapping[bytes, bytes]


class StreamId(NamedTuple):
    """A position in the stream; compares by its two numbers, not as text."""

    ms: int
    seq: int

    @classmethod
    def parse(cls, text: str) -> StreamId:
        """The id written as "<ms>-<seq>".

        Raises:
            ValueError: anything else, or a part beyond 2^63 - 1.
        """
        match = _STREAM_ID.fullmatch(text)
        if match is None or max(int(part) for part in match.groups()) > _MAX_STREAM_ID_PART:
            raise ValueError(f"Invalid stream id: expected <ms>-<seq>, got {text[:64]!r}")
        return cls(int(match[1]), int(match[2]))

    def __str__(self) -> str:
        return f"{self.ms}-{self.seq}"


ZERO = StreamId(0, 0)


class RatingEvent(msgspec.Struct, frozen=True, forbid_unknown_fields=True, gc=False):
    """One rating, as clients send it and the stream stores it.

    Attributes:
        user, item: ids, 1-256 bytes of UTF-8.
        rating: finite, from -1e6 to 1e6; None deletes the rating.
        timestamp: Unix seconds from the client; never decides order. NaN if unknown: the parser then takes the time of
            the entry.
    """

    user: Id
    item: Id
    rating: RatingValue | None
    timestamp: RatingTime = math.nan


class RatingColumns(Sequence[RatingEvent]):
    """B ratings as columns: an entry with many has no object for each.

    Attributes:
        users, items: their ids.
        values: float64 (B,); NaN deletes.
        timestamps: float64 (B,), Unix seconds.
    """

    def __init__(
        self, users: IdColumn, items: IdColumn, values: NDArray[np.float64], timestamps: NDArray[np.float64]
    ) -> None:
        self.users, self.items, self.values, self.timestamps = users, items, values, timestamps

    @classmethod
    def read(cls, value: bytes) -> RatingColumns | None:
        """The ratings that `value` of an entry has; None for JSON that another program wrote, right or wrong."""
        try:
            value.decode()
        except UnicodeDecodeError:
            return None
        n, columns = host_rating_text.read(np.frombuffer(bytearray(value), dtype=np.uint8), MAX_RATING)
        return None if n == host_rating_text.OTHER else cls(*columns)

    @classmethod
    def joined(cls, parts: Iterable[Sequence[RatingEvent]]) -> RatingColumns:
        """The ratings of all parts in order."""
        columns: list[RatingColumns] = []
        for are_columns, group in itertools.groupby(parts, lambda part: isinstance(part, RatingColumns)):
            if are_columns:
                columns += group  # type: ignore[arg-type]
                continue
            ratings = list(itertools.chain.from_iterable(group))
            users, items = IdColumn.of([one.user for one in ratings]), IdColumn.of([one.item for one in ratings])
            values = np.array([math.nan if one.rating is None else one.rating for one in ratings], dtype=np.float64)
            times = np.array([one.timestamp for one in ratings], dtype=np.float64)
            columns.append(cls(users, items, values, times))
        if len(columns) == 1:
            return columns[0]
        columns = columns or [cls(IdColumn.of(()), IdColumn.of(()), np.zeros(0), np.zeros(0))]
        users, items = (IdColumn.joined([getattr(one, name) for one in columns]) for name in ("users", "items"))
        values, timestamps = (
            np.concatenate([getattr(one, name) for one in columns]) for name in ("values", "timestamps")
        )
        return cls(users, items, values, timestamps)

    def __len__(self) -> int:
        return len(self.values)

    @overload
    def __getitem__(self, place: int) -> RatingEvent: ...

    @overload
    def __getitem__(self, place: slice) -> list[RatingEvent]: ...

    def __getitem__(self, place: int | slice) -> RatingEvent | list[RatingEvent]:
        if isinstance(place, slice):
            return [self[n] for n in range(*place.indices(len(self)))]
        codes = [int(ids.codes[place]) for ids in (self.users, self.items)]
        (user,), (item,) = self.users.texts(codes[:1]), self.items.texts(codes[1:])
        value = float(self.values[place])
        return RatingEvent(user, item, None if math.isnan(value) else value, float(self.timestamps[place]))

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Sequence) and list(self) == list(other)

    __hash__ = None  # type: ignore[assignment]


class TypedEvent(msgspec.Struct, frozen=True, forbid_unknown_fields=True, gc=False, omit_defaults=True):
    """Something that a user did with an item, as clients send it and the stream stores it.

    Attributes:
        user, item: ids, 1-256 bytes of UTF-8.
        type: its weight is a setting, see `service.settings.event_types`.
        value: finite, from -1e6 to 1e6; multiplies the weight.
        timestamp: Unix seconds, at most 1e11, later than which are only times in milliseconds; NaN if unknown, as in
            `RatingEvent`.
        event_id: 1-128 characters, at most 256 bytes of UTF-8; of a user's events with the same one the first counts.
        recommendation_id: of the list that led to it, verified before it is stored (`service.base.recommendation_ids`).
    """

    user: Id
    item: Id
    type: TypeName
    value: EventValue = 1.0
    timestamp: EventTime = math.nan
    event_id: EventId | None = None
    recommendation_id: RecommendationId | None = None


class Merge(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """All that is known of `user` becomes that of `into`, another one; see `service.engine.state.history.moving`."""

    user: Id
    into: Id


class Retraction(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Takes back one of the last events of `user`, as if it had not come; see `Strengths.retract` of the engine."""

    user: Id
    event_id: EventId


class Entry(msgspec.Struct, frozen=True):
    """One parsed stream entry.

    Attributes:
        kind: "rating" (see `ratings`), "event" (see `events`), "item" (see `items`), "user" (see `user_changes`),
            "document", "merge", "retract", "unmark", "forget" (a user), "hide" or "show" (an item: see `subject`), or
            "noop".
        source: of ratings or events that may be delivered again.
    """

    id: StreamId
    kind: Kind
    ratings: Sequence[RatingEvent] = []
    subject: str | None = None
    items: list[ItemChange] = []
    events: list[TypedEvent] = []
    source: Source | None = None
    document: Document | None = None
    merge: Merge | None = None
    unmark: Unmark | None = None
    user_changes: list[UserChange] = []
    retract: Retraction | None = None

    @property
    def n_rows(self) -> int:
        """Ratings, events and changes of items and users, each of which is a row of the log."""
        return len(self.ratings) + len(self.events) + len(self.items) + len(self.user_changes)

    @property
    def users(self) -> set[str]:
        """The users whom it names."""
        users = {rating.user for rating in self.ratings} | {event.user for event in self.events}
        users |= {change.user for change in self.user_changes}
        if self.merge is not None:
            users |= {self.merge.user, self.merge.into}
        if self.retract is not None:
            users |= {self.retract.user}
        return users | {self.subject} if self.kind == "forget" and self.subject is not None else users

    @property
    def adds(self) -> bool:
        """Whether it brings ratings, events or attributes, instead of taking away what is there."""
        return (
            bool(self.events)
            or any(rating.rating is not None for rating in self.ratings)
            or any(change.op != "delete" for change in self.items)
            or any(change != UserChange(change.user) for change in self.user_changes)
        )

    @property
    def cost(self) -> int:
        """The number of ratings that take as long to apply."""
        merging = BATCH_RATINGS if self.merge else 0  # nobody knows how much the user has: no other one waits for two
        described = len(self.items) + len(self.user_changes) + (self.retract is not None)
        return merging + len(self.ratings) + len(self.events) + ITEM_COST * described


Element = TypeVar("Element", RatingEvent, TypedEvent)

_decoder = msgspec.json.Decoder(list[RatingEvent])
_event_decoder = msgspec.json.Decoder(list[TypedEvent])
_merge_decoder = msgspec.json.Decoder(Merge)
_retraction_decoder = msgspec.json.Decoder(Retraction)
_encoder = msgspec.json.Encoder()


def encode_ratings(ratings: Sequence[RatingEvent], source: Source | None = None) -> dict[bytes, bytes]:
    """Fields of an entry with these ratings; every timestamp must be set."""
    return {b"v": FORMAT_VERSION, b"ratings": _encoder.encode(ratings), **encode_source(source)}


def encode_events(events: Sequence[TypedEvent], source: Source | None = None) -> dict[bytes, bytes]:
    """Fields of an entry with these events; every timestamp must be set."""
    fields = {b"v": FORMAT_VERSION, b"events": _encoder.encode(events), **encode_source(source)}
    if any(event.recommendation_id is not None for event in events):
        fields[b"attributed"] = _YES
    return fields


def encode_items(items: Sequence[ItemChange]) -> dict[bytes, bytes]:
    """Fields of an entry with these changes of the catalog."""
    fields = {b"v": FORMAT_VERSION, b"items": _encoder.encode(items)}
    if any(getattr(item, name) is not UNSET for item in items for name in item_changes.SHOWN):
        fields[b"shown"] = _YES
    return fields


def encode_users(users: Sequence[UserChange]) -> dict[bytes, bytes]:
    """Fields of an entry with these changes of the attributes of users."""
    return {b"v": FORMAT_VERSION, b"users": _encoder.encode(users)}


def encode_document(document: Document) -> dict[bytes, bytes]:
    """Fields of an entry that puts or deletes a document."""
    fields = {b"v": FORMAT_VERSION, b"document": documents.encode(document)}
    if document.kind == "experiment" and document.body and documents.experiment_of(document.body).filter is not None:
        fields[b"filtered"] = _YES
    return fields


def encode_merge(merge: Merge) -> dict[bytes, bytes]:
    """Fields of an entry that makes a user part of another one."""
    return {b"v": FORMAT_VERSION, b"merge": _encoder.encode(_different(merge))}


def encode_retraction(retraction: Retraction) -> dict[bytes, bytes]:
    """Fields of an entry that takes an event back."""
    return {b"v": FORMAT_VERSION, b"retract": _encoder.encode(retraction)}


def encode_unmark(unmark: Unmark) -> dict[bytes, bytes]:
    """Fields of an entry that forgets how far a source has come."""
    return {b"v": FORMAT_VERSION, b"unmark": _encoder.encode(unmark)}


def encode_subject(kind: Literal["forget", "hide", "show"], subject: str) -> dict[bytes, bytes]:
    """Fields of an entry that forgets a user, or hides or shows an item."""
    return {b"v": FORMAT_VERSION, kind.encode(): check_id(subject).encode()}


def parse_entry(stream_id: StreamId, fields: Fields) -> Entry:
    """The entry that `fields` describe.

    Raises:
        BadEntry: no version, not exactly one content field, or content out of its format.
        NewerEntry: a version, a field or a kind of documents that this process does not know.
    """
    version = fields.get(b"v")
    if version == NOOP_VERSION:
        return Entry(stream_id, "noop")
    if version is None:
        raise BadEntry(f"Invalid entry: expected the field v, got {sorted(fields)!r}")
    if version != FORMAT_VERSION or fields.keys() - _FIELDS:
        raise NewerEntry(
            f"entry {stream_id} has the version {version[:16]!r} and the fields {_shown(fields)}, this process reads"
            f" {FORMAT_VERSION!r} and {_shown(_FIELDS)}: upgrade this process"
        )
    contents = fields.keys() & _CONTENTS
    is_odd = (
        (b"source" in fields and not contents <= _OF_SOURCES)
        or (b"owner" in fields and b"source" not in fields)
        or (b"attributed" in fields and contents != {b"events"})
        or (b"shown" in fields and contents != {b"items"})
        or (b"filtered" in fields and contents != {b"document"})
    )
    if len(contents) != 1 or is_odd:
        raise BadEntry(f"Invalid fields of entry: expected v and one more, got {sorted(fields)!r}")
    (content,) = contents
    try:
        return _parse_content(stream_id, content, fields[content], decode_source(fields))
    except (ValueError, RecursionError, msgspec.MsgspecError) as error:
        raise BadEntry(f"Invalid {content.decode(errors='replace')[:64]} of entry: {error}") from error


def _parse_content(stream_id: StreamId, content: bytes, value: bytes, source: Source | None) -> Entry:
    match content:
        case b"ratings":
            ratings: Sequence[RatingEvent] | None = RatingColumns.read(value) if len(value) >= LONG else None
            if ratings is None:
                ratings = _checked(stream_id, value, _decoder.decode(value))
            entry = Entry(stream_id, "rating", ratings, source=source)
        case b"events":
            events = _checked(stream_id, value, _event_decoder.decode(value))
            for event in events:
                if event.recommendation_id is not None:
                    recommendation_ids.content_of(event.recommendation_id)
            entry = Entry(stream_id, "event", events=events, source=source)
        case b"items":
            entry = Entry(stream_id, "item", items=item_changes.decode_entry(value))
        case b"users":
            entry = Entry(stream_id, "user", user_changes=user_changes.decode_entry(value))
        case b"document":
            entry = Entry(stream_id, "document", document=documents.decode_entry(value))
        case b"merge":
            entry = Entry(stream_id, "merge", merge=_different(_merge_decoder.decode(value)))
        case b"retract":
            retraction = _retraction_decoder.decode(value)
            check_id(retraction.user)
            check_id(retraction.event_id)
            entry = Entry(stream_id, "retract", retract=retraction)
        case b"unmark":
            entry = Entry(stream_id, "unmark", unmark=decode_unmark(value))
        case _:
            entry = Entry(stream_id, _SUBJECT_KINDS[content], subject=check_id(value.decode()))
    return entry


def _different(merge: Merge) -> Merge:
    if check_id(merge.user) == check_id(merge.into):
        raise ValueError("expected two users, got one")
    return merge


def _shown(fields: Iterable[bytes]) -> str:
    return ", ".join(sorted(name.decode(errors="replace")[:64] for name in fields))


def _checked(stream_id: StreamId, value: bytes, elements: list[Element]) -> list[Element]:
    """The elements that `value` of an entry has, after a check of their ids, each with a timestamp."""
    if not value.isascii() or b"\\" in value:  # else each id is ASCII, and its length is checked already
        for element in elements:
            check_id(element.user)
            check_id(element.item)
    for element in elements:
        if not math.isfinite(element.timestamp):
            msgspec.structs.force_setattr(element, "timestamp", stream_id.ms / 1000)
    return elements


def portions(entries: Sequence[Entry]) -> Iterator[list[Entry]]:
    """`entries` in batches of about the cost of `BATCH_RATINGS` ratings; an entry is never split."""
    portion: list[Entry] = []
    cost = 0
    for entry in entries:
        portion.append(entry)
        cost += entry.cost
        if cost >= BATCH_RATINGS:
            yield portion
            portion, cost = [], 0
    if portion:
        yield portion
