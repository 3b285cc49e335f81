"""`rows_of`: what a service knows at one position, as batches of Arrow: ratings, events or items; or all of one user.

The rating log is read up to the position; no engine is asked. So an export has one state whatever comes meanwhile, and
a running service only shares the disk and a processor with it. A user who is forgotten before the log is read is left
out, also by an entry after the position.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Literal, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from service.base import recommendation_ids
from service.engine.state.history import History
from service.engine.state.sources import SourceMarks
from service.storage.events import ZERO, StreamId
from service.storage.item_changes import SHOWN, Attributes
from service.storage.log.introductions import NOBODY, are_of
from service.storage.log.ownership import Owners
from service.storage.log.rating_log import RatingLog

What = Literal["ratings", "events", "items"]
SLICE_ROWS = 1 << 16  # rows of a batch
OBJECT_ROWS = 1 << 13  # rows of a batch that are Python objects meanwhile, of about a kilobyte each

RATINGS = pa.schema(
    [("user", pa.string()), ("item", pa.string()), ("rating", pa.float32()), ("timestamp", pa.float64())]
)
EVENTS = pa.schema(
    [
        ("user", pa.string()),
        ("item", pa.string()),
        ("type", pa.string()),
        ("value", pa.float64()),
        ("timestamp", pa.float64()),
        ("event_id", pa.string()),
    ]
)
ITEMS = pa.schema(
    [
        ("item", pa.string()),
        ("tags", pa.map_(pa.string(), pa.list_(pa.string()))),
        ("numbers", pa.map_(pa.string(), pa.float64())),
        ("available", pa.bool_()),
        ("published", pa.float64()),
        ("until", pa.float64()),
        ("embedding", pa.list_(pa.float32())),
        ("title", pa.string()),
        ("url", pa.string()),
        ("image", pa.string()),
    ]
)
PERSON = pa.schema(
    [
        ("position", pa.string()),
        ("kind", pa.string()),
        ("user", pa.string()),
        ("item", pa.string()),
        ("rating", pa.float32()),
        ("timestamp", pa.float64()),
        ("type", pa.string()),
        ("value", pa.float64()),
        ("event_id", pa.string()),
        ("recommendation_id", pa.string()),
        ("experiment", pa.string()),
        ("arm", pa.string()),
        ("merged", pa.string()),
        ("source", pa.string()),
        ("offset", pa.int64()),
        ("owner", pa.string()),
        ("attributes", pa.string()),
    ]
)
_DATA = {"event": "recommendation_id", "merge": "merged", "user": "attributes"}  # the column data of the log, by kind


class Exported(NamedTuple):
    """What is exported.

    Attributes:
        schema: of all batches.
        batches: at most `SLICE_ROWS` rows each.
        n_rows: of all batches; None if it is not known before they are read.
    """

    schema: pa.Schema
    batches: Iterator[pa.RecordBatch]
    n_rows: int | None


def rows_of(log: RatingLog, what: What, upto: StreamId) -> Exported:
    """Everything of one kind up to the position `upto`, which the log must have reached.

    Ratings come in the order in which they were given last. Memory is that of a history without models and of the
    order, about 110 bytes a rating at most; events take none.

    Raises:
        CorruptLog: a segment is torn or altered; also while batches are read.
    """
    if what == "events":
        return Exported(EVENTS, batches_of_events(log, upto, log.owners()), None)
    history = History()
    history.load(log, upto=upto)
    if what == "ratings":
        for user in log.forgotten_since(upto):
            if (row := history.users.forget(user)) is not None:
                history.table.drop_user(row)
        return Exported(RATINGS, batches_of_ratings(history), history.table.n_ratings)
    rows = [row for row in range(len(history.items)) if history.catalog.attributes(row) is not None]
    return Exported(ITEMS, batches_of_items(history, rows), len(rows))


def rows_of_user(log: RatingLog, user: str, upto: StreamId) -> Exported:
    """Every row of the log that forgetting `user` removes at `upto`, in order, also those that came under merged ids.

    So a rating that was changed later is there, too, and a deletion as a row of that kind; an event of an experiment
    with its `experiment` and `arm`, and a change of attributes as JSON. Rows that an earlier forgetting still has to
    remove are left out, and the entries of forgettings. Memory is that of one row group. Raises what `rows_of` raises.
    """
    return Exported(PERSON, batches_of_user(log, user, upto), None)


def batches_of_user(log: RatingLog, user: str, upto: StreamId) -> Iterator[pa.RecordBatch]:
    """See `rows_of_user`."""
    owners = log.owners()
    parts = owners.parts(user, StreamId(upto.ms, upto.seq + 1))
    for batch in log.read():
        theirs = batch.filter(pa.array(are_of(batch, parts)))
        for first in range(0, theirs.num_rows, OBJECT_ROWS):
            rows = [
                row
                for row in theirs.slice(first, OBJECT_ROWS).to_pylist()
                if row["kind"] != "forget"
                and owners.owner(row["user"], StreamId(row["ms"], row["seq"]), upto) is not None
            ]
            for row in rows:
                row["position"] = str(StreamId(row["ms"], row["seq"]))
                if row["data"] is not None:
                    row[_DATA[row["kind"]]] = row["data"]
                if row["kind"] == "rating" and row["rating"] is None:
                    row["kind"] = "deletion"
                if (shown := row.get("recommendation_id")) is not None:
                    with contextlib.suppress(ValueError):  # older versions archived ids of others without a check
                        row["experiment"], _, row["arm"], *_ = recommendation_ids.content_of(shown)
            yield pa.RecordBatch.from_pylist(rows, schema=PERSON)
        if batch.num_rows and (batch["ms"][-1].as_py(), batch["seq"][-1].as_py()) > upto:
            return


def batches_of_ratings(history: History) -> Iterator[pa.RecordBatch]:
    """All ratings, in the order in which they were given last."""
    table = history.table
    starts, lengths, items, values = table.rows
    users = np.repeat(np.arange(table.n_users, dtype=np.int32), lengths)
    places = np.repeat(starts - np.cumsum(lengths) + lengths, lengths) + np.arange(len(users))
    order = np.argsort(table.positions[places])
    user_ids, item_ids = (pa.array(ids.ids(range(len(ids))), pa.string()) for ids in (history.users, history.items))
    for first in range(0, len(order), SLICE_ROWS):
        part = order[first : first + SLICE_ROWS]
        entries = places[part]
        columns = [
            user_ids.take(pa.array(users[part])),
            item_ids.take(pa.array(items[entries])),
            pa.array(values[entries]),
            pa.array(table.timestamps[entries]),
        ]
        yield pa.record_batch(columns, schema=RATINGS)


def batches_of_events(log: RatingLog, upto: StreamId, owners: Owners) -> Iterator[pa.RecordBatch]:
    """All events up to a position, in the order of the log."""
    retracted = retractions(log, upto, owners)
    sources = SourceMarks()
    for batch in log.read():
        rows = sources.new_rows_of(batch)
        are_events = pc.equal(rows.column("kind").cast(pa.string()), "event").to_numpy(zero_copy_only=False)
        ms, seq = (rows.column(name).to_numpy() for name in ("ms", "seq"))
        are_wanted = are_events & ((ms < upto.ms) | ((ms == upto.ms) & (seq <= upto.seq)))
        rows = rows.filter(pa.array(are_wanted))
        # With the users whose they were at `upto`, without those of forgotten users and of nobody.
        users = rows.column("user").cast(pa.string())
        is_nobodys = pc.equal(users, NOBODY).fill_null(True).to_numpy(zero_copy_only=False)
        is_changed = pc.is_in(users, pa.array(list(owners.ids), pa.string())).to_numpy(zero_copy_only=False)
        changed = np.flatnonzero(is_changed)
        columns = (rows.column(name).take(pa.array(changed)).to_pylist() for name in ("user", "ms", "seq"))
        shown = [
            owners.owner(user, StreamId(first, second), upto) for user, first, second in zip(*columns, strict=True)
        ]
        is_shown = ~is_nobodys
        is_shown[changed] &= np.array([user is not None for user in shown], dtype=np.bool_)
        users = pc.replace_with_mask(users, pa.array(is_changed), pa.array(shown, pa.string()))
        events = rows.set_column(rows.schema.get_field_index("user"), "user", users).filter(pa.array(is_shown))
        if retracted:
            keys = (events.column(name).to_pylist() for name in ("user", "event_id", "ms", "seq"))
            stays = [StreamId(ms, seq) > retracted.get((*key,), ZERO) for *key, ms, seq in zip(*keys, strict=True)]
            events = events.filter(pa.array(stays, pa.bool_()))
        if events.num_rows:
            whole = pa.Table.from_batches([events]).select(EVENTS.names).cast(EVENTS).combine_chunks()
            yield from whole.to_batches(max_chunksize=SLICE_ROWS)
        if len(ms) and (ms[-1], seq[-1]) > upto:
            return


def retractions(log: RatingLog, upto: StreamId, owners: Owners) -> dict[tuple[str | None, str], StreamId]:
    """Where events were taken back last, by the user whose they were at `upto` and the id of the event."""
    found: dict[tuple[str | None, str], StreamId] = {}
    for batch in log.read(columns=["kind", "user", "event_id"]):
        rows = batch.filter(pc.equal(batch.column("kind").cast(pa.string()), "retract"))
        columns = (rows.column(name).to_pylist() for name in ("user", "event_id", "ms", "seq"))
        for user, event_id, ms, seq in zip(*columns, strict=True):
            if (position := StreamId(ms, seq)) <= upto:
                found[owners.owner(user, position, upto), event_id] = position
    return found


def batches_of_items(history: History, rows: list[int]) -> Iterator[pa.RecordBatch]:
    """The attributes of the items in `rows`."""
    for first in range(0, len(rows), SLICE_ROWS):
        part = rows[first : first + SLICE_ROWS]
        items = [
            {
                "item": history.items.id(row),
                "tags": list(attributes.tags.items()),
                "numbers": list(attributes.numbers.items()),
                "available": attributes.available,
                "published": attributes.published,
                "until": attributes.until,
                "embedding": attributes.embedding,
                **{name: getattr(attributes, name) for name in SHOWN},
            }
            for row in part
            if (attributes := history.catalog.attributes(row) or Attributes())
        ]
        yield pa.RecordBatch.from_pylist(items, schema=ITEMS)
