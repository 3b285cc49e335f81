"""One segment file of the rating log: a Parquet table of entries, with one row group per written batch.

Columns: ms, seq (the stream id), index (of the rating, event, item or user in its entry), kind (rating, event, item,
user, document, merge, retract, unmark, forget, hide, show), user, item, rating (null = delete), timestamp (Unix
seconds), data (JSON: of an item its `service.storage.item_changes.ItemChange`, of a user the
`service.storage.user_changes.UserChange`, of a document its `service.storage.documents.Document`; as text: of an event
its recommendation id, of a merge the user who becomes part of the one in `user`), type, value, event_id (of events and
retractions), source, offset, owner (of the entry; of an unmark the source and its owner, null for all owners). Segments
of older versions lack the last ones, which read as null. The file is compressed with zstd and has page checksums, which
every read verifies. A row group has whole entries.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import IO, Any, BinaryIO

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from numpy.typing import NDArray

from gpu.data.host_ids import IdColumn
from service.storage import documents, files, item_changes, user_changes
from service.storage.errors import CorruptLog, NewerEntry
from service.storage.events import KINDS, Entry, Merge, RatingColumns, RatingEvent, Retraction, StreamId, TypedEvent
from service.storage.sources import Source, Unmark

SCHEMA = pa.schema(
    [
        ("ms", pa.int64()),
        ("seq", pa.int64()),
        ("index", pa.int32()),
        ("kind", pa.string()),
        ("user", pa.string()),
        ("item", pa.string()),
        ("rating", pa.float32()),
        ("timestamp", pa.float64()),
        ("data", pa.string()),
        ("type", pa.string()),
        ("value", pa.float64()),
        ("event_id", pa.string()),
        ("source", pa.string()),
        ("offset", pa.int64()),
        ("owner", pa.string()),
    ]
)

_DICTIONARIES = ["kind", "user", "item", "rating", "timestamp", "type", "value", "source", "offset", "owner"]
_DICTIONARY_BYTES = 32 << 20


def table_of(entries: Sequence[Entry]) -> pa.Table:
    """The rows of `entries`; a noop has no row."""
    tables = [SCHEMA.empty_table()]
    with_rows = (entry for entry in entries if entry.kind != "noop")
    for kind, run in itertools.groupby(with_rows, key=lambda entry: entry.kind):
        of_kind = list(run)
        if kind == "rating":
            ratings = RatingColumns.joined(entry.ratings for entry in of_kind)
            columns: dict[str, Any] = {
                "user": _text_of(ratings.users),
                "item": _text_of(ratings.items),
                "rating": pa.array(ratings.values.astype(np.float32), mask=np.isnan(ratings.values)),
                "timestamp": ratings.timestamps,
            }
        elif kind == "event":
            events = [event for entry in of_kind for event in entry.events]
            names = "user", "item", "timestamp", "type", "value", "event_id"
            columns = {name: [getattr(event, name) for event in events] for name in names}
            columns["data"] = [event.recommendation_id for event in events]
        elif kind == "item":
            changes = [change for entry in of_kind for change in entry.items]
            data = [item_changes.encode(change).decode() for change in changes]
            columns = {"item": [change.item for change in changes], "data": data}
        elif kind == "user":
            described = [change for entry in of_kind for change in entry.user_changes]
            data = [user_changes.encode(change).decode() for change in described]
            columns = {"user": [change.user for change in described], "data": data}
        else:
            tables.append(_of_single_rows(of_kind))
            continue
        tables.append(_of_columns(of_kind, columns))
    return pa.concat_tables(tables).combine_chunks()


def _text_of(ids: IdColumn) -> pa.Array:
    buffers = pa.py_buffer(ids.offsets), pa.py_buffer(ids.text)
    return pa.StringArray.from_buffers(len(ids.offsets) - 1, *buffers).take(pa.array(ids.codes))


def _of_single_rows(entries: list[Entry]) -> pa.Table:
    """The rows of entries that have one each."""
    rows = []
    for entry in entries:
        if entry.document is not None:
            content: dict[str, Any] = {"data": documents.encode(entry.document).decode()}
        elif entry.merge is not None:
            content = {"user": entry.merge.into, "data": entry.merge.user}
        elif entry.retract is not None:
            content = {"user": entry.retract.user, "event_id": entry.retract.event_id}
        elif entry.unmark is not None:
            content = {"source": entry.unmark.name, "owner": entry.unmark.owner}
        else:
            content = {"user" if entry.kind == "forget" else "item": entry.subject}
        rows.append({"ms": entry.id.ms, "seq": entry.id.seq, "index": 0, "kind": entry.kind, **content})
    return pa.Table.from_pylist(rows, schema=SCHEMA)


def _of_columns(entries: list[Entry], columns: dict[str, Any]) -> pa.Table:
    """Built by columns: one Python object per row would hold the GIL for tens of milliseconds."""
    counts = [entry.n_rows for entry in entries]
    n_rows = sum(counts)
    columns |= {
        "ms": np.repeat(np.array([entry.id.ms for entry in entries], np.int64), counts),
        "seq": np.repeat(np.array([entry.id.seq for entry in entries], np.int64), counts),
        "index": np.arange(n_rows) - np.repeat(np.cumsum(counts) - counts, counts),
        "kind": pa.array([entries[0].kind]).take(pa.array(np.zeros(n_rows, np.int32))),
    }
    sources = [entry.source for entry in entries]
    if any(sources):
        rows = pa.array(np.repeat(np.arange(len(entries)), counts))
        names = pa.array([source and source.name for source in sources], pa.string())
        offsets = pa.array([source and source.offset for source in sources], pa.int64())
        owners = pa.array([(source and source.owner) or None for source in sources], pa.string())
        columns |= {"source": names.take(rows), "offset": offsets.take(rows), "owner": owners.take(rows)}
    return filled(columns, n_rows)


def filled(columns: Mapping[str, Any], n_rows: int) -> pa.Table:
    """A table of all columns of `SCHEMA`; those that `columns` lacks are null."""
    arrays = [pa.array(columns[f.name], f.type) if f.name in columns else pa.nulls(n_rows, f.type) for f in SCHEMA]
    return pa.table(arrays, schema=SCHEMA)


_OF_ROWS = frozenset(("rating", "event", "item", "user"))  # kinds whose entries may have several rows


def entries_of(batch: pa.RecordBatch) -> list[Entry]:
    """The entries of the rows in `batch`: the inverse of `table_of`, without noops."""
    entries: list[Entry] = []
    ratings: list[RatingEvent] = []  # of the last entry
    columns = (column.to_pylist() for column in plain(batch).columns)
    for ms, seq, _, kind, user, item, rating, timestamp, data, *event, source, offset, owner in zip(
        *columns, strict=True
    ):
        if kind == "document":
            entries.append(Entry(StreamId(ms, seq), kind, document=documents.decode_row(data)))
            continue
        if kind == "merge":
            entries.append(Entry(StreamId(ms, seq), kind, merge=Merge(data, user)))
            continue
        if kind == "retract":
            entries.append(Entry(StreamId(ms, seq), kind, retract=Retraction(user, event[-1])))
            continue
        if kind == "unmark":
            entries.append(Entry(StreamId(ms, seq), kind, unmark=Unmark(source, owner)))
            continue
        if kind not in _OF_ROWS:
            entries.append(Entry(StreamId(ms, seq), kind, subject=user if kind == "forget" else item))
            continue
        if not entries or entries[-1].id != (ms, seq):
            its_source = None if source is None else Source(source, offset, owner or "")
            ratings = []
            entries.append(Entry(StreamId(ms, seq), kind, ratings, source=its_source))
        if kind == "item":
            entries[-1].items.append(item_changes.decode_row(data))
        elif kind == "user":
            entries[-1].user_changes.append(user_changes.decode_row(data))
        elif kind == "event":
            name, value, event_id = event
            entries[-1].events.append(TypedEvent(user, item, name, value, timestamp, event_id, data))
        else:
            ratings.append(RatingEvent(user, item, rating, timestamp))
    return entries


def plain(batch: pa.RecordBatch) -> pa.Table:
    """A batch that was read, without dictionaries: they would keep values that no row uses any more."""
    return pa.Table.from_batches([batch]).select(SCHEMA.names).cast(SCHEMA)


def write_groups(file: IO[bytes], groups: Iterable[pa.Table]) -> None:
    """Write a segment with one row group per table, so that a group has whole entries, as each table does."""
    with pq.ParquetWriter(
        file,
        SCHEMA,
        compression="zstd",
        use_dictionary=_DICTIONARIES,
        dictionary_pagesize_limit=_DICTIONARY_BYTES,
        column_encoding=dict.fromkeys(("ms", "seq", "index"), "DELTA_BINARY_PACKED"),
        write_page_checksum=True,
        store_schema=False,
    ) as writer:
        for group in groups:
            if group.num_rows:
                writer.write_table(group, row_group_size=group.num_rows)


def read_groups(path: Path, columns: list[str] | None, file: BinaryIO | None = None) -> Iterator[pa.RecordBatch]:
    """Row groups of the segment at `path`; kind, user and item dictionary-encoded.

    Args:
        path: path of the segment.
        columns: names to read; None: all.
        file: the segment if it is open already; closed at the end.

    Raises:
        FileNotFoundError: it was merged into another one.
        CorruptLog: it is torn or altered.
        NewerEntry: a newer version wrote entries of kinds that this one does not know.
    """
    try:
        with file or files.open_regular(path) as segment:
            parquet = pq.ParquetFile(segment, read_dictionary=["kind", "user", "item"], page_checksum_verification=True)
            for group in range(parquet.num_row_groups):
                table = parquet.read_row_group(group, columns=columns, use_threads=False)
                there = set(table.column_names)
                for field in SCHEMA:  # nulls in place of columns that older versions did not write
                    if field.name not in there and (columns is None or field.name in columns):
                        table = table.append_column(field, [pa.nulls(table.num_rows, field.type)])
                batch = table.combine_chunks().to_batches()[0]
                if "kind" in batch.schema.names:
                    unknown = set(batch.column("kind").dictionary.to_pylist()) - KINDS
                    if unknown:
                        kinds = sorted(map(str, unknown))
                        raise NewerEntry(f"{path} has entries of the kinds {kinds}: upgrade this process")
                yield batch
    except FileNotFoundError:
        raise
    except (OSError, ValueError, pa.ArrowException) as error:  # the library raises all of these
        raise CorruptLog(f"Invalid segment {path}: expected an intact file of ratings, got: {error}") from error


def behind(batch: pa.RecordBatch, cursor: StreamId) -> pa.RecordBatch:
    """The rows after `cursor`."""
    return batch.filter(pa.array(are_above(batch, cursor)))


def are_below(batch: pa.RecordBatch, position: StreamId) -> NDArray[np.bool_]:
    """Which rows are before `position`."""
    ms, seq = (batch.column(name).to_numpy() for name in ("ms", "seq"))
    below: NDArray[np.bool_] = (ms < position.ms) | ((ms == position.ms) & (seq < position.seq))
    return below


def are_above(batch: pa.RecordBatch, position: StreamId) -> NDArray[np.bool_]:
    """Which rows are after `position`."""
    return ~are_below(batch, StreamId(position.ms, position.seq + 1))


def holds(groups: Iterable[pa.RecordBatch], users: Iterable[str]) -> bool:
    """Whether any row names one of `users`."""
    wanted = pa.array(list(users), pa.string())
    return any(pc.any(pc.is_in(batch.column("user").dictionary, wanted)).as_py() for batch in groups)


def check_rows(batch: pa.RecordBatch, first: StreamId, last: StreamId, path: Path) -> None:
    """Check that all positions ascend and lie between `first` and `last`, both included.

    Raises:
        CorruptLog: they do not.
    """
    ms, seq, index = (batch.column(name).to_numpy() for name in ("ms", "seq", "index"))
    later = (ms[1:] > ms[:-1]) | ((ms[1:] == ms[:-1]) & (seq[1:] > seq[:-1]))
    is_ordered = later | ((ms[1:] == ms[:-1]) & (seq[1:] == seq[:-1]) & (index[1:] > index[:-1]))
    if are_below(batch, first).any() or are_above(batch, last).any() or not is_ordered.all():
        raise CorruptLog(f"Invalid segment {path}: expected rows from {first} to {last} in order, got others")
